"""Every row of the report, once: which table it stands in, under which name, and when it is worth decoding.

All rows are made first; then those go that this model can not do, and with `quick` all but a few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from anyorder.lab.cells import Cell, Criterion
from anyorder.lab.generations import Watch
from anyorder.lab.results import Results, Row
from anyorder.lab.runner import Task
from anyorder.text.words import FORWARDS

AR = "autoregressive"
LINEAR = ("uniform", "left2right", "least2most", "easy-first", "learned", "tuned")
CONSTANT = ("uniform", "left2right", "least2most", "easy-first", "hard-first", "learned")
WATCHED = DECIDING = ("uniform", "left2right", "least2most", "easy-first", "learned")
POOLED = ("easy-first", "left2right", "right2left", "least2most", "learned", "mask-predict(10)")  # compared as one
POLISH = 2  # rounds of local search around the best of them
SETTINGS = (("1", "L"), ("1", "L*"), ("4", "L"), ("4", "L*"), ("1", "2L"), ("4", "2L"))  # b, T; * is AR rescoring
BUDGETS, COUNTS = (10, 20), ("L→1", "L→1*", "⌈L/T⌉")
FRONTIER = (  # what came after the paper, as (name, order, steps, count, beam, positions)
    ("easy-first, T = L", "easy-first", "L", None, 1, 1),
    ("left2right, T = L", "left2right", "L", None, 1, 1),
    ("easy-first, ⌈L/4⌉", "easy-first", 4, None, 1, 1),
    ("easy-first, ⌈L/10⌉", "easy-first", 10, None, 1, 1),
    ("least2most, L→1, T = 4", "least2most", 4, "anneal", 1, 1),
    ("least2most, L→1, T = 10", "least2most", 10, "anneal", 1, 1),
    ("mask-predict, T = 4", "mask-predict(4)", "L", None, 1, 1),
    ("mask-predict, T = 10", "mask-predict(10)", "L", None, 1, 1),
    ("margin, T = L", "margin", "L", None, 1, 1),
    ("margin, ⌈L/4⌉", "margin", 4, None, 1, 1),
    ("threshold 0.9", "confidence", "L", "threshold(0.9)", 1, 1),
    ("threshold 0.6", "confidence", "L", "threshold(0.6)", 1, 1),
    ("entropy bound 0.1", "entropy-bounded(0.1)", "L", None, 1, 1),
    ("entropy bound 0.5", "entropy-bounded(0.5)", "L", None, 1, 1),
    ("P2, T = 4", "path-planning(4)", "L", None, 1, 1),
    ("P2, T = 10", "path-planning(10)", "L", None, 1, 1),
    ("easy-first, beam K = 4, K′ = 1", "easy-first", "L", None, 4, 1),
    ("easy-first, beam K = 4, K′ = 2", "easy-first", "L", None, 4, 2),
    ("adaptive Gibbs, corrected, T = 20", "adaptive-gibbs(20)", "L", None, 1, 1),
    ("WINO 0.6/0.9", "wino(0.6, 0.9)", "L", None, 1, 1),
)
COSTLY = 3  # the last of these are tried when all others are done
BOTH_4 = "mask-predict(4) | constant-time(4)"
CHOICES: tuple[tuple[str, str, int, int, Criterion], ...] = (  # name, order, beam, lengths, chosen by
    ("forwards, greedy", FORWARDS, 1, 1, "written"),
    ("forwards, beam 4", FORWARDS, 4, 1, "written"),
    ("forwards, beam 4, AR rescoring", FORWARDS, 4, 1, "ar"),
    ("forwards, beam 4, rescoring by both", FORWARDS, 4, 1, "both"),
    ("mask-predict, T = 4, 1 length", "mask-predict(4)", 1, 1, "written"),
    ("mask-predict, T = 4, 5 lengths", "mask-predict(4)", 1, 5, "written"),
    ("mask-predict, T = 10, 5 lengths", "mask-predict(10)", 1, 5, "written"),
    ("mask-predict, T = 4, and ⌈L/4⌉, 6 lengths each, own rescoring", BOTH_4, 1, 6, "forwards"),
    ("mask-predict, T = 10, 5 lengths, own rescoring", "mask-predict(10)", 1, 5, "forwards"),
    ("mask-predict, T = 10, 5 lengths, AR rescoring", "mask-predict(10)", 1, 5, "ar"),
    ("left2right, T = L, own rescoring", "left2right", 1, 4, "forwards"),
    ("easy-first, T = L, own rescoring", "easy-first", 1, 4, "forwards"),
)
CHOSEN: dict[str, tuple[Criterion, bool]] = {  # how one of the length candidates is chosen: by what, and is it a sum?
    "written": ("written", False),
    "pll": ("pll", False),
    "ar": ("ar", False),
    "Eq. 4 (sum)": ("written", True),
    "the paper's (PLL, sum)": ("pll", True),
}
AGAIN = (  # where written positions are judged, so that it matters how: (name, order, steps, count)
    ("least2most, L→1, T = 10", "least2most", 10, "anneal"),
    ("easy-first, L→1, T = 10", "easy-first", 10, "anneal"),
    ("least2most, L→1, T = 20", "least2most", 20, "anneal"),
    ("easy-first, T = 2L", "easy-first", "2L", None),
)
EARLY = 200  # sentences of the first table that come before everything else is begun
EVERYTHING = 1 << 30  # sentences: as many as there are
SEEN = 50  # generations that are watched
QUICK: dict[str, Callable[[tuple[str, ...]], bool]] = {  # which names of a table are left; of others none
    "1": lambda n: n[:2] in SETTINGS[:2] and n[2] not in ("least2most", "learned", "tuned"),
    "seeds": lambda n: True,
    "2": lambda n: True,
    "criteria": lambda n: True,
    "3": lambda n: n[0] == "10" and n[2] not in ("left2right", "hard-first", "learned"),
    "frontier": lambda n: n[0] in ("easy-first, T = L", "threshold 0.6", "P2, T = 4", "WINO 0.6/0.9"),
    "first": lambda n: n[0] in (
        f"{AR}, greedy", "uniform, T = L", "left2right, T = L", "easy-first, T = L", "easy-first, T = 10, ⌈L/T⌉",
        "least2most, T = 10, L→1", "least2most, T = 10, L→1, AR rescoring",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """What a report is about."""

    main: str = "test_2016_flickr"  # the test set of the paper's tables
    others: tuple[str, ...] = ("test_2017_flickr", "tatoeba-test")
    val: str = "val"
    directions: tuple[str, ...] = ("de-en", "en-de")
    learned: frozenset[str] = frozenset()  # directions that have a policy
    tuned: dict[str, str] = field(default_factory=dict)  # direction → order found by `anyorder tune`
    autoregressive: bool = True  # is there a baseline?
    forwards: bool = False  # does the model contain an autoregressive one?
    distilled: bool = False  # was the model trained on the baseline's translations?
    criterion: Criterion = "written"  # how one of the length candidates is chosen
    limit: int = 100  # sentences of the paper's tables
    headline: int = 1000  # sentences of the first table
    seeds: int = 3  # of the uniform order
    own: tuple[str, ...] = ()  # further orders, FILE.py:NAME or of an installed package: more columns of Tables 1 and 3
    quick: bool = False

    @property
    def sets(self) -> tuple[str, ...]:
        """The test sets."""
        return (self.main, *self.others)


class Entry(NamedTuple):
    """A row with its place in the report."""

    table: str
    corpus: str
    direction: str
    name: tuple[str, ...]
    row: Row


class Rows:
    """All rows of a report."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        every = (e for c in scope.sets for d in scope.directions for e in _entries(scope, c, d))
        self.entries = [e for e in every if _possible(scope, e)]

    def of(self, table: str, direction: str, corpus: str = "") -> dict[tuple[str, ...], Row]:
        """The rows of a table by their names, in one direction."""
        where = corpus or self.scope.main
        return {e.name: e.row for e in self.entries if (e.table, e.direction, e.corpus) == (table, direction, where)}

    def some(self, table: str, wanted: Callable[[tuple[str, ...]], bool], *, corpus: str = "") -> list[Row]:
        """Those of a table, in all directions, whose names are wanted."""
        return [r for d in self.scope.directions for name, r in self.of(table, d, corpus).items() if wanted(name)]

    def watches(self) -> list[Watch]:
        """Generations to watch, for orders, energies and samples (on val, as the paper's)."""
        s, orders = self.scope, ("uniform", "easy-first") if self.scope.quick else WATCHED
        known = [(d, o) for d in s.directions for o in orders if o != "learned" or d in s.learned]
        return [Watch(s.val, d, o, 0, SEEN) for d, o in known]


