"""The whole report: decode what is missing, then write tables, figures, findings, samples and raw results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from anyorder.experiments import choices, costs, figures, grid, tables
from anyorder.experiments.cells import CRITERIA, identify
from anyorder.experiments.evaluate import LEVEL, RESAMPLES, signatures
from anyorder.experiments.generations import Watched, watched
from anyorder.experiments.grid import Scope
from anyorder.experiments.played import played
from anyorder.experiments.report import (
    Block,
    Figure,
    Heading,
    Shown,
    Text,
    Viewer,
    markdown,
    page,
    without_empty,
)
from anyorder.experiments.results import Results, Row, record
from anyorder.experiments.runner import Setting, run_all
from anyorder.experiments.schedule import schedule, what_findings_need
from anyorder.experiments.tables import title
from anyorder.experiments.verdicts import verdicts
from anyorder.files import write_whole
from anyorder.models.catalog import locate
from anyorder.pool import HERE, Pool

FINDINGS = "findings.md"


@dataclass(frozen=True)
class Written:
    """What was written, and how many tasks the time did not suffice for."""

    files: tuple[Path, ...]
    left: int


def reproduce(
    model: str,
    data: Path,
    out: Path,
    scope: Scope,
    *,
    cache: Path | None = None,
    pool: Pool = HERE,
    minutes: float | None = None,
) -> Written:
    """Decode, in order of importance and no longer than `minutes`, and write the report to the folder `out`."""
    scope, setting = _prepared(model, data, cache or out / "cells", scope)
    results = Results(setting.store, data)
    left = run_all(schedule(scope, results), setting, pool, minutes)
    write_report(results, scope, out, model, left)
    return Written((out / "README.md", out / "report.html"), left)


def reproduce_findings(
    model: str,
    data: Path,
    out: Path,
    scope: Scope,
    *,
    cache: Path | None = None,
    pool: Pool = HERE,
    minutes: float | None = None,
) -> Written:
    """Decode what the paper's findings are judged by, nothing else; write them and its tables to `out`/findings.md."""
    scope, setting = _prepared(model, data, cache or out / "cells", replace(scope, tuned={}))  # no finding is of that
    results = Results(setting.store, data)
    left = run_all(what_findings_need(scope, results), setting, pool, minutes)
    asked = " --quick" if scope.quick else f" --headline {scope.headline}"
    blocks = [
        Heading("The paper's findings, measured here", 1),
        *_how(scope, model, f"--findings{asked}", left),
        *verdicts(results, scope),
        *_orders(results, scope),
        *_table1(results, scope),
        *_table3(results, scope),
    ]
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / FINDINGS, markdown(without_empty(blocks)))
    return Written((out / FINDINGS,), left)


def _prepared(model: str, data: Path, cache: Path, scope: Scope) -> tuple[Scope, Setting]:
    """What the model has to be asked about, and what every process needs to know."""
    identity = identify(model)
    policies = frozenset(name.removeprefix("policy-") for name in identity if name.startswith("policy-"))
    asked = replace(
        scope, learned=policies & set(scope.directions), autoregressive="ar" in identity, distilled=_distilled(model),
        forwards=_forwards(model),
    )  # fmt: skip
    return asked, Setting(model, data, cache, identity)


def _distilled(model: str) -> bool:
    folder = locate(model)
    return folder is not None and bool((folder.story or {}).get("distilled"))


def _forwards(model: str) -> bool:
    folder = locate(model)
    architecture = {} if folder is None else (folder.config or {}).get("architecture") or {}
    return bool(architecture.get("forwards"))


