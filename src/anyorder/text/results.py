"""What the text layer gives back: what was found on rows, hypotheses, translations, fillings, scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Beam, Cost, State, Step
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


def alive(found: Found) -> list[tuple[int, int]]:
    """(row, k) of every hypothesis that exists."""
    rows: list[list[int]] = (found.score != -torch.inf).nonzero().tolist()  # it may be NaN, where none was asked for
    return [(n, k) for n, k in rows]


@dataclass(frozen=True)
class Hypothesis:
    """One candidate. The generator knows its symbols; whoever holds it says them as text."""

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    logp: tuple[float, ...]  # log p of each symbol when it was written
    score: float  # what candidates are ranked by: the chosen score divided by the length; NaN if none was asked for
    path_score: float  # log p(G|X); NaN where positions were chosen by the symbols drawn there
    log_length: float  # log p(L|X)
    path: Path | None = field(default=None, repr=False, compare=False)  # how it was written, where that was kept


@dataclass(frozen=True)
class Translation:
    """What came of one sentence: its best hypothesis and the n-best list."""

    source: str
    hypotheses: tuple[Hypothesis, ...] = ()
    error: str | None = None
    trace: Trace | None = field(default=None, repr=False, compare=False)  # of the best, where it was asked for

    @property
    def text(self) -> str:
        """The best hypothesis's text; empty where there is none."""
        return self.hypotheses[0].text if self.hypotheses else ""

    @property
    def score(self) -> float:
        """The best hypothesis's score; 0 where there is none."""
        return self.hypotheses[0].score if self.hypotheses else 0.0

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str | None:
        """How it came about, in a notebook, where it was traced."""
        return None if self.trace is None else self.trace._repr_html_()


@dataclass(frozen=True)
class Moment:
    """A generation after one step, for those who want to watch."""

    t: int
    tokens: tuple[str | None, ...]  # None where nothing is written yet
    written: tuple[int, ...]  # positions of this step
    text: str


@dataclass(frozen=True)
class Filling:
    """One way to fill a text."""

    text: str
    tokens: tuple[str, ...]  # the tokens that were written, left to right
    ids: tuple[int, ...]
    logp: float  # log p of all of them jointly, in the order they were written
    score: float  # log p(G) of the path, which fillings are ranked by; NaN where a drawn symbol chose its own position
    trace: Trace | None = field(default=None, repr=False, compare=False)  # where it was asked for

    @property
    def probability(self) -> float:
        """p of all written tokens jointly."""
        return math.exp(self.logp)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TextScore:
    """The pseudo log-likelihood of a text."""

    text: str
    tokens: tuple[str, ...]
    logp: tuple[float, ...]  # log p of each token given all others
    problem: str | None = None  # why it cannot be at all, where log p is −∞

    @property
    def total(self) -> float:
        """Σ log p."""
        return sum(self.logp)

    @property
    def perplexity(self) -> float:
        """exp(−PLL/n), the pseudo-perplexity."""
        return math.exp(-self.total / max(1, len(self.logp)))


@dataclass(frozen=True)
class Likelihood:
    """log p of a text, by one of the ways that `LanguageModel.likelihood` has."""

    text: str
    nats: float
    error: float  # the standard error of an estimate; 0 of what is exact
    tokens: int
    greedy: bool = False  # does greedy writing from left to right give it? (where that was asked)

    @property
    def bits(self) -> float:
        """log₂ p."""
        return self.nats / math.log(2)


def ranked(hypotheses: Iterable[Hypothesis]) -> tuple[Hypothesis, ...]:
    """Hypotheses by score, best first; of those with the same symbols, the best one only."""
    best: dict[tuple[int, ...], Hypothesis] = {}
    for h in sorted(hypotheses, key=lambda h: -h.score):
        best.setdefault(h.ids, h)
    return tuple(best.values())


def told(score: float) -> float | None:
    """A score as JSON has it: null where it is not known."""
    return score if math.isfinite(score) else None
