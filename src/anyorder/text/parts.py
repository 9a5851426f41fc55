"""How the rows of some inputs are divided into parts, each of which is written by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from anyorder.machine import side_by_side
from anyorder.text.batching import ALIKE, CACHED, TOKEN_BUDGET, batches, evenly
from anyorder.text.rows import Batch, Input, row_size

Prepare = Callable[[list[int]], Batch]  # inputs by their numbers → their rows, the sources encoded together


class Part(NamedTuple):
    """Rows that are written together, and whose they are."""

    inputs: set[int]
    make: Callable[[], Batch]


def like_rows(prepare: Prepare, window: list[list[int]], beam: int, alone: bool = False) -> list[Part]:
    """Rows of like canvases under the token budget, or each `alone`. `window` has inputs of like sizes together."""
    return [
        Part({batch.places[n].input for n in rows}, partial(batch.take, rows))
        for batch in side_by_side(prepare, window)
        for rows in ([[n] for n in range(len(batch))] if alone else batch.parts(beam))
    ]


def cached_rows(prepare: Prepare, inputs: Sequence[Input], window: list[list[int]], beam: int) -> list[Part]:
    """The same where a cache is at work: a pass runs one column of each row, so rows of all sizes take it together.

    Sources are encoded with their like all the same, by whoever writes their part.
    """

    def made(some: list[int]) -> Batch:
        alike = batches([inputs[i].size for i in some], alike=ALIKE)
        first, *rest = [prepare([some[n] for n in group]) for group in alike]
        return first.join(*rest) if rest else first

    each = [i for group in window for i in group]
    sizes = [row_size(len(inputs[i].source), inputs[i].longest) for i in each]
    parts = [[each[n] for n in part] for part in evenly(sizes, TOKEN_BUDGET * CACHED, beam)]
    return [Part(set(some), partial(made, some)) for some in parts]
