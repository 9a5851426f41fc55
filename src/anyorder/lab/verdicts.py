"""When numbers make a claim true: rules for one pooled difference, and claims that are several of them at once.

A claim such as "the best" or "all of them" is a conjunction: it holds only if each of its parts holds, at the level as
it is (an intersection–union test needs no correction), and does not hold if one part is shown to be false. For that
any of the parts will do, so there the p of all parts are corrected for their number (Holm).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyorder.lab.metrics import LEVEL, Difference, holm

HOLDS, FAILS, NOT_SHOWN, UNKNOWN = "holds", "does not hold", "not shown", "not measured"
LESS, MORE, OPEN = "better, but by less", "better, but by more", "better, by how much is open"


@dataclass(frozen=True)
class Rule:
    """What a difference a − b must be: above `low`, below `high`, and (`about`) near a size.

    greater: a − b > 0; within(m): a − b > −m; alike(m): −m < a − b < m; by_about(s): a − b > 0, and the 95 % interval
    contains s and stays below 2s.
    """

    low: float
    high: float | None = None
    about: float | None = None

    @property
    def asked(self) -> str:
        """In words."""
        if self.about is not None:
            return f"above 0, with {self.about:+.2f} in the interval, below {2 * self.about:+.2f}"
        below = "" if self.high is None else f", below {self.high:+.2f}"
        return f"above {self.low:+.2f}{below}" if self.low or below else "above 0"

    def p(self, d: Difference) -> float:
        """The p of the bound that decides: of the nearest one where the difference is outside, else of the worst."""
        bounds = [self.low] if self.high is None else [self.low, self.high]
        if self.inside(d):
            return max(d.p_of(bound) for bound in bounds)
        return d.p_of(min(bounds, key=lambda bound: abs(d.delta - bound)))

    def inside(self, d: Difference) -> bool:
        """Is the difference itself as asked?"""
        return d.delta > self.low and (self.high is None or d.delta < self.high)

    def __call__(self, d: Difference, corrected: float) -> str:
        """The verdict; `corrected`: the p of the bound that decides, corrected for the number of parts."""
        if not self.inside(d):
            return FAILS if corrected < LEVEL else NOT_SHOWN
        if self.p(d) >= LEVEL:
            return NOT_SHOWN
        if self.about is None:
            return HOLDS
        return (
            LESS if d.high < self.about else MORE if d.low > self.about else HOLDS if d.high < 2 * self.about else OPEN
        )


greater = Rule(0.0)


def within(margin: float) -> Rule:
    """a is not more than `margin` below b."""
    return Rule(-margin)


def alike(margin: float) -> Rule:
    """a and b differ by less than `margin`: both bounds count (equivalence)."""
    return Rule(-margin, margin)


def by_about(size: float) -> Rule:
    """a is better than b, by about `size`."""
    return Rule(0.0, about=size)


@dataclass(frozen=True)
class Judged:
    """A part of a claim: its pooled difference, and what that comes to."""

    name: str
    rule: Rule
    difference: Difference
    corrected: float  # p, for the number of parts (Holm)

    @property
    def verdict(self) -> str:
        """What this part comes to."""
        return self.rule(self.difference, self.corrected)

    @property
    def cells(self) -> list[str]:
        """A row of the table of parts."""
        d = self.difference
        interval = f"{d.low:+.2f} … {d.high:+.2f}"
        p = f"{self.rule.p(d):.3f}"
        return [self.name, f"{d.delta:+.2f}", interval, self.rule.asked, p, f"{self.corrected:.3f}", self.verdict]


PARTS = ("all comparisons of", "pooled Δ", "95 % interval", "asked", "p", "p (Holm)", "here")


def judge(parts: Sequence[tuple[str, Rule, Difference]]) -> list[Judged]:
    """Every part with its p corrected for their number."""
    corrected = holm([rule.p(d) for _, rule, d in parts])
    return [Judged(*part, p) for part, p in zip(parts, corrected, strict=True)]


def conjunction(parts: Sequence[str]) -> str:
    """The verdict of a claim from those of its parts."""
    if not parts:
        return UNKNOWN
    for verdict in (FAILS, UNKNOWN, NOT_SHOWN):
        if verdict in parts:
            return verdict
    return next((verdict for verdict in parts if verdict != HOLDS), HOLDS)
