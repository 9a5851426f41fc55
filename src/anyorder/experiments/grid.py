"""Which cells the report's tables consist of: the paper's, and what came after it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from anyorder.experiments.cells import Cell, Criterion
from anyorder.experiments.generations import Watch
from anyorder.experiments.results import Row

LINEAR = ("uniform", "left2right", "least2most", "easy-first", "learned", "tuned")
CONSTANT = ("uniform", "left2right", "least2most", "easy-first", "hard-first", "learned")
ADAPTIVE = ("least2most", "easy-first", "learned")  # orders worth clustering
WATCHED = ("uniform", "left2right", "least2most", "easy-first", "learned")
POOLED = ("easy-first", "left2right", "right2left", "least2most", "learned", "mask-predict(10)")  # compared as one
POLISH = 2  # rounds of local search around the best of them
SETTINGS = (("1", "L"), ("1", "L*"), ("4", "L"), ("4", "L*"), ("1", "2L"), ("4", "2L"))  # b, T; * is AR rescoring
BUDGETS = (10, 20)
COUNTS = ("L→1", "L→1*", "⌈L/T⌉")
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
CHOICES: tuple[tuple[str, str, int, int, Criterion], ...] = (  # at most 60 passes per sentence
    ("forwards, greedy", "forwards", 1, 1, "written"),  # name, order, beam, lengths, chosen by
    ("forwards, beam 4", "forwards", 4, 1, "written"),
    ("forwards, beam 4, AR rescoring", "forwards", 4, 1, "ar"),
    ("forwards, beam 4, rescoring by both", "forwards", 4, 1, "both"),
    ("mask-predict, T = 4, 1 length", "mask-predict(4)", 1, 1, "written"),
    ("mask-predict, T = 4, 5 lengths", "mask-predict(4)", 1, 5, "written"),
    ("mask-predict, T = 10, 5 lengths", "mask-predict(10)", 1, 5, "written"),
    (
        "mask-predict, T = 4, and ⌈L/4⌉, 6 lengths each, own rescoring",
        "mask-predict(4) | constant-time(4)",
        1,
        6,
        "forwards",
    ),
    ("mask-predict, T = 10, 5 lengths, own rescoring", "mask-predict(10)", 1, 5, "forwards"),
    ("mask-predict, T = 10, 5 lengths, AR rescoring", "mask-predict(10)", 1, 5, "ar"),
    ("left2right, T = L, own rescoring", "left2right", 1, 4, "forwards"),
    ("easy-first, T = L, own rescoring", "easy-first", 1, 4, "forwards"),
)
DECIDING = ("uniform", "left2right", "least2most", "easy-first", "learned")  # does the order matter?
COSTLY = 3  # the last of these are tried when all others are done
EARLY = 200  # sentences of the headline table that come before everything else is begun
EVERYTHING = 1 << 30  # sentences: as many as there are
SEEN = 50  # generations that are watched
QUICK_FRONTIER = ("easy-first, T = L", "threshold 0.6", "P2, T = 4", "WINO 0.6/0.9")


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
    headline: int = 1000  # sentences of the headline table
    seeds: int = 3  # of the uniform order
    quick: bool = False

    def order(self, name: str, direction: str) -> str | None:
        """The order that a column stands for in a direction; None if there is none."""
        if name == "learned":
            return name if direction in self.learned else None
        return self.tuned.get(direction) if name == "tuned" else name

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of Table 1."""
        if self.quick:
            return ("uniform", "left2right", "easy-first")
        return tuple(name for name in LINEAR if any(self.order(name, d) for d in self.directions))

    @property
    def constant_columns(self) -> tuple[str, ...]:
        """The columns of Table 3."""
        if self.quick:
            return ("uniform", "least2most", "easy-first")
        return tuple(name for name in CONSTANT if any(self.order(name, d) for d in self.directions))

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """Those of Table 1 that can be measured."""
        some = SETTINGS[:2] if self.quick else SETTINGS
        return some if self.autoregressive else tuple(s for s in some if "*" not in s[1])

    @property
    def budgets(self) -> tuple[int, ...]:
        """The numbers of steps T of Table 3."""
        return BUDGETS[:1] if self.quick else BUDGETS

    @property
    def counts(self) -> tuple[str, ...]:
        """The o_t of Table 3 that can be measured; * is rescored."""
        return COUNTS if self.autoregressive else tuple(c for c in COUNTS if "*" not in c)


def baseline(scope: Scope, direction: str, beam: int, corpus: str | None = None) -> Row | None:
    """The autoregressive model."""
    if not scope.autoregressive:
        return None
    return Row(Cell(corpus or scope.main, direction, "autoregressive", beam=beam, lengths=1))


def linear(scope: Scope, direction: str, order: str, beam: str, steps: str, seed: int = 0) -> Row | None:
    """An entry of Table 1."""
    name = scope.order(order, direction)
    if name is None:
        return None
    star = steps.endswith("*")
    cell = Cell(scope.main, direction, name, steps.rstrip("*"), beam=int(beam), seed=seed)
    return Row(cell, "ar" if star else scope.criterion)