def _possible(scope: Scope, e: Entry) -> bool:
    """Can this model do it, and is it asked for?"""
    cell, by = e.row.cell, e.row.criterion
    beside = cell.causal or by in ("ar", "both") or cell.polish
    inside = cell.order == FORWARDS or by in ("forwards", "both")
    missing = cell.order == "" or (cell.order == "learned" and e.direction not in scope.learned)
    left_out = scope.quick and (e.table not in QUICK or not QUICK[e.table](e.name))
    return not ((beside and not scope.autoregressive) or (inside and not scope.forwards) or missing or left_out)


def _entries(s: Scope, corpus: str, direction: str) -> Iterator[Entry]:
    """All that there may be for one test set and direction."""

    def at(table: str, name: Any, row: Row) -> Entry:
        return Entry(table, corpus, direction, name if isinstance(name, tuple) else (name,), row)

    def cell(order: str, **how: Any) -> Cell:
        return Cell(corpus, direction, s.tuned.get(direction, "") if order == "tuned" else order, **how)

    def baseline(beam: int) -> Row:
        return Row(cell(AR, beam=beam, lengths=1))

    def linear(order: str, beam: str, steps: str, seed: int = 0) -> Row:
        one = cell(order, steps=steps.rstrip("*"), beam=int(beam), seed=seed)
        return Row(one, "ar" if "*" in steps else s.criterion)

    def constant(order: str, budget: int, count: str) -> Row:
        one = cell(order, steps=budget, count="anneal" if count.startswith("L→1") else None)
        return Row(one, "ar" if "*" in count else s.criterion)

    # the first table, of every test set
    yield at("first", f"{AR}, greedy", baseline(1))
    yield at("first", f"{AR}, beam 5", baseline(5))
    for order in LINEAR:
        yield at("first", f"{order}, T = L", linear(order, "1", "L"))
    for order in ("left2right", "easy-first", "learned"):
        yield at("first", f"{order}, T = L, AR rescoring", linear(order, "1", "L*"))
    yield at("first", "left2right, b = 4, T = L, AR rescoring", linear("left2right", "4", "L*"))
    for name, order, beam, lengths, by in CHOICES:
        row = Row(cell(order, beam=beam, lengths=lengths), s.criterion if by == "written" else by)
        yield at("first", name, row)
    yield at("first", "easy-first, T = 10, ⌈L/T⌉", constant("easy-first", 10, "⌈L/T⌉"))
    yield at("first", "least2most, T = 10, L→1", constant("least2most", 10, "L→1"))
    yield at("first", "least2most, T = 10, L→1, AR rescoring", constant("least2most", 10, "L→1*"))
    many = Row(cell("mask-predict(10)", lengths=10), "ar")
    yield at("first", "mask-predict, T = 10, 10 lengths, AR rescoring", many)
    several = cell(" | ".join(o for o in POOLED if o != "learned" or direction in s.learned), lengths=6)
    yield at("first", "several orders, 6 lengths, AR rescoring", Row(several, "ar"))
    for order in (*DECIDING, *s.own):  # does the order matter?
        for seed in range(s.seeds if order == "uniform" else 1):
            yield at("orders", (order, str(seed)), linear(order, "1", "L", seed))
    if corpus != s.main:
        return
    yield at("first", "several orders, 6 lengths, AR rescoring, polished", Row(replace(several, polish=POLISH), "ar"))
    # the paper's tables
    for b in ("1", "4"):
        yield at("1", (b, "L", AR), baseline(int(b)))
    for b, steps in SETTINGS:
        for order in (*LINEAR, *s.own):
            yield at("1", (b, steps, order), linear(order, b, steps))
    for seed in range(s.seeds):
        yield at("seeds", str(seed), linear("uniform", "1", "L", seed))
    easy = Cell(s.val, direction, "easy-first")
    yield at("2", "Gold", Row(replace(easy, gold=True, lengths=1), s.criterion))
    for n in (1, 2, 3, 4):
        yield at("2", str(n), Row(easy, s.criterion, n))
    for name, (by, plain) in CHOSEN.items():
        yield at("criteria", name, Row(easy, by, plain=plain))
    for order in LINEAR:
        for name in ("written", "the paper's (PLL, sum)"):
            yield at("chosen", (name, order), Row(cell(order), CHOSEN[name][0], plain=CHOSEN[name][1]))
    for budget in BUDGETS:
        for count in COUNTS:
            for order in (*CONSTANT, *s.own):
                yield at("3", (str(budget), count, order), constant(order, budget, count))
    for name, order, turns, how_many in AGAIN:
        for how in ("visible", "masked"):
            one = cell(order, steps=turns, count=how_many, conditionals=how)
            yield at("conditionals", (name, how), Row(one, s.criterion))
    for name, order, turns, how_many, k, positions in FRONTIER:
        one = cell(order, steps=turns, count=how_many, beam=k, positions=positions)
        yield at("frontier", name, Row(one, s.criterion))


