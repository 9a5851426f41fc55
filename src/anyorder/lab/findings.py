"""What the paper found in sections 5 and 6, each claim judged by code from the rows that decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from anyorder.lab.metrics import Difference
from anyorder.lab.results import Results, Row
from anyorder.lab.rows import AR, BUDGETS, Rows
from anyorder.lab.tables import folded, table

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not measured"
UNCLEAR = "not significant"  # a difference was asked for, and none is shown
BEYOND = "not within the margin"  # the interval reaches beyond the margin: neither shown to be inside nor outside
LESS, MORE, OPEN = "better, but by less", "better, but by more", "better, by how much is open"
DETERMINISTIC = ("left2right", "least2most", "easy-first", "learned")
PAPER = ("uniform", *DETERMINISTIC)
OTHERS = ("uniform", "left2right", "least2most", "hard-first")
SOME, FEWER = "⌈L/T⌉", "L→1"

Pair = tuple[str, Row, Row]  # what is compared, a, b
Key = tuple[str, tuple[str, ...]]  # a table, and the name of a row in it


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
    return UNCLEAR if not d.significant else HOLDS if d.delta > 0 else FAILS


greater = Rule(_better)  # a is better than b


def by_about(size: float) -> Rule:
    """a is better than b, by about `size` BLEU: the 95 % interval of a − b contains `size` and stays below twice it."""

    def judge(d: Difference) -> str:
        if _better(d) != HOLDS:
            return _better(d)
        return LESS if d.high < size else MORE if d.low > size else HOLDS if d.high < 2 * size else OPEN

    return Rule(judge, f"above 0, with {size:+.2f} in it, below {2 * size:+.2f}")


def within(margin: float) -> Rule:
    """a is not more than `margin` BLEU below b: judged by the 95 % interval of a − b."""
    judge = lambda d: HOLDS if d.low > -margin else FAILS if d.high < -margin else BEYOND  # noqa: E731
    return Rule(judge, f"above {-margin:+.2f}")


def alike(margin: float) -> Rule:
    """a and b differ by less than `margin` BLEU: judged by the 95 % interval of a − b."""

    def judge(d: Difference) -> str:
        if -margin < d.low and d.high < margin:
            return HOLDS
        return FAILS if d.high < -margin or d.low > margin else BEYOND

    return Rule(judge, f"between {-margin:+.2f} and {margin:+.2f}")


@dataclass(frozen=True)
class Claim:
    """a against b, for several a and b, and when that makes the claim true."""

    number: str
    text: str
    rule: Rule
    pairs: list[tuple[str, Key, Key]]


BEST, BASELINE = ("best", ()), ("1", ("4", "L", AR))  # Table 1's row with the highest BLEU; the baseline's beam


def _linear(order: str, beam: str = "1", steps: str = "L") -> Key:
    return "1", (beam, steps, order)


def _constant(order: str, budget: int, count: str) -> Key:
    return "3", (str(budget), count, order)


def claims(seeds: int) -> list[Claim]:
    """What the paper found."""
    one, t3, both = _linear, _constant, ("1", "4")

    def each(text: str, a: tuple[str, str], b: tuple[str, str]) -> list[tuple[str, Key, Key]]:
        """(order, o_t) a against b at both budgets."""
        return [(f"{text}, T = {t}", t3(a[0], t, a[1]), t3(b[0], t, b[1])) for t in BUDGETS]

    return [
        Claim("5.1", "Deterministic orders are significantly better than a uniformly random one.", greater,
              [(f"{o} against uniform (seed {s})", one(o), ("seeds", (str(s),)))
               for o in DETERMINISTIC for s in range(seeds)]),
        Claim("5.2", "Beam search (b = 4) is better than greedy search, by about 1 BLEU.", by_about(1.0),
              [(f"{o}, b = 4 against 1", one(o, "4"), one(o)) for o in PAPER]),
        Claim("5.3", "Rescoring with an autoregressive model helps all orders, by about 1 BLEU.", by_about(1.0),
              [(f"{o}, b = {b}, rescored against not", one(o, b, "L*"), one(o, b)) for o in PAPER for b in both]),
        Claim("5.4", "Learned and left2right are the best orders.", greater,
              [(f"{a} against {b}, b = {beam}", one(a, beam), one(b, beam))
               for a in ("learned", "left2right") for b in ("least2most", "easy-first") for beam in both]),
        Claim("5.5", "A second pass (T = 2L) changes little: less than half a BLEU.", alike(0.5),
              [(f"{o}, b = {b}, 2L against L", one(o, b, "2L"), one(o, b)) for o in PAPER for b in both]),
        Claim("5.6", "The undirected model's best row is less than 1 BLEU below the autoregressive model's beam.",
              within(1.0), [("best row against the baseline", BEST, BASELINE)]),
        Claim("6.1", "In constant time left2right is worse than the best orders.", greater,
              [*each("least2most against left2right, L→1", ("least2most", FEWER), ("left2right", FEWER)),
               *each("learned against left2right, ⌈L/T⌉", ("learned", SOME), ("left2right", SOME)),
               *each("easy-first against left2right, ⌈L/T⌉", ("easy-first", SOME), ("left2right", SOME))]),
        Claim("6.2a", "Learned is the best order with ⌈L/T⌉ symbols per step.", greater,
              [c for o in (*OTHERS, "easy-first") for c in each(f"learned against {o}", ("learned", SOME), (o, SOME))]),
        Claim("6.2b", "Learned is significantly worse with L→1 than with ⌈L/T⌉.", greater,
              each("⌈L/T⌉ against L→1", ("learned", SOME), ("learned", FEWER))),
        Claim("6.3a", "Easy-first is the best handcrafted order with ⌈L/T⌉ symbols per step.", greater,
              [c for o in OTHERS for c in each(f"easy-first against {o}", ("easy-first", SOME), (o, SOME))]),
        Claim("6.3b", "With L→1 easy-first is worse than least2most.", greater,
              each("least2most against easy-first", ("least2most", FEWER), ("easy-first", FEWER))),
        Claim("6.4", "With L→1 hard-first is on par with least2most: less than 1 BLEU apart.", alike(1.0),
              each("hard-first against least2most", ("hard-first", FEWER), ("least2most", FEWER))),
        Claim("6.5", "T = 20, L→1, least2most, rescored, is within 1 BLEU of linear time and of the autoregressive "
              "beam.", within(1.0),
              [("against the best linear-time row", t3("least2most", 20, FEWER + "*"), BEST),
               ("against the baseline", t3("least2most", 20, FEWER + "*"), BASELINE)]),
        Claim("6.6", "Even T = 10 loses no more than 1.8 BLEU against linear time.", within(1.8),
              [("against the best linear-time row", t3("least2most", 10, FEWER + "*"), BEST)]),
    ]  # fmt: skip


def pairs(results: Results, rows: Rows, claim: Claim) -> Iterator[Pair]:
    """The comparisons that there are rows for."""
    for direction in rows.scope.directions:
        known = {(t, name): row for t in ("1", "3", "seeds") for name, row in rows.of(t, direction).items()}
        if rows.scope.quick and ("1", ("1", "L", AR)) in known:
            known[BASELINE] = known["1", ("1", "L", AR)]
        linear = [r for (t, n), r in known.items() if t == "1" and n[2] in PAPER and results.ready(r)]
        sentences = results.common(linear)
        found = [m for r in linear if (m := results.measure(r, sentences)) is not None]
        if found:
            known[BEST] = max(found, key=lambda m: m.quality.bleu).row
        for name, a, b in claim.pairs:
            if a in known and b in known:
                yield f"{direction}: {name}", known[a], known[b]


def judged(results: Results, claim: Claim, all_pairs: Sequence[Pair]) -> tuple[str, str, list[list[str]]]:
    """The verdict, its evidence, and each comparison: the mean difference over all pairs that were measured decides."""
    ready = [p for p in all_pairs if results.ready(p[1]) and results.ready(p[2])]
    sentences = results.common([row for _, a, b in ready for row in (a, b)])
    whole = results.compare([(a, b) for _, a, b in ready], sentences) if ready else None
    if whole is None:
        return UNKNOWN, "", []
    each = [(name, results.compare([(a, b)], sentences)) for name, a, b in ready]
    lines = [[name, f"{d.delta:+.2f} (p = {d.p:.3f})"] for name, d in each if d is not None]
    missing = len(all_pairs) - len(ready)
    evidence = f"{claim.rule.evidence(whole)}; {len(ready)} comparisons over {sentences} sentences"
    return claim.rule(whole), evidence + (f" ({missing} more are not measured)" if missing else ""), lines


def findings(results: Results, rows: Rows) -> list[str]:
    """A table of all claims, and under it the comparisons of each."""
    out, below = [], []
    for claim in claims(rows.scope.seeds):
        verdict, evidence, lines = judged(results, claim, list(pairs(results, rows, claim)))
        out.append([claim.number, claim.text, f"**{verdict}**", evidence])
        name = f"{claim.number}: {verdict}, {len(lines)} comparisons"
        below.append(folded(name, table(["comparison", "Δ BLEU"], lines)))
    return [table(["", "the paper's finding", "here", "because"], out), *below]