def constant(scope: Scope, direction: str, order: str, budget: int, count: str) -> Row | None:
    """An entry of Table 3."""
    name = scope.order(order, direction)
    if name is None:
        return None
    cell = Cell(scope.main, direction, name, budget, "anneal" if count.startswith("L→1") else None)
    return Row(cell, "ar" if count.endswith("*") else scope.criterion)


def lengths(scope: Scope, direction: str) -> dict[str, Row]:
    """The entries of Table 2."""
    cell = Cell(scope.val, direction, "easy-first")
    gold = Row(replace(cell, gold=True, lengths=1), scope.criterion)
    return {"gold": gold} | {str(n): Row(cell, scope.criterion, n) for n in (1, 2, 3, 4)}


def frontier(scope: Scope, direction: str) -> dict[str, Row]:
    """Quality against passes, of what the paper could not have."""
    names = {name: Cell(scope.main, direction, order, steps, count, beam, positions)
             for name, order, steps, count, beam, positions in FRONTIER
             if not scope.quick or name in QUICK_FRONTIER}  # fmt: skip
    return {name: Row(cell, scope.criterion) for name, cell in names.items()}


def headline(scope: Scope, corpus: str, direction: str) -> dict[str, Row]:
    """The first table: the baseline, and the paper's strategies at T = L and T = 10."""
    here = replace(scope, main=corpus)
    rows: dict[str, Row | None] = {}
    for beam in (1,) if scope.quick else (1, 5):
        rows[f"autoregressive, beam {beam}" if beam > 1 else "autoregressive, greedy"] = baseline(here, direction, beam)
    for order in scope.columns:
        rows[f"{order}, T = L"] = linear(here, direction, order, "1", "L")
    if scope.autoregressive and not scope.quick:
        for order in ("left2right", "easy-first", "learned"):
            rows[f"{order}, T = L, AR rescoring"] = linear(here, direction, order, "1", "L*")
        rows["left2right, b = 4, T = L, AR rescoring"] = linear(here, direction, "left2right", "4", "L*")
    if not scope.quick:
        rows |= chosen(scope, corpus, direction)
    rows["easy-first, T = 10, ⌈L/T⌉"] = constant(here, direction, "easy-first", 10, "⌈L/T⌉")
    rows["least2most, T = 10, L→1"] = constant(here, direction, "least2most", 10, "L→1")
    if scope.autoregressive:
        rows["least2most, T = 10, L→1, AR rescoring"] = constant(here, direction, "least2most", 10, "L→1*")
        if not scope.quick:
            many = Cell(corpus, direction, "mask-predict(10)", lengths=10)
            rows["mask-predict, T = 10, 10 lengths, AR rescoring"] = Row(many, "ar")
            pooled = [order for order in POOLED if scope.order(order, direction)]
            several = Cell(corpus, direction, " | ".join(pooled), lengths=6)
            rows["several orders, 6 lengths, AR rescoring"] = Row(several, "ar")
            if corpus == scope.main:
                rows["several orders, 6 lengths, AR rescoring, polished"] = Row(replace(several, polish=POLISH), "ar")
    return {name: row for name, row in rows.items() if row is not None}


def chosen(scope: Scope, corpus: str, direction: str) -> dict[str, Row]:
    """What a user would pick from, as far as the models that there are can do it."""
    out = {}
    for name, order, beam, lengths, criterion in CHOICES:
        possible = scope.forwards or not {"forwards", "both"} & {order, criterion}
        if possible and (scope.autoregressive or criterion not in ("ar", "both")):
            by = scope.criterion if criterion == "written" else criterion
            out[name] = Row(Cell(corpus, direction, order, beam=beam, lengths=lengths), by)
    return out


def whole(scope: Scope, corpus: str, direction: str) -> dict[str, Row]:
    """Rows of the first table for all sentences of a test set: the baseline, and what a user would pick from."""
    if scope.quick:
        return {}
    wanted = ("autoregressive", "forwards", "mask-predict, T = 4", "mask-predict, T = 10, 5")
    return {name: row for name, row in headline(scope, corpus, direction).items() if name.startswith(wanted)}


def deciding(scope: Scope, corpus: str, direction: str) -> dict[str, list[Row]]:
    """Does the order matter? Each order at T = L with 4 lengths, on all sentences; uniform with each of its seeds."""
    if scope.quick:
        return {}
    here = replace(scope, main=corpus)
    seeds = {order: range(scope.seeds if order == "uniform" else 1) for order in DECIDING}
    rows = {order: [linear(here, direction, order, "1", "L", seed) for seed in some] for order, some in seeds.items()}
    return {order: [row for row in some if row is not None] for order, some in rows.items() if any(some)}


def watches(scope: Scope) -> list[Watch]:
    """Generations to watch, for orders, energies and samples (on val, as the paper's)."""
    orders = ("uniform", "easy-first") if scope.quick else WATCHED
    return [
        Watch(scope.val, direction, name, 0, SEEN)
        for direction in scope.directions
        for order in orders
        if (name := scope.order(order, direction)) is not None
    ]