# ---------------------------------------------------------------- when


def schedule(rows: Rows, results: Results) -> list[Task]:
    """All tasks of a report, the most important first: what decides comes first."""
    s, base = rows.scope, _by_cost(rows)
    picked = {c: rows.some("first", lambda n: not s.quick and n[0].startswith(PICKED), corpus=c) for c in s.sets}
    orders = {c: rows.some("orders", lambda n: True, corpus=c) for c in s.sets}
    deep = [r for c in s.sets for r in rows.some("first", lambda n: n[0].startswith(DEEP), corpus=c)]
    first = [r for c in s.sets for r in rows.some("first", lambda n: True, corpus=c)]
    frontier = [list(rows.of("frontier", d).values()) for d in s.directions]
    cheap, costly = [f[:-COSTLY] for f in frontier], [f[-COSTLY:] for f in frontier]
    ten, twenty = (rows.some("3", lambda n, b=b: n[0] == str(b)) for b in BUDGETS)  # type: ignore[misc]
    criteria, lengths = rows.some("criteria", lambda n: True), rows.some("2", lambda n: True)
    papers = rows.some("chosen", lambda n: True) + rows.some("conditionals", lambda n: True)
    out: list[Task] = [task for c in s.sets for task in _jobs(results, picked[c], s.headline)]
    out += _jobs(results, orders[s.main], s.headline)
    out += _jobs(results, [*base[0], *ten, *lengths], s.limit)
    out += [*_jobs(results, deep, min(EARLY, s.headline)), *rows.watches()]
    out += _jobs(results, [*base[1], *cheap[0], *base[2], *twenty, *criteria], s.limit)
    out += _deciding(rows, results)
    out += [task for c in s.others for task in _jobs(results, orders[c], s.headline)]
    out += _jobs(results, deep, s.headline)
    out += _jobs(results, [*papers, *costly[0]], s.limit)
    out += _jobs(results, [r for some in (cheap, costly) for f in some[1:] for r in f], s.limit)
    out += _jobs(results, first, s.headline)
    out += [*_jobs(results, base[3], s.limit), *_jobs(results, base[3], s.headline)]
    out += [task for c in s.sets for task in _jobs(results, [*picked[c], *orders[c]], EVERYTHING)]
    return list(dict.fromkeys(out))


