"""What the paper found in sections 5 and 6: each claim with the comparisons that decide it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyorder.experiments import grid
from anyorder.experiments.findings import Finding, Pair, Rule, alike, by_about, greater, judge, within
from anyorder.experiments.grid import Scope
from anyorder.experiments.results import Results, Row

DETERMINISTIC = ("left2right", "least2most", "easy-first", "learned")
PAPER = ("uniform", *DETERMINISTIC)
OTHERS = ("uniform", "left2right", "least2most", "hard-first")
SOME, FEWER = "⌈L/T⌉", "L→1"
Where = Callable[[str], Row | None]  # direction → row


@dataclass(frozen=True)
class Claim:
    """a against b, for several a and b, and when that makes the claim true."""

    number: str
    text: str
    comparisons: list[tuple[str, Where, Where]]
    rule: Rule


def findings(results: Results, scope: Scope) -> list[Finding]:
    """Every claim, judged over all directions."""
    return [judge(results, c.number, c.text, pairs(c, scope), c.rule) for c in claims(results, scope)]


def claims(results: Results, scope: Scope) -> list[Claim]:
    """What the paper found; which linear-time row is the best is known from the results."""
    return [*_section5(results, scope), *_section6(results, scope)]


def pairs(claim: Claim, scope: Scope) -> list[Pair]:
    """The comparisons that the scope has rows for."""
    return [
        (f"{direction}: {name}", one, other)
        for direction in scope.directions
        for name, a, b in claim.comparisons
        if (one := a(direction)) is not None and (other := b(direction)) is not None
    ]


def _section5(results: Results, scope: Scope) -> list[Claim]:
    def row(order: str, beam: str = "1", steps: str = "L", seed: int = 0) -> Where:
        known = (beam, steps) in scope.settings and order in scope.columns
        return lambda d: grid.linear(scope, d, order, beam, steps, seed) if known else None

    return [
        Claim(
            "5.1",
            "Deterministic orders are significantly better than a uniformly random one.",
            [
                (f"{o} against uniform (seed {s})", row(o), row("uniform", seed=s))
                for o in DETERMINISTIC
                for s in range(scope.seeds)
            ],
            greater,
        ),
        Claim(
            "5.2",
            "Beam search (b = 4) is better than greedy search, by about 1 BLEU.",
            [(f"{o}, b = 4 against 1", row(o, "4"), row(o)) for o in PAPER],
            by_about(1.0),
        ),
        Claim(
            "5.3",
            "Rescoring with an autoregressive model helps all orders, by about 1 BLEU.",
            [
                (f"{o}, b = {b}, rescored against not", row(o, b, "L*"), row(o, b, "L"))
                for o in PAPER
                for b in ("1", "4")
            ],
            by_about(1.0),
        ),
        Claim(
            "5.4",
            "Learned and left2right are the best orders.",
            [
                (f"{a} against {b}, b = {beam}", row(a, beam), row(b, beam))
                for a in ("learned", "left2right")
                for b in ("least2most", "easy-first")
                for beam in ("1", "4")
            ],
            greater,
        ),
        Claim(
            "5.5",
            "A second pass (T = 2L) changes little: less than half a BLEU.",
            [(f"{o}, b = {b}, 2L against L", row(o, b, "2L"), row(o, b)) for o in PAPER for b in ("1", "4")],
            alike(0.5),
        ),
        Claim(
            "5.6",
            "The undirected model's best row is less than 1 BLEU below the autoregressive model's beam.",
            [("best row against the baseline", _best_linear(results, scope), _baseline(scope))],
            within(1.0),
        ),
    ]


def _section6(results: Results, scope: Scope) -> list[Claim]:
    def row(order: str, budget: int, count: str) -> Where:
        known = budget in scope.budgets and count in scope.counts and order in scope.constant_columns
        return lambda d: grid.constant(scope, d, order, budget, count) if known else None

    def each(names: str, a: tuple[str, str], b: tuple[str, str]) -> list[tuple[str, Where, Where]]:
        """(order, o_t) a against b at both budgets."""
        return [(f"{names}, T = {t}", row(a[0], t, a[1]), row(b[0], t, b[1])) for t in scope.budgets]

    best, baseline = _best_linear(results, scope), _baseline(scope)
    return [
        Claim(
            "6.1",
            "In constant time left2right is worse than the best orders.",
            [
                *each("least2most against left2right, L→1", ("least2most", FEWER), ("left2right", FEWER)),
                *each("learned against left2right, ⌈L/T⌉", ("learned", SOME), ("left2right", SOME)),
                *each("easy-first against left2right, ⌈L/T⌉", ("easy-first", SOME), ("left2right", SOME)),
            ],
            greater,
        ),
        Claim(
            "6.2a",
            "Learned is the best order with ⌈L/T⌉ symbols per step.",
            [c for o in (*OTHERS, "easy-first") for c in each(f"learned against {o}", ("learned", SOME), (o, SOME))],
            greater,
        ),
        Claim(
            "6.2b",
            "Learned is significantly worse with L→1 than with ⌈L/T⌉.",
            each("⌈L/T⌉ against L→1", ("learned", SOME), ("learned", FEWER)),
            greater,
        ),
        Claim(
            "6.3a",
            "Easy-first is the best handcrafted order with ⌈L/T⌉ symbols per step.",
            [c for o in OTHERS for c in each(f"easy-first against {o}", ("easy-first", SOME), (o, SOME))],
            greater,
        ),
        Claim(
            "6.3b",
            "With L→1 easy-first is worse than least2most.",
            each("least2most against easy-first", ("least2most", FEWER), ("easy-first", FEWER)),
            greater,
        ),
        Claim(
            "6.4",
            "With L→1 hard-first is on par with least2most: less than 1 BLEU apart.",
            each("hard-first against least2most", ("hard-first", FEWER), ("least2most", FEWER)),
            alike(1.0),
        ),
        Claim(
            "6.5",
            "T = 20, L→1, least2most, rescored, is within 1 BLEU of linear time and of the autoregressive beam.",
            [
                ("against the best linear-time row", row("least2most", 20, FEWER + "*"), best),
                ("against the baseline", row("least2most", 20, FEWER + "*"), baseline),
            ],
            within(1.0),
        ),
        Claim(
            "6.6",
            "Even T = 10 loses no more than 1.8 BLEU against linear time.",
            [("against the best linear-time row", row("least2most", 10, FEWER + "*"), best)],
            within(1.8),
        ),
    ]


def _baseline(scope: Scope) -> Where:
    return lambda d: grid.baseline(scope, d, 1 if scope.quick else 4)


def _best_linear(results: Results, scope: Scope) -> Where:
    """The row of the paper's orders with the highest BLEU in Table 1."""

    def find(direction: str) -> Row | None:
        rows = [
            grid.linear(scope, direction, order, beam, steps)
            for beam, steps in scope.settings
            for order in PAPER
            if order in scope.columns
        ]
        known = [row for row in rows if row is not None and results.ready(row)]
        sentences = results.common(known)
        found = [(m.quality.bleu, row) for row in known if (m := results.measure(row, sentences)) is not None]
        return max(found, key=lambda pair: pair[0])[1] if found else None

    return find