def write_report(results: Results, scope: Scope, out: Path, model: str, left: int = 0) -> None:
    """Everything that is known, as files."""
    out.mkdir(parents=True, exist_ok=True)
    seen = _seen(results, scope)
    blocks = without_empty([*_opening(results, scope, model, left), *_tables(results, scope), *played(scope, seen)])
    for block in blocks:
        if isinstance(block, Figure):
            write_whole(out / f"{block.name}.svg", block.svg)
        elif isinstance(block, Viewer):
            write_whole(out / f"{block.name}.html", block.page)
    write_whole(out / "README.md", markdown(blocks))
    write_whole(out / "report.html", page(blocks, "anyorder: the paper's results, measured here"))
    rows = list(dict.fromkeys(all_rows(scope)))
    lines = [record(m) for row in rows if (m := results.measure(row, results.ready(row))) is not None]
    write_whole(out / "results.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    times = markdown([Heading("Seconds", 1), Shown(costs.timings(results, scope, rows))])
    write_whole(out / "timings.md", times)


def all_rows(scope: Scope) -> Iterator[Row]:
    """Every row of every table."""
    for corpus in (scope.main, *scope.others):
        for direction in scope.directions:
            yield from grid.headline(scope, corpus, direction).values()
            for some in grid.deciding(scope, corpus, direction).values():
                yield from some
    for direction in scope.directions:
        yield from tables.linear_rows(scope, direction).values()
        yield from tables.constant_rows(scope, direction).values()
        yield from grid.lengths(scope, direction).values()
        yield from choices.criteria(scope, direction).values()
        yield from choices.lengths_chosen(scope, direction).values()
        yield from choices.conditionals(scope, direction).values()
        yield from grid.frontier(scope, direction).values()


# ---------------------------------------------------------------- the parts of the report


def _opening(results: Results, scope: Scope, model: str, left: int) -> list[Block]:
    asked = "--quick" if scope.quick else f"--limit {scope.limit} --headline {scope.headline}"
    return [
        Heading("The paper's results, measured here", 1),
        *_how(scope, model, asked, left),
        Text(
            "Every number has beside it what it cost: passes are canvases through the model per sentence, all its "
            "length candidates and hypotheses together; head rows are positions projected onto the vocabulary. "
            "Seconds are in [timings.md](timings.md), all rows with their configuration in results.jsonl."
        ),
        *verdicts(results, scope),
        Heading("How good, and at what cost"),
        *(Shown(costs.headline(results, scope, corpus)) for corpus in (scope.main, *scope.others)),
        *_whole_sets(results, scope),
        *_orders(results, scope),
    ]


def _how(scope: Scope, model: str, asked: str, left: int) -> list[Block]:
    """By which command and how everything below it was measured."""
    sizes = "\n".join(f"- {name}: `{signature}`" for name, signature in signatures().items())
    state = f" {left} of the tasks are still to be done: run the same command again to go on." if left else ""
    name = Path(model).name
    return [
        Text(
            f"Model `{name}`, written by `anyorder reproduce --data DATA --model {name} {asked}`, which caches every "
            f"cell by its configuration.{state}"
        ),
        Text(sizes),
        Text(
            f"Candidates of different lengths are compared by {CRITERIA[scope.criterion]}. Significance: paired "
            f"bootstrap, {RESAMPLES} resamples, level {LEVEL}."
        ),
    ]


def _whole_sets(results: Results, scope: Scope) -> list[Block]:
    """What has all sentences of a test set, where the table before it has fewer."""
    every = [costs.whole(results, scope, corpus) for corpus in (scope.main, *scope.others)]
    more = [table for table in every if any(int(row[2]) > scope.headline for row in table.rows)]
    return [Heading("On whole test sets"), *map(Shown, more)] if more else []


def _orders(results: Results, scope: Scope) -> list[Block]:
    """Does the order matter? Where anything of it is measured."""
    every = [costs.orders(results, scope, corpus) for corpus in (scope.main, *scope.others)]
    done = [table for table in every if table.rows]
    return [Heading("Does the order matter?"), *map(Shown, done)] if done else []


def _table1(results: Results, scope: Scope) -> list[Block]:
    return [Heading("Table 1: linear time"), Shown(tables.table1(results, scope))]


def _table3(results: Results, scope: Scope) -> list[Block]:
    return [Heading("Table 3: constant time"), Shown(tables.table3(results, scope))]


def _tables(results: Results, scope: Scope) -> list[Block]:
    out = _table1(results, scope)
    for direction in scope.directions:
        rows = tables.linear_rows(scope, direction)
        out.append(Shown(costs.details(results, rows, ["b", "T", "order"]), f"{title(direction)}: costs, significance"))
    out += [Heading("Table 2: length candidates"), Shown(tables.table2(results, scope))]
    out += [Text("Which of the candidates is taken matters:"), Shown(tables.criteria(results, scope))]
    for direction in scope.directions:
        if both := choices.lengths_chosen(scope, direction):
            name = f"{title(direction)}: our choice of a length and the paper's, b = 1, T = L"
            out.append(Shown(costs.details(results, both, ["chosen by", "order"]), name))
    out += _table3(results, scope)
    for direction in scope.directions:
        rows = tables.constant_rows(scope, direction)
        out.append(
            Shown(costs.details(results, rows, ["T", "o_t", "order"]), f"{title(direction)}: costs, significance")
        )
    for direction in scope.directions:
        if both := choices.conditionals(scope, direction):
            name = f"{title(direction)}: written positions judged as they stand (visible) and as in the paper (masked)"
            out.append(Shown(costs.details(results, both, ["decoder", "conditionals"]), name))
    out += [Heading("Comparison with other constant-time models"), Shown(tables.comparison(results, scope))]
    out.append(Heading("What the paper could not have"))
    points = {title(d): _points(results, scope, d) for d in scope.directions}
    points = {name: some for name, some in points.items() if some}
    if points:
        svg = figures.frontier(points)
        out.append(Figure("frontier", svg, "Quality against passes. Joined: nothing cheaper is as good."))
    for direction in scope.directions:
        rows = tables.frontier_rows(scope, direction)
        out.append(Shown(costs.details(results, rows, ["decoder"]), f"{title(direction)}: costs, significance"))
    return out


def _points(results: Results, scope: Scope, direction: str) -> dict[str, tuple[float, float]]:
    rows = grid.frontier(scope, direction)
    sentences = results.common(rows.values())
    found = {name: results.measure(row, sentences) for name, row in rows.items()}
    return {n: (m.passes / m.row.cell.lengths, m.quality.bleu) for n, m in found.items() if m is not None}


def _seen(results: Results, scope: Scope) -> dict[tuple[str, str], list[Watched]]:
    """(direction, order) → watched generations."""
    done = {(w.direction, w.order): watched(w, results.store) for w in grid.watches(scope)}
    return {key: some for key, some in done.items() if some}
