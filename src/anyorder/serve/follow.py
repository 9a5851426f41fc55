"""Following a generation: steps as events for whoever watches, or the finished beginning of a text as it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from anyorder.core import Decoder, Replace, Step
from anyorder.serve.complete import Decode, Wanted
from anyorder.text.generator import Generator
from anyorder.traces.pieces import pieces
from anyorder.traces.record import Strings, trace_step

Tell = Callable[[Any], None]


def shown(tokens: Sequence[str | None]) -> dict[str, dict[str, Any]]:
    """How the page shows each token."""
    known = pieces([token for token in tokens if token is not None])
    return {
        token: {"text": p.text, "left": p.joins_left, "right": p.joins_right, "special": p.special}
        for token, p in known.items()
    }


class Steps:
    """Tells of every step of every row: ("begin", canvas) once, then ("step", positions, symbols, probabilities)."""

    def __init__(self, strings: Strings, tell: Tell) -> None:
        self.strings, self.tell = strings, tell
        self._begun: set[int] = set()

    def __call__(self, row: int, taken: Step, n: int) -> None:
        """Tell of a step of one row."""
        if row not in self._begun:
            self._begun.add(row)
            canvas = list(self.strings(taken.before.tokens[n]))
            first = {"row": row, "canvas": canvas, "pieces": shown(canvas), "log_length": float(taken.before.score[n])}
            self.tell(("begin", first))
        made = trace_step(taken, n, self.strings)
        new = [*made.tokens, *(token for some in made.alternatives or () for token, _ in some)]
        self.tell(("step", {"row": row, "step": asdict(made), "pieces": shown(new)}))


class Prefix:
    """Tells of the beginning that is certain: written in every row that may be chosen, alike in all, and final.

    A decoder that may write a position again has no certain beginning, and neither have several texts.
    """

    def __init__(self) -> None:
        self._decode: Decode | None = None  # None: nothing is certain before the end
        self._rows: dict[int, list[int]] = {}
        self._told = ""

    def heard_by(self, tell: Tell) -> Prefix:
        """Whoever is told."""
        self.tell = tell
        return self

    def begin(self, decode: Decode, generator: Generator, wanted: Wanted, start: int = 0) -> None:
        """A text is going to be written, from `start` on its canvas."""
        generator, plan = generator.carried_by(wanted.plan)
        plans = plan.each
        self._wanted, self._start = wanted, start
        blank = generator.direction is not None and not generator.causal  # lengths are proposed
        self._expected = len(plans) * (wanted.plan.lengths if blank else 1)
        self._held = max(map(len, wanted.stop), default=1) - 1  # what may be the beginning of a stop sequence
        self._end = None if generator.direction is None else generator.model.special.eos
        certain = wanted.n == 1 and all(_final(generator.decoder(one)) for one in plans)
        self._decode = decode if certain and not wanted.plan.polish else None

    def __call__(self, row: int, taken: Step, n: int) -> None:
        """Tell of what has become final from the left."""
        if self._decode is None:
            return
        ids = taken.state.tokens[n].tolist()[self._start :]
        end = next((i for i, token in enumerate(ids) if token == taken.state.mask_id), len(ids))
        self._rows[row] = [i for i in ids[:end] if i not in (taken.state.pad_id, self._end)]
        if len(self._rows) < self._expected:
            return
        text = self._decode(_common(list(self._rows.values()))[: self._wanted.tokens])
        if any(stop in text for stop in self._wanted.stop):
            return
        text = text[: max(text.rfind(" "), 0)]  # a word may go on
        text = text[: len(text) - self._held] if self._held else text
        if len(text) > len(self._told) and text.startswith(self._told):
            self._told = text
            self.tell(("text", text))


def _final(decoder: Decoder) -> bool:
    """Does what is written stay?"""
    return decoder.coordinates.among.blank and type(decoder.edit) is Replace and not decoder.symbols.may_mask


def _common(rows: list[list[int]]) -> list[int]:
    out: list[int] = []
    for column in zip(*rows, strict=False):
        if any(token != column[0] for token in column):
            break
        out.append(column[0])
    return out
