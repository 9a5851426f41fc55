"""A translation job of the command line: results written as they come, and shown, traced or viewed if asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from anyorder.cli import _show, _stream

if TYPE_CHECKING:
    from anyorder.text.plan import Plan
    from anyorder.text.results import Translation
    from anyorder.text.translator import Translator

SAID = ("text", "ids", "tokens", "logp", "score", "path_score", "log_length")  # of a hypothesis, in JSON


@dataclass
class Job:
    """What is to be done with each text."""

    translator: Translator
    to: str
    source: str | None
    plan: Plan
    as_json: bool
    watch: _show.Watch
    failed: int = field(default=0, init=False)

    def texts(self, texts: Sequence[str], path: Path | None) -> None:
        """Translate the texts of a command line."""
        with _stream.output(path, False) as (out, _):
            self._do(1, texts, out, "text")

    def stream(self, raw: BinaryIO, name: str, path: Path | None, resume: bool) -> None:
        """Translate every line; what is finished is written, whatever happens next."""
        with _stream.output(path, resume) as (out, done):
            before = done
            try:
                with _stream.progress(raw, out, done) as advance:
                    for number, lines in _stream.windows(raw, name, skip=done):
                        self._do(number, lines, out, "line")
                        done = number + len(lines) - 1
                        advance(len(lines))
            except KeyboardInterrupt:
                hint = "; add --resume to go on" if path else ""
                print(f"anyorder: stopped after line {done}{hint}", file=sys.stderr)
                raise
            if self.failed:
                print(f"anyorder: {self.failed} of {done - before} lines are left empty", file=sys.stderr)

    def _do(self, number: int, texts: Sequence[str], out: TextIO, what: str) -> None:
        traced, plan = self.watch.wanted, self.plan
        found = self.translator.translate(texts, self.to, source=self.source, plan=plan, traced=traced)
        for n, result in enumerate(found):
            if result.error:
                self.failed += 1
                print(f"anyorder: {what} {number + n}: {result.error}", file=sys.stderr)
            elif result.trace is not None:
                self.watch(result.trace, out)
            out.write(self._line(number + n, result))
        out.flush()

    def _line(self, number: int, result: Translation) -> str:
        if self.as_json:
            hypotheses = [{name: getattr(h, name) for name in SAID} for h in result.hypotheses]
            record = {"source": result.source, "text": result.text, "score": result.score if hypotheses else None}
            return json.dumps({**record, "hypotheses": hypotheses, "error": result.error}, ensure_ascii=False) + "\n"
        if self.plan.choosing.nbest == 1:
            return one_line(result.text) + "\n"
        return "".join(f"{number} ||| {one_line(h.text)} ||| {h.score:.4f}\n" for h in result.hypotheses)


def one_line(text: str) -> str:
    """A text without line ends: models write any character, but a line in is a line out."""
    return text.replace("\r", " ").replace("\n", " ")
