"""The paper's findings, each judged by code from the rows that decide it, in words that say what was tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anyorder.experiments.evaluate import Difference
from anyorder.experiments.results import Results, Row

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not measured"
UNCLEAR = "not significant"  # a difference was asked for, and none is shown
BEYOND = "not within the margin"  # the interval reaches beyond the margin: neither shown to be inside nor outside
LESS, MORE, OPEN = "better, but by less", "better, but by more", "better, by how much is open"
Pair = tuple[str, Row, Row]  # what is compared, a, b


@dataclass(frozen=True)
class Finding:
    """A claim of the paper and what was measured."""

    number: str
    claim: str
    verdict: str
    evidence: str  # the mean difference with its interval, what was asked of it, and the sentences it is from
    rows: list[tuple[str, str]]  # each comparison with its own difference


@dataclass(frozen=True)
class Rule:
    """When a difference a − b makes a claim true."""

    judge: Callable[[Difference], str]
    asked: str = ""  # of the 95 % interval; empty where the question is whether there is a difference at all

    def __call__(self, d: Difference) -> str:
        """The verdict."""
        return self.judge(d)

    def evidence(self, d: Difference) -> str:
        """The numbers that the verdict rests on, and no others: a margin is not judged by the p of no difference."""
        numbers = f"mean Δ = {d.delta:+.2f} BLEU, 95 % interval {d.low:+.2f} … {d.high:+.2f}, "
        return numbers + (f"asked: {self.asked}" if self.asked else f"p = {d.p:.3f}")


def _better(d: Difference) -> str:
    if not d.significant:
        return UNCLEAR
    return HOLDS if d.delta > 0 else FAILS


greater = Rule(_better)  # a is better than b


def by_about(size: float) -> Rule:
    """a is better than b, by about `size` BLEU: the 95 % interval of a − b contains `size` and stays below twice it."""

    def judge(d: Difference) -> str:
        if _better(d) != HOLDS:
            return _better(d)
        if d.high < size:
            return LESS
        if d.low > size:
            return MORE
        return HOLDS if d.high < 2 * size else OPEN

    return Rule(judge, f"above 0, with {size:+.2f} in it, below {2 * size:+.2f}")


def within(margin: float) -> Rule:
    """a is not more than `margin` BLEU below b: judged by the 95 % interval of a − b."""

    def judge(d: Difference) -> str:
        if d.low > -margin:
            return HOLDS
        return FAILS if d.high < -margin else BEYOND

    return Rule(judge, f"above {-margin:+.2f}")


def alike(margin: float) -> Rule:
    """a and b differ by less than `margin` BLEU: judged by the 95 % interval of a − b."""

    def judge(d: Difference) -> str:
        if -margin < d.low and d.high < margin:
            return HOLDS
        return FAILS if d.high < -margin or d.low > margin else BEYOND

    return Rule(judge, f"between {-margin:+.2f} and {margin:+.2f}")


def judge(results: Results, number: str, claim: str, pairs: Sequence[Pair], rule: Rule) -> Finding:
    """The mean difference over all pairs that were measured, by paired bootstrap, decides."""
    ready = [p for p in pairs if results.ready(p[1]) and results.ready(p[2])]
    sentences = results.common([row for _, a, b in ready for row in (a, b)])
    whole = results.compare([(a, b) for _, a, b in ready], sentences) if ready else None
    if whole is None:
        return Finding(number, claim, UNKNOWN, "", [])
    rows = []
    for name, a, b in ready:
        one = results.compare([(a, b)], sentences)
        assert one is not None
        rows.append((name, f"{one.delta:+.2f} (p = {one.p:.3f})"))
    missing = len(pairs) - len(ready)
    evidence = f"{rule.evidence(whole)}; {len(ready)} comparisons over {sentences} sentences"
    evidence += f" ({missing} more are not measured)" if missing else ""
    return Finding(number, claim, rule(whole), evidence, rows)
