"""What the text layer gives back: hypotheses, translations, fillings, scores."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from anyorder.text.search import Path
from anyorder.traces.trace import Trace


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


def ranked(hypotheses: Iterable[Hypothesis]) -> tuple[Hypothesis, ...]:
    """Hypotheses by score, best first; of those with the same symbols, the best one only."""
    best: dict[tuple[int, ...], Hypothesis] = {}
    for h in sorted(hypotheses, key=lambda h: -h.score):
        best.setdefault(h.ids, h)
    return tuple(best.values())


def told(score: float) -> float | None:
    """A score as JSON has it: null where it is not known."""
    return score if math.isfinite(score) else None
