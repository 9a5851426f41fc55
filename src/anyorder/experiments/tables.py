"""The paper's tables from measured rows: grids of BLEU like the paper's."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from anyorder.experiments import choices, grid
from anyorder.experiments.evaluate import LEVEL
from anyorder.experiments.grid import Scope
from anyorder.experiments.published import COMPARISON
from anyorder.experiments.results import Measured, Results, Row

Key = TypeVar("Key")
MISSING = "·"  # not measured yet
ARROW = {"de-en": "De→En", "en-de": "En→De"}


@dataclass(frozen=True)
class TextTable:
    """Text in rows and columns, with what it says."""

    header: list[str]
    rows: list[list[str]]
    caption: str = ""


def title(direction: str) -> str:
    """A direction as the tables write it: De→En."""
    return ARROW.get(direction, direction)


def score(measured: Measured | None) -> str:
    """BLEU as text, or the sign for what is not measured yet."""
    return MISSING if measured is None else f"{measured.quality.bleu:.2f}"


def mean(values: list[float]) -> str:
    """Mean, with the standard deviation where there are several."""
    text = f"{statistics.mean(values):.2f}"
    return text if len(values) < 2 else f"{text} ± {statistics.stdev(values):.2f}"


def _any(line: Iterable[str]) -> bool:
    """Is anything of a line measured?"""
    return any(text not in (MISSING, "–") for text in line)


def linear_rows(scope: Scope, direction: str) -> dict[tuple[str, ...], Row]:
    """Every entry of Table 1 in one direction, by (b, T, order)."""
    out: dict[tuple[str, ...], Row] = {}
    for beam in ("1",) if scope.quick else ("1", "4"):
        if (row := grid.baseline(scope, direction, int(beam))) is not None:
            out[beam, "L", "autoregressive"] = row
    for beam, steps in scope.settings:
        for order in scope.columns:
            if (entry := grid.linear(scope, direction, order, beam, steps)) is not None:
                out[beam, steps, order] = entry
    return out


def table1(results: Results, scope: Scope) -> TextTable:
    """Linear time: BLEU by beam, steps and order."""
    out, counts = [], []
    for direction in scope.directions:
        rows = linear_rows(scope, direction)
        sentences, found = _alike(results, rows)
        counts.append(sentences)
        marks = _marks(results, {k: m for k, m in found.items() if m is not None and k[2] != "autoregressive"})
        for beam, steps in scope.settings:
            line = [
                title(direction),
                beam,
                steps,
                score(found.get((beam, steps, "autoregressive"))) if steps == "L" else "–",
            ]
            for order in scope.columns:
                key = (beam, steps, order)
                text = score(found[key]) if key in found else "–"
                if order == "uniform" and (beam, steps) == ("1", "L"):
                    text = _spread(results, scope, direction, sentences) or text
                line.append(marks.get(key, "{}").format(text))
            out += [line] * _any(line[3:])
    header = ["", "b", "T", "Autoregressive", *(c.capitalize() for c in scope.columns)]
    return TextTable(header, out, _caption(scope, counts))


def _alike(results: Results, rows: Mapping[Key, Row]) -> tuple[int, dict[Key, Measured | None]]:
    """How many sentences all these rows have, and the rows measured on them."""
    sentences = results.common(rows.values())
    return sentences, {key: results.measure(row, sentences) for key, row in rows.items()}


def _spread(results: Results, scope: Scope, direction: str, sentences: int) -> str | None:
    """Mean ± standard deviation of the uniform order over its seeds."""
    rows = [grid.linear(scope, direction, "uniform", "1", "L", seed) for seed in range(scope.seeds)]
    values = [m.quality.bleu for r in rows if r is not None and (m := results.measure(r, sentences)) is not None]
    return mean(values) if len(values) > 1 else None


def table2(results: Results, scope: Scope) -> TextTable:
    """Length candidates."""
    out, counts = [], []
    for direction in scope.directions:
        rows = grid.lengths(scope, direction)
        sentences, found = _alike(results, rows)
        counts.append(sentences)
        passes = {name: "" if m is None else f" ({m.passes:.0f})" for name, m in found.items()}
        line = [score(m) + passes[name] for name, m in found.items()]
        out += [[title(direction), *line]] * _any(line)
    header = ["", "Gold", "1", "2", "3", "4"]
    many = " and ".join(str(n) for n in dict.fromkeys(counts))
    return TextTable(header, out, f"BLEU (passes per sentence) of easy-first on {scope.val}, {many} sentences.")


def table3(results: Results, scope: Scope) -> TextTable:
    """Constant time."""
    out, counts = [], []
    for direction in scope.directions:
        rows = constant_rows(scope, direction)
        sentences, found = _alike(results, rows)
        counts.append(sentences)
        marks = _marks(results, {k: m for k, m in found.items() if m is not None})
        for budget in scope.budgets:
            for count in scope.counts:
                keys = [(str(budget), count, order) for order in scope.constant_columns]
                texts = [score(found[k]) if k in found else "–" for k in keys]
                marked = [marks.get(k, "{}").format(t) for k, t in zip(keys, texts, strict=True)]
                out += [[title(direction), str(budget), count, *marked]] * _any(marked)
    return TextTable(["", "T", "o_t", *(c.capitalize() for c in scope.constant_columns)], out, _caption(scope, counts))


def constant_rows(scope: Scope, direction: str) -> dict[tuple[str, ...], Row]:
    """Every entry of Table 3 in one direction, by (T, o_t, order)."""
    out: dict[tuple[str, ...], Row] = {}
    for budget in scope.budgets:
        for count in scope.counts:
            for order in scope.constant_columns:
                if (row := grid.constant(scope, direction, order, budget, count)) is not None:
                    out[str(budget), count, order] = row
    return out


def _marks(results: Results, found: Mapping[tuple[str, ...], Measured]) -> dict[tuple[str, ...], str]:
    """The best entry bold; a ° at those that are not significantly worse than it."""
    if not found:
        return {}
    best = max(found, key=lambda k: found[k].quality.bleu)
    marks = {best: "**{}**"}
    for key, m in found.items():
        if key != best:
            d = results.compare([(m.row, found[best].row)], len(m.texts))
            if d is not None and d.p >= LEVEL:
                marks[key] = "{}°"
    return marks


def _caption(scope: Scope, counts: Iterable[int]) -> str:
    many = " and ".join(str(n) for n in dict.fromkeys(counts))
    return (
        f"BLEU on {scope.main}, the first {many} sentences, 4 length candidates. \\* is rescoring by the "
        "autoregressive model. Bold: best of its direction; °: not significantly worse than that (paired bootstrap, "
        f"p ≥ {LEVEL}); {MISSING}: not measured yet."
    )


def comparison(results: Results, scope: Scope) -> TextTable:
    """The appendix's table: published rows as given, ours below them."""
    out = [[name, *("–" if v is None else f"{v:.2f}" for v in values), "WMT'14"] for name, *values in COMPARISON]
    ours = {"AR, beam 4 (here)" if not scope.quick else "AR, greedy (here)": "ar"}
    for budget in scope.budgets:
        name, distilled = f"Constant-time {budget} iterations", "+Distill, " if scope.distilled else ""
        ours |= {f"{name} ({distilled}here)": f"{budget}/L→1"}
        if scope.autoregressive:
            ours |= {f"{name} ({distilled}+AR Rescoring, here)": f"{budget}/L→1*"}
    for name, what in ours.items():
        cells = [_ours(results, scope, direction, what) for direction in ("en-de", "de-en")]
        out.append([name, *cells, scope.main])
    return TextTable(
        ["Model", "En→De", "De→En", "Data"], out, "Least2most, L→1. Rows of different data cannot be compared."
    )


def _ours(results: Results, scope: Scope, direction: str, what: str) -> str:
    if direction not in scope.directions:
        return "–"
    if what == "ar":
        row = grid.baseline(scope, direction, 1 if scope.quick else 4)
    else:
        budget, count = what.split("/")
        row = grid.constant(scope, direction, "least2most", int(budget), count)
    return "–" if row is None else score(results.measure(row, results.ready(row)))


def criteria(results: Results, scope: Scope) -> TextTable:
    """Choosing among the length candidates by different criteria."""
    out = []
    for direction in scope.directions:
        rows = choices.criteria(scope, direction)
        sentences = results.common(rows.values())
        line = [score(results.measure(row, sentences)) for row in rows.values()]
        out += [[title(direction), *line]] * _any(line)
    header = ["", *choices.criteria(scope, scope.directions[0])]
    return TextTable(header, out, f"Easy-first, T = L, 4 length candidates, on {scope.val}.")


def frontier_rows(scope: Scope, direction: str) -> dict[tuple[str, ...], Row]:
    """The rows of the frontier, by name."""
    return {(name,): row for name, row in grid.frontier(scope, direction).items()}
