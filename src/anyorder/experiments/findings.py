"""The paper's findings, each judged by code from the rows that decide it: holds, does not hold, not significant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anyorder.experiments.evaluate import Difference
from anyorder.experiments.results import Results, Row

HOLDS, FAILS, UNCLEAR, UNKNOWN = "holds", "does not hold", "not significant", "not measured"
Pair = tuple[str, Row, Row]  # what is compared, a, b


@dataclass(frozen=True)
class Finding:
    """A claim of the paper and what was measured."""

    number: str
    claim: str
    verdict: str
    evidence: str  # the mean difference with its interval, and the sentences it is from
    rows: list[tuple[str, str]]  # each comparison with its own difference


def greater(d: Difference) -> str:
    """a is better than b."""
    if not d.significant:
        return UNCLEAR
    return HOLDS if d.delta > 0 else FAILS


def within(margin: float) -> Callable[[Difference], str]:
    """a is not more than `margin` BLEU below b: judged by the 95 % interval of a − b."""

    def judge(d: Difference) -> str:
        if d.low > -margin:
            return HOLDS
        return FAILS if d.high < -margin else UNCLEAR

    return judge


def alike(margin: float) -> Callable[[Difference], str]:
    """a and b differ by less than `margin` BLEU: judged by the 95 % interval of a − b."""

    def judge(d: Difference) -> str:
        if -margin < d.low and d.high < margin:
            return HOLDS
        return FAILS if d.high < -margin or d.low > margin else UNCLEAR

    return judge


def judge(
    results: Results, number: str, claim: str, pairs: Sequence[Pair], verdict: Callable[[Difference], str]
) -> Finding:
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
    evidence = (
        f"mean Δ = {whole.delta:+.2f} BLEU, 95 % interval {whole.low:+.2f} … {whole.high:+.2f}, p = {whole.p:.3f}"
    )
    evidence += f"; {len(ready)} comparisons over {sentences} sentences"
    evidence += f" ({missing} more are not measured)" if missing else ""
    return Finding(number, claim, verdict(whole), evidence, rows)
