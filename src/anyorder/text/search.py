"""From canvases to hypotheses: one call that decodes or searches, and what it remembers of the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Beam, Cost, Decoder, Model, State, Step, View, beam, decode, unroll
from anyorder.core.prefix_beam import Seen, texts
from anyorder.traces.record import Strings, record, record_path
from anyorder.traces.trace import Trace

SYMBOLS = 8  # of a slot, that a prefix beam follows
ALTERNATIVES = 5  # symbols that a trace shows beside each that was written


@dataclass(frozen=True, eq=False)
class Path:
    """How a hypothesis was written: what a trace is made of, without decoding again."""

    recipe: str
    first: State  # its canvas, one row
    cost: Cost
    steps: tuple[Step, ...] = ()  # where it was decoded
    beam: tuple[Beam, int] | None = None  # where it was searched for: the beams of the row, and which of them

    def trace(self, strings: Strings, **header: Any) -> Trace:
        """As a trace; `strings` turns ids into tokens, `header` goes into it."""
        if self.beam is None:
            return record(self.steps, 0, strings, self.cost, recipe=self.recipe, **header)
        found, k = self.beam
        return record_path(
            self.first, found.path[0, k], found.symbol[0, k], found.gain[0, k], float(found.score[0, k]), self.cost,
            strings, recipe=self.recipe, **header,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Found:
    """K hypotheses of each of N rows, best first by path score."""

    tokens: Tensor  # (N, K, L)
    logp: Tensor  # (N, K, L) log p of each symbol when it was written
    score: Tensor  # (N, K) log p(G|X); −inf where there are fewer than K
    cost: Cost
    path: Callable[[int], Path] | None = None  # how the k-th of a single row was written, where that was kept
    read: bool = False  # are `tokens` texts, read off their canvases already?


def search(
    model: Model, context: Any, state: State, decoder: Decoder, K: int = 1, K1: int = 1, *, keep: str | None = None,
    prefixes: int = 1, blank: int = 0,
) -> Found:  # fmt: skip
    """Greedy (or sampled) decoding for K = K′ = 1, else length-conditioned beam search; on slots a prefix beam.

    `keep` names the recipe under which the paths of a single row are kept, with the alternatives of each step.
    """
    if keep is not None and len(state.tokens) != 1:
        raise ValueError(f"the path of one row at a time can be kept, got {len(state.tokens)} rows")
    if prefixes > 1:
        return _texts(model, context, state, decoder, prefixes, blank, keep)
    if K > 1 or K1 > 1:
        b = beam(model, context, state, decoder, K, K1)
        path = None if keep is None else lambda k: Path(keep, state, b.cost, beam=(b, k))
        return Found(b.tokens, b.logp, b.score, b.cost, path)
    if keep is None:
        r = decode(model, context, state, decoder)
        return Found(r.tokens[:, None], r.logp[:, None], r.score[:, None], r.cost)
    cost = Cost()
    steps = tuple(unroll(model, context, state, decoder, cost=cost, alternatives=ALTERNATIVES))
    end = steps[-1].state if steps else state
    kept = Path(keep, state, cost, steps)
    return Found(end.tokens[:, None], end.logp[:, None], end.score[:, None], cost, lambda k: kept)


def _texts(
    model: Model, context: Any, state: State, decoder: Decoder, beam: int, blank: int, keep: str | None
) -> Found:
    """The likeliest texts on slots. A path that is kept ends in the most probable canvas that reads as its text."""
    if keep is None:
        found, cost = texts(model, context, state, decoder, beam, blank)
        return Found(found.tokens, found.logp, found.score, cost, read=True)
    cost, seen = Cost(), Seen(state, SYMBOLS)
    steps = tuple(unroll(model, context, state, decoder, cost=cost, alternatives=SYMBOLS))
    for taken in steps:
        seen.add(taken)
    return read_off(seen, beam, blank, cost, (keep, state, steps))


def read_off(seen: Seen, beam: int, blank: int, cost: Cost, way: tuple[str, State, tuple[Step, ...]] | None) -> Found:
    """The likeliest texts by what passes saw; `way` (recipe, canvas, steps) where the path of a single row is kept."""
    found = seen.texts(beam, blank)
    if way is None:
        return Found(found.tokens, found.logp, found.score, cost, read=True)
    recipe, state, steps = way
    canvases, logp = seen.canvases(found, blank)

    def path(k: int) -> Path:
        *first, last = steps
        end = last.state.but(tokens=canvases[k : k + 1], logp=logp[k : k + 1], score=found.score[0, k : k + 1])
        new = last.z | (end.tokens != last.state.tokens)  # its last step puts there what the search chose
        view = View(end.tokens, end.logp, top_token=seen.symbols, top_logp=seen.logp)
        told = last._replace(state=end, view=view, z=new, written=new)
        return Path(recipe, state, cost, (*first, told))

    return Found(found.tokens, found.logp, found.score, cost, path, read=True)


def alive(found: Found) -> list[tuple[int, int]]:
    """(row, k) of every hypothesis that exists."""
    rows: list[list[int]] = (found.score != -torch.inf).nonzero().tolist()  # it may be NaN, where none was asked for
    return [(n, k) for n, k in rows]