PICKED = (AR, "forwards", "mask-predict, T = 4", "mask-predict, T = 10, 5")  # what a user would pick from
DEEP = (AR, "left2right", "easy-first, T = L", "learned, T = L", "least2most, T = 10", "mask-predict", "several orders")


def what_findings_need(rows: Rows, results: Results) -> list[Task]:
    """The tasks that the paper's findings are judged by, and no others; what costs least comes first."""
    widest = _jobs(results, _by_cost(rows)[3], rows.scope.headline)
    return list(dict.fromkeys([*rows.watches(), *_deciding(rows, results), *widest]))


def _deciding(rows: Rows, results: Results) -> list[Task]:
    greedy, beams, twice, _ = _by_cost(rows)
    lengths = rows.some("2", lambda n: n[0] in ("Gold", "4"))
    groups = ([*greedy, *rows.some("3", lambda n: True), *lengths], beams, twice)
    return [task for some in groups for task in _jobs(results, some, rows.scope.headline)]


def _by_cost(rows: Rows) -> list[list[Row]]:
    """The rows of Table 1: greedy search (with the baselines), beams, and the same with T = 2L."""
    groups = (SETTINGS[:2], SETTINGS[2:4], SETTINGS[4:5], SETTINGS[5:])
    out = [rows.some("1", lambda n, g=g: n[:2] in g and n[2] != AR) for g in groups]  # type: ignore[misc]
    out[0] = [*rows.some("1", lambda n: n[2] == AR), *rows.some("seeds", lambda n: True), *out[0]]
    return out


def _jobs(results: Results, rows: list[Row], sentences: int) -> Iterator[Task]:
    """Chunk by chunk, all rows at once, so that they can be compared early."""
    every = [results.jobs(row, sentences) for row in rows]
    for start in sorted({job.start for jobs in every for job in jobs}):
        yield from (job for jobs in every for job in jobs if job.start == start)
