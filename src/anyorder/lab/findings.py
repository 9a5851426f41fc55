"""What the paper found: each claim with the comparisons that decide it, judged from the rows of this report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anyorder.lab.generations import watched
from anyorder.lab.metrics import Difference, bleu_of, paired
from anyorder.lab.results import Results, Row
from anyorder.lab.rows import AR, BUDGETS, SEEN, Rows
from anyorder.lab.tables import folded, table
from anyorder.lab.verdicts import (
    FAILS,
    HOLDS,
    PARTS,
    UNKNOWN,
    Judged,
    Rule,
    alike,
    by_about,
    conjunction,
    greater,
    judge,
    within,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

DETERMINISTIC = ("left2right", "least2most", "easy-first", "learned")
PAPER = ("uniform", *DETERMINISTIC)
OTHERS = ("uniform", "left2right", "least2most", "hard-first")
SOME, FEWER = "⌈L/T⌉", "L→1"

Key = tuple[str, tuple[str, ...]]  # a table, and the name of a row in it
BEST, BASELINE = ("best", ()), ("1", ("4", "L", AR))  # Table 1's row with the highest BLEU; the baseline's beam
END, WHOLE = "energy at the end", "mean energy"  # of watched generations: their sign is turned, as low is good


class Part(NamedTuple):
    """One of the statements that a claim consists of: a against b, several times, pooled, and what that must be."""

    name: str
    rule: Rule
    pairs: list[tuple[str, Key, Key]]  # what is compared, a, b


@dataclass(frozen=True)
class Claim:
    """What the paper found. It holds if all of its parts do."""

    number: str
    text: str
    parts: list[Part]


class Pair(NamedTuple):
    """A comparison in one direction whose rows this model has."""

    name: str
    a: Row | Key
    b: Row | Key
    direction: str


def _linear(order: str, beam: str = "1", steps: str = "L") -> Key:
    return "1", (beam, steps, order)


def _constant(order: str, budget: int, count: str) -> Key:
    return "3", (str(budget), count, order)


def claims(seeds: int) -> list[Claim]:
    """What the paper found, in its sections 4, 5 and 6 and in appendix C."""
    one, t3, both = _linear, _constant, ("1", "4")

    def whole(name: str, rule: Rule, pairs: list[tuple[str, Key, Key]]) -> list[Part]:
        return [Part(name, rule, pairs)]

    def some(name: str, rule: Rule, a: tuple[str, str], b: tuple[str, str]) -> Part:
        """(order, o_t) a against b, at both budgets."""
        pairs = [(f"{name}, T = {t}", t3(a[0], t, a[1]), t3(b[0], t, b[1])) for t in BUDGETS]
        return Part(name, rule, pairs)

    def against(a: str, others: Sequence[str]) -> list[Part]:
        """a against every other order, with ⌈L/T⌉ symbols per step."""
        return [some(f"{a} against {o}", greater, (a, SOME), (o, SOME)) for o in others]

    def lower(which: str, a: str, b: str) -> Part:
        """The energy of a against that of b."""
        name = f"{a} against {b}"
        return Part(name, greater, [(f"{name}, {which}", (which, (a,)), (which, (b,)))])

    rescored = [(o, b, one(o, b, "L*"), one(o, b)) for o in PAPER for b in both]
    four: list[tuple[str, Key, Key]] = [("4 lengths against the reference's length", ("2", ("4",)), ("2", ("Gold",)))]
    return [
        Claim("4.1", "Four length candidates are as good as the reference's length: less than 1 BLEU below it.",
              whole("4 lengths", within(1.0), four)),
        Claim("5.1", "Deterministic orders are significantly better than a uniformly random one.",
              [Part(f"{o} against uniform", greater,
                    [(f"{o} against uniform (seed {s})", one(o), ("seeds", (str(s),))) for s in range(seeds)])
               for o in DETERMINISTIC]),
        Claim("5.2", "Beam search (b = 4) is better than greedy search, by about 1 BLEU.",
              whole("b = 4 against 1", by_about(1.0), [(f"{o}, b = 4 against 1", one(o, "4"), one(o)) for o in PAPER])),
        Claim("5.3", "Rescoring with an autoregressive model helps all orders, by about 1 BLEU.",
              [*(Part(f"{order}, rescored against not", greater,
                      [(f"{o}, b = {b}, rescored against not", x, y) for o, b, x, y in rescored if o == order])
                 for order in PAPER),
               Part("all orders, rescored against not", by_about(1.0),
                    [(f"{o}, b = {b}, rescored against not", x, y) for o, b, x, y in rescored])]),
        Claim("5.4", "Learned and left2right are the best orders.",
              [Part(f"{a} against {b}", greater,
                    [(f"{a} against {b}, b = {beam}", one(a, beam), one(b, beam)) for beam in both])
               for a in ("learned", "left2right") for b in ("uniform", "least2most", "easy-first")]),
        Claim("5.5", "A second pass (T = 2L) changes little: less than half a BLEU.",
              [Part(f"{o}, 2L against L", alike(0.5),
                    [(f"{o}, b = {b}, 2L against L", one(o, b, "2L"), one(o, b)) for b in both]) for o in PAPER]),
        Claim("5.6", "The undirected model's best row is less than 1 BLEU below the autoregressive model's beam.",
              whole("best row against the baseline", within(1.0), [("best row against the baseline", BEST, BASELINE)])),
        Claim("6.1", "In constant time left2right is worse than the best orders.",
              [some("least2most against left2right, L→1", greater, ("least2most", FEWER), ("left2right", FEWER)),
               some("learned against left2right, ⌈L/T⌉", greater, ("learned", SOME), ("left2right", SOME)),
               some("easy-first against left2right, ⌈L/T⌉", greater, ("easy-first", SOME), ("left2right", SOME))]),
        Claim("6.2a", "Learned is the best order with ⌈L/T⌉ symbols per step.",
              against("learned", (*OTHERS, "easy-first"))),
        Claim("6.2b", "Learned is significantly worse with L→1 than with ⌈L/T⌉.",
              [some("⌈L/T⌉ against L→1", greater, ("learned", SOME), ("learned", FEWER))]),
        Claim("6.3a", "Easy-first is the best handcrafted order with ⌈L/T⌉ symbols per step.",
              against("easy-first", OTHERS)),
        Claim("6.3b", "With L→1 easy-first is worse than least2most.",
              [some("least2most against easy-first", greater, ("least2most", FEWER), ("easy-first", FEWER))]),
        Claim("6.4", "With L→1 hard-first is on par with least2most: less than 1 BLEU apart.",
              [some("hard-first against least2most", alike(1.0), ("hard-first", FEWER), ("least2most", FEWER))]),
        Claim("6.5", "T = 20, L→1, least2most, rescored, is within 1 BLEU of linear time and of the autoregressive "
              "beam.",
              [Part(name, within(1.0), [(name, t3("least2most", 20, FEWER + "*"), b)])
               for name, b in (("against the best linear-time row", BEST), ("against the baseline", BASELINE))]),
        Claim("6.6", "Even T = 10 loses no more than 1.8 BLEU against linear time.",
              whole("against the best linear-time row", within(1.8),
                    [("against the best linear-time row", t3("least2most", 10, FEWER + "*"), BEST)])),
        Claim("C.1", "Left2right, least2most and easy-first write texts of lower energy than uniform does, over the "
              "whole generation.", [lower(WHOLE, o, "uniform") for o in ("left2right", "least2most", "easy-first")]),
        Claim("C.2", "Easy-first ends at the lowest energy, least2most comes next, then left2right.",
              [lower(END, "easy-first", "least2most"), lower(END, "least2most", "left2right")]),
    ]  # fmt: skip


# ---------------------------------------------------------------- judged


def pairs(results: Results, rows: Rows, part: Part) -> Iterator[Pair]:
    """The comparisons of a part that this report has rows for."""
    energies = {(which, (w.order,)) for w in rows.watches() for which in (END, WHOLE)}
    for direction in rows.scope.directions:
        known: dict[Key, Row | Key] = {key: key for key in energies}
        known |= {(t, name): row for t in ("1", "2", "3", "seeds") for name, row in rows.of(t, direction).items()}
        if rows.scope.quick and ("1", ("1", "L", AR)) in known:
            known[BASELINE] = known["1", ("1", "L", AR)]
        linear = [r for n, r in rows.of("1", direction).items() if n[2] in PAPER and results.ready(r)]
        sentences = results.common(linear)
        found = [m for r in linear if (m := results.measure(r, sentences)) is not None]
        if found:
            known[BEST] = max(found, key=lambda m: m.quality.bleu).row
        for name, a, b in part.pairs:
            if a in known and b in known:
                yield Pair(f"{direction}: {name}", known[a], known[b], direction)


class Evidence:
    """What was measured, as differences: BLEU over the sentences that all rows of a claim have, or energies."""

    def __init__(self, results: Results, rows: Rows, every: Sequence[Pair]) -> None:
        self.results, self.rows = results, rows
        self.ready = [p for p in every if self._known(p.a, p.direction) and self._known(p.b, p.direction)]
        of_rows = [row for p in self.ready for row in (p.a, p.b) if isinstance(row, Row)]
        self.sentences = results.common(of_rows) if of_rows else 0
        self.energy = bool(every) and not isinstance(every[0].a, Row)

    def _known(self, side: Row | Key, direction: str) -> bool:
        return bool(self.results.ready(side)) if isinstance(side, Row) else self._energies(side, direction) is not None

    def _energies(self, key: Key, direction: str) -> NDArray[np.float64] | None:
        """−energy of each generation (N, 1): what is likelier is more."""
        which, (order,) = key
        watch = next((w for w in self.rows.watches() if (w.direction, w.order) == (direction, order)), None)
        seen = None if watch is None else watched(watch, self.results.store)
        if seen is None:
            return None
        return np.array([[-(s.energy[-1] if which == END else float(np.mean(s.energy)))] for s in seen])

    def _statistics(self, side: Row | Key, direction: str) -> NDArray[np.float64]:
        if isinstance(side, Row):
            measured = self.results.measure(side, self.sentences)
            assert measured is not None
            return measured.statistics
        energies = self._energies(side, direction)
        assert energies is not None
        return energies

    def difference(self, some: Sequence[Pair]) -> Difference:
        """The mean difference of several comparisons."""
        both = [tuple(self._statistics(side, p.direction) for side in (p.a, p.b)) for p in some]
        size = len(both[0][0])
        score: Callable[[NDArray[np.float64]], NDArray[np.float64]] = lambda sums: sums[..., 0] / size  # noqa: E731
        return paired([(a, b) for a, b in both], score if self.energy else bleu_of)


@dataclass(frozen=True)
class Finding:
    """A claim, judged: its verdict, why, its parts, and each comparison by itself."""

    claim: Claim
    verdict: str
    because: str
    parts: list[Judged]
    comparisons: Mapping[str, Difference]

    @property
    def energy(self) -> bool:
        """Is it about energies?"""
        return self.claim.parts[0].pairs[0][1][0] in (END, WHOLE)


def judged(results: Results, rows: Rows, claim: Claim) -> Finding:
    """The verdict: each part by the mean difference over all of its comparisons that are measured."""
    of = {part.name: list(pairs(results, rows, part)) for part in claim.parts}
    every = list(dict.fromkeys(p for some in of.values() for p in some))
    evidence = Evidence(results, rows, every)
    ready = {name: [p for p in some if p in evidence.ready] for name, some in of.items()}
    parts = judge([(p.name, p.rule, evidence.difference(ready[p.name])) for p in claim.parts if ready[p.name]])
    missing = [UNKNOWN for name, some in of.items() if some and not ready[name]]
    verdict = conjunction([part.verdict for part in parts] + missing)
    each = {p.name: evidence.difference([p]) for p in evidence.ready}
    left = len(every) - len(evidence.ready)
    over = f"{len(each)} comparisons over {SEEN if evidence.energy else evidence.sentences} sentences"
    unit = "" if evidence.energy else " BLEU"
    because = (
        f"{_evidence(parts, unit)}; {over}" + (f" ({left} more are not measured)" if left else "") if parts else ""
    )
    return Finding(claim, verdict, because, parts, each)


def _evidence(parts: Sequence[Judged], unit: str) -> str:
    """The numbers of the part that decides: the clearest that fails, else the least clear of those that decide."""
    verdicts = [part.verdict for part in parts]
    verdict = conjunction(verdicts)
    some = [part for part in parts if part.verdict == verdict]
    deciding = (min if verdict == FAILS else max)(some, key=lambda part: (part.corrected, -part.difference.delta))
    d, rule = deciding.difference, deciding.rule
    numbers = f"mean Δ = {d.delta:+.2f}{unit}, 95 % interval {d.low:+.2f} … {d.high:+.2f}, "
    numbers += f"asked: {rule.asked}" if rule != greater else f"p = {rule.p(d):.3f}"
    if len(parts) == 1:
        return numbers
    return f"{verdicts.count(HOLDS)} of {len(parts)} parts hold; {deciding.name}: {numbers}"


def findings(results: Results, rows: Rows) -> list[str]:
    """How many hold, a table of all claims, and folded under it the comparisons of each, and its parts."""
    out, below, verdicts = [], [], Counter[str]()
    for claim in claims(rows.scope.seeds):
        found = judged(results, rows, claim)
        verdicts[found.verdict] += 1
        out.append([claim.number, claim.text, f"**{found.verdict}**", found.because])
        lines = [[name, f"{d.delta:+.2f} (p = {d.p:.3f})"] for name, d in found.comparisons.items()]
        unit = "Δ −energy" if found.energy else "Δ BLEU"
        text = table(["comparison", unit], lines) + "\n\n" + table(PARTS, [part.cells for part in found.parts])
        below.append(folded(f"{claim.number}: {found.verdict}, {len(lines)} comparisons", text.strip()))
    counted = ", ".join(f"{name}: {n}" for name, n in verdicts.most_common())
    short = f"The paper's {len(out)} findings: {counted}."
    every = folded("Every comparison", "\n\n".join(text for text in below if text))
    return [short, table(["", "the paper's finding", "here", "because"], out), every]
