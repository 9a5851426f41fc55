"""What the text layer gives back, and the error it raises for an input it cannot use."""

from __future__ import annotations

from dataclasses import dataclass


class TextError(ValueError):
    """An input that cannot be translated; says which and why."""


@dataclass(frozen=True)
class Hypothesis:
    """One candidate translation."""

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    logp: tuple[float, ...]  # log p of each token when it was written
    score: float  # what candidates are ranked by: the chosen score divided by the length
    path_score: float  # log p(G|X)
    log_length: float  # log p(L|X)


@dataclass(frozen=True)
class Translation:
    """What came of one sentence: its best hypothesis and the n-best list."""

    source: str
    hypotheses: tuple[Hypothesis, ...] = ()
    error: str | None = None

    @property
    def text(self) -> str:
        return self.hypotheses[0].text if self.hypotheses else ""

    @property
    def score(self) -> float:
        return self.hypotheses[0].score if self.hypotheses else 0.0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Moment:
    """A generation after one step, for those who want to watch."""

    t: int
    tokens: tuple[str | None, ...]  # None where nothing is written yet
    written: tuple[int, ...]  # positions of this step
    text: str
