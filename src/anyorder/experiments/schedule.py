"""In which order the cells of a report are worth decoding: what decides comes first."""

from __future__ import annotations

from collections.abc import Iterator

from anyorder.experiments import choices, grid
from anyorder.experiments.grid import Scope
from anyorder.experiments.results import Results, Row
from anyorder.experiments.runner import Task


def schedule(scope: Scope, results: Results) -> list[Task]:
    """All tasks of a report, the most important first."""
    greedy, beams, twice, widest = _linear_by_cost(scope)
    tables = [*_baselines(scope), *greedy, *_constant_rows(scope, scope.budgets[:1])]
    tables += [row for d in scope.directions for row in grid.lengths(scope, d).values()]
    chosen = [row for d in scope.directions for row in choices.criteria(scope, d).values()]
    papers = [row for d in scope.directions for row in choices.lengths_chosen(scope, d).values()]
    papers += [row for d in scope.directions for row in choices.conditionals(scope, d).values()]
    sets = (scope.main, *scope.others)
    deep = [row for corpus in sets for d in scope.directions for row in _deep(scope, corpus, d)]
    first = [row for corpus in sets for d in scope.directions for row in grid.headline(scope, corpus, d).values()]
    chosen_rows = {c: [row for d in scope.directions for row in grid.whole(scope, c, d).values()] for c in sets}
    orders = {c: [row for d in scope.directions for row in _order_rows(scope, c, d)] for c in sets}
    cheap, costly = _frontier_rows(scope, scope.directions[:1])
    out: list[Task] = [task for c in sets for task in _jobs(results, chosen_rows[c], scope.headline)]
    out += _jobs(results, orders[scope.main], scope.headline)
    out += _jobs(results, tables, scope.limit)
    out += [*_jobs(results, deep, min(grid.EARLY, scope.headline)), *grid.watches(scope)]
    out += _jobs(results, [*beams, *cheap, *twice, *_constant_rows(scope, scope.budgets[1:]), *chosen], scope.limit)
    out += _deciding(scope, results)
    out += [task for c in scope.others for task in _jobs(results, orders[c], scope.headline)]
    out += _jobs(results, deep, scope.headline)
    out += _jobs(results, [*papers, *costly], scope.limit)
    cheap, costly = _frontier_rows(scope, scope.directions[1:])
    out += _jobs(results, [*cheap, *costly], scope.limit)
    out += _jobs(results, first, scope.headline)
    out += [*_jobs(results, widest, scope.limit), *_widest(scope, results)]
    out += [task for c in sets for task in _jobs(results, [*chosen_rows[c], *orders[c]], grid.EVERYTHING)]
    return list(dict.fromkeys(out))


def what_findings_need(scope: Scope, results: Results) -> list[Task]:
    """The tasks that the paper's findings are judged by, and no others; what costs least comes first."""
    return list(dict.fromkeys([*_deciding(scope, results), *_widest(scope, results)]))


def _deciding(scope: Scope, results: Results) -> list[Task]:
    greedy, beams, twice, _ = _linear_by_cost(scope)
    groups = ([*_baselines(scope), *greedy, *_constant_rows(scope, scope.budgets)], beams, twice)
    return [task for rows in groups for task in _jobs(results, rows, scope.headline)]


def _widest(scope: Scope, results: Results) -> Iterator[Task]:
    """Beams that go over a text twice, which cost as much as all the rest."""
    return _jobs(results, _linear_by_cost(scope)[-1], scope.headline)


def _linear_by_cost(scope: Scope) -> list[list[Row]]:
    """The rows of Table 1: greedy search, beams, greedy search with T = 2L, beams with T = 2L."""
    groups = (grid.SETTINGS[:2], grid.SETTINGS[2:4], grid.SETTINGS[4:5], grid.SETTINGS[5:])
    return [_linear_rows(scope, [s for s in scope.settings if s in some]) for some in groups]


def _jobs(results: Results, rows: list[Row], sentences: int) -> Iterator[Task]:
    """Chunk by chunk, all rows at once, so that they can be compared early."""
    every = [results.jobs(row, sentences) for row in rows]
    for start in sorted({job.start for jobs in every for job in jobs}):
        yield from (job for jobs in every for job in jobs if job.start == start)


def _frontier_rows(scope: Scope, directions: tuple[str, ...]) -> tuple[list[Row], list[Row]]:
    """Those of the frontier that cost little, and those that cost much."""
    rows = [list(grid.frontier(scope, d).values()) for d in directions]
    return [r for some in rows for r in some[: -grid.COSTLY]], [r for some in rows for r in some[-grid.COSTLY :]]


def _baselines(scope: Scope) -> list[Row]:
    beams = (1,) if scope.quick else (1, 4)
    return [row for d in scope.directions for b in beams if (row := grid.baseline(scope, d, b)) is not None]


def _linear_rows(scope: Scope, settings: list[tuple[str, str]]) -> list[Row]:
    rows = []
    for beam, steps in settings:
        for direction in scope.directions:
            for order in scope.columns:
                seeds = scope.seeds if order == "uniform" and (beam, steps) == ("1", "L") else 1
                rows += [grid.linear(scope, direction, order, beam, steps, seed) for seed in range(seeds)]
    return [row for row in rows if row is not None]


def _constant_rows(scope: Scope, budgets: tuple[int, ...]) -> list[Row]:
    rows = [
        grid.constant(scope, direction, order, budget, count)
        for budget in budgets
        for direction in scope.directions
        for count in scope.counts
        for order in scope.constant_columns
    ]
    return [row for row in rows if row is not None]


def _order_rows(scope: Scope, corpus: str, direction: str) -> list[Row]:
    return [row for some in grid.deciding(scope, corpus, direction).values() for row in some]


def _deep(scope: Scope, corpus: str, direction: str) -> list[Row]:
    """The rows of the headline table that answer its question: is the best strategy as good as the baseline?"""
    rows = grid.headline(scope, corpus, direction)
    wanted = (
        "autoregressive",
        "left2right",
        "easy-first, T = L",
        "learned, T = L",
        "least2most, T = 10",
        "mask-predict",
        "several orders",
    )
    return [row for name, row in rows.items() if name.startswith(wanted)]
