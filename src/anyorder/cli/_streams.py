"""A translation job of the command line: results written as they come, and shown, traced or viewed if asked."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from anyorder.cli import _show
from anyorder.cli._outputs import Outputs
from anyorder.cli._terminal import shown, visible
from anyorder.data.lines import CHUNK, windows
from anyorder.files import FileError, ctrl_c_waits, keep_apart, write_whole
from anyorder.progress import Bar

if TYPE_CHECKING:
    from anyorder.text.plan import Plan
    from anyorder.text.results import Translation
    from anyorder.text.translator import Translator

SAID = ("text", "ids", "tokens", "logp", "score", "path_score", "log_length")  # of a hypothesis, in JSON


@dataclass
class Run:
    """What is to be done with each text."""

    translator: Translator
    to: str
    source: str | None
    plan: Plan
    as_json: bool
    watch: _show.Watch
    failed: int = field(default=0, init=False)

    def texts(self, texts: Sequence[str], path: Path | None) -> None:
        """Translate the texts of a command line; a file is written whole."""
        lines = self._do(1, texts, "text")
        if path is None:
            for line in lines:
                sys.stdout.write(shown(line, sys.stdout))
            sys.stdout.flush()
        else:
            write_whole(path, "".join(lines))
        self.watch.commit()

    def stream(self, raw: IO[bytes], name: str, path: Path | None, resume: bool, settings: dict[str, Any]) -> None:
        """Translate every line; what is finished is written, whatever happens next."""
        done = before = 0
        outputs = Outputs([path, self.watch.file], settings)
        keep_apart({name: _file(raw)}, {"the record of --output": outputs.record and outputs.record.path})
        with outputs:
            if resume:
                outputs.resume()
            self.watch.sink = outputs.sinks[1]
            sizes = [block.lines for block in outputs.blocks]
            before = sum(sizes)
            try:
                with progress(raw, sys.stdout, before) as bar:
                    for n, (number, lines) in enumerate(windows(raw, name, sizes)):
                        if n < len(sizes):
                            outputs.check(n, number, lines)
                            done += len(lines)
                            continue
                        for line in self._do(number, lines, "line"):
                            outputs.sinks[0].write(line)
                        with ctrl_c_waits():  # a block is written, noted and counted, or none of it
                            outputs.commit(lines)
                            done += len(lines)
                        bar.advance(len(lines))
                if done < before:
                    raise FileError(f"{name} has {done} lines, but {path} has translations of {before}")
                outputs.begin()  # of an empty input an empty output
            except BaseException as problem:
                hint = "; add --resume to go on" if path and outputs.record else ""
                if isinstance(problem, (KeyboardInterrupt, FileError)) and done >= before:
                    print(f"anyorder: stopped after line {done}{hint}", file=sys.stderr)
                raise
            if self.failed:
                print(f"anyorder: {self.failed} of {done - before} lines are left empty", file=sys.stderr)

    def _do(self, number: int, texts: Sequence[str], what: str) -> Iterator[str]:
        traced, plan = self.watch.wanted, self.plan
        scores = traced or self.as_json or plan.nbest > 1  # are they shown?
        found = self.translator.translate(texts, self.to, source=self.source, plan=plan, traced=traced, scores=scores)
        for n, result in enumerate(found):
            if result.error:
                self.failed += 1
                print(f"anyorder: {what} {number + n}: {visible(result.error)}", file=sys.stderr)
            elif result.trace is not None:
                self.watch(result.trace)
            yield self._line(number + n, result)

    def _line(self, number: int, result: Translation) -> str:
        if self.as_json:
            hypotheses = [{name: _json(getattr(h, name)) for name in SAID} for h in result.hypotheses]
            record = {
                "source": result.source,
                "text": result.text,
                "score": _json(result.score) if hypotheses else None,
            }
            return json.dumps({**record, "hypotheses": hypotheses, "error": result.error}, ensure_ascii=False) + "\n"
        if self.plan.nbest == 1:
            return one_line(result.text) + "\n"
        return "".join(f"{number} ||| {one_line(h.text)} ||| {h.score:.4f}\n" for h in result.hypotheses)


def _json(value: Any) -> Any:
    from anyorder.text.results import told

    return told(value) if isinstance(value, float) else value


def _file(raw: IO[bytes]) -> int | None:
    try:
        return raw.fileno()
    except OSError:  # held in memory
        return None


def one_line(text: str) -> str:
    """A text without line ends: models write any character, but a line in is a line out."""
    return text.replace("\r", " ").replace("\n", " ")


def texts_or_lines(texts: list[str] | None) -> Iterator[str]:
    """The texts of a command line; without any, the lines of standard input."""
    if texts:
        yield from texts
        return
    for _, lines in windows(sys.stdin.buffer, "standard input"):
        yield from lines


def progress(raw: IO[bytes], out: TextIO, done: int) -> Bar:
    """A bar of lines; not shown where the lines themselves are."""
    shown = sys.stderr.isatty() and not out.isatty()
    return Bar("", _count_lines(raw) if shown else None, done, shown=shown)


def _count_lines(raw: IO[bytes]) -> int | None:
    """The lines left in a file; None where it can not be read twice (a pipe)."""
    try:
        start = raw.tell()
    except OSError:
        return None
    count, last = 0, b"\n"
    try:
        while chunk := raw.read(CHUNK):
            count, last = count + chunk.count(b"\n"), chunk[-1:]
    except (OSError, EOFError, zlib.error):
        return None  # it is damaged: how far it can be read will be said when it is read
    finally:
        raw.seek(start)
    return count + (last != b"\n")
