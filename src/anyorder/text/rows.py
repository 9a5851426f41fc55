"""What a generator is given and works on: inputs as ids, canvases to write on, and both as rows of the core."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import torch

from anyorder.core import Automaton, State
from anyorder.core.model import without
from anyorder.text.batching import TOKEN_BUDGET, batches


@dataclass(frozen=True)
class Canvas:
    """What a hypothesis is written on."""

    tokens: tuple[int, ...]  # mask_id where it is to be written
    log_length: float = 0.0  # log p(L|X)
    copy: int = 0  # canvases that are alike draw other numbers if their copies differ
    rule: Automaton | None = None  # what the text, or each of its parts, must be
    parts: tuple[int, ...] | None = None  # which part each position belongs to, −1: none; None: all of it is one


@dataclass(frozen=True)
class Input:
    """X as ids (none for a language model), and the canvases to write on; without any, lengths are proposed."""

    source: tuple[int, ...] = ()
    canvases: tuple[Canvas, ...] = ()
    rule: Automaton | None = None  # what the text must be, where lengths are proposed

    @property
    def size(self) -> int:
        """Tokens that it is sorted by: its source, and its longest canvas where that is known."""
        return len(self.source) + 2 + max((len(c.tokens) for c in self.canvases), default=0)

    @property
    def longest(self) -> int:
        """Symbols of its longest canvas; without any, of one whose end is open."""
        return max((len(c.tokens) for c in self.canvases), default=open_end(len(self.source)))


class Place(NamedTuple):
    """Whose row it is: the input, and which of its canvases."""

    input: int
    canvas: int


@dataclass(frozen=True, eq=False)
class Batch:
    """Canvases as N rows of the core, ready for its steps; every source was encoded once."""

    sources: list[tuple[int, ...]]  # of each row
    canvases: list[Canvas]
    places: list[Place]
    context: Any  # the model's, one row per canvas
    state: State

    def __len__(self) -> int:
        return len(self.canvases)

    def take(self, rows: Sequence[int]) -> Batch:
        """Some of the rows."""
        if list(rows) == list(range(len(self))):
            return self
        index = torch.tensor(rows, dtype=torch.int64, device=self.state.tokens.device)
        sources, canvases, places = ([some[i] for i in rows] for some in (self.sources, self.canvases, self.places))
        return Batch(sources, canvases, places, without(self.context, index), self.state.take(index).trim())  # type: ignore[arg-type]

    def parts(self, beam: int) -> list[list[int]]:
        """The rows in parts of like canvases, each under the token budget."""
        width = max(map(len, self.sources))
        sizes = [row_size(width, len(c.tokens)) for c in self.canvases]
        return batches(sizes, TOKEN_BUDGET, beam, [c.tokens.count(self.state.mask_id) for c in self.canvases])

    def join(self, *others: Batch) -> Batch:
        """These rows, then the others'."""
        all_ = (self, *others)
        sources, canvases, places = (
            list(chain(*each)) for each in zip(*((b.sources, b.canvases, b.places) for b in all_), strict=True)
        )
        context, state = self.context.join(*(b.context for b in others)), self.state.join(*(b.state for b in others))
        return Batch(sources, canvases, places, context, state)

    def of(self, inputs: Sequence[int]) -> Batch:
        """The same rows, their inputs known by these numbers."""
        return replace(self, places=[Place(inputs[p.input], p.canvas) for p in self.places])


def row_size(source: int, canvas: int) -> int:
    """Tokens of a row, delimiters included."""
    return source + 4 + canvas


def open_end(source: int) -> int:
    """Symbols that a canvas has room for whose text ends where it likes, for a source of that many."""
    return 2 * source + 10


class Whole(NamedTuple):
    """A text that is scored: its source, and which of its symbols count."""

    source: Sequence[int]
    tokens: Sequence[int]
    start: int
    stop: int


class Scored(NamedTuple):
    """A text as it was scored: its symbols, and log p of each."""

    ids: tuple[int, ...]
    logp: tuple[float, ...]


def once(canvases: Iterable[Canvas]) -> Iterable[Canvas]:
    """Of canvases of the same length the likeliest, which comes first; none that can not be."""
    seen: dict[int, Canvas] = {}
    for canvas in canvases:
        if not seen or canvas.log_length > -torch.inf:
            seen.setdefault(len(canvas.tokens), canvas)
    return seen.values()
