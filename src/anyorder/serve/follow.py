"""Following a generation: steps as events for whoever watches, or the finished beginning of a text as it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from anyorder.core import Decoder, Replace, Step
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

    Rows are known to be `expected` many. A decoder that may write a position again has no certain beginning.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], tell: Tell) -> None:
        self.decode, self.tell = decode, tell
        self.expected = 0
        self.start = 0  # where on the canvas the text begins
        self._rows: dict[int, list[int]] = {}
        self._told = ""

    def begin(self, rows: int, decoder: Decoder) -> None:
        """How many rows there will be, and what writes them."""
        final = decoder.coordinates.among.blank and type(decoder.edit) is Replace and not decoder.symbols.may_mask
        self.expected = rows if final and self.expected >= 0 else -1

    def __call__(self, row: int, taken: Step, n: int) -> None:
        if self.expected < 0:
            return
        ids = taken.state.tokens[n].tolist()[self.start :]
        end = next((i for i, token in enumerate(ids) if token == taken.state.mask_id), len(ids))
        self._rows[row] = [i for i in ids[:end] if i != taken.state.pad_id]
        if len(self._rows) < self.expected:
            return
        common = _common(list(self._rows.values()))
        text = self.decode(common)
        text = text[: max(text.rfind(" "), 0)]  # a word may go on
        if len(text) > len(self._told) and text.startswith(self._told):
            self._told = text
            self.tell(text)


def _common(rows: list[list[int]]) -> list[int]:
    out: list[int] = []
    for column in zip(*rows, strict=False):
        if any(token != column[0] for token in column):
            break
        out.append(column[0])
    return out
