"""The paper's tables from measured rows: a grid of BLEU like the paper's, and a list with costs and significance."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from anyorder.experiments import choices, grid
from anyorder.experiments.evaluate import LEVEL, Difference
from anyorder.experiments.grid import Scope
from anyorder.experiments.published import COMPARISON
from anyorder.experiments.results import Measured, Results, Row

Key = TypeVar("Key")
MISSING = "·"  # not measured yet
ARROW = {"de-en": "De→En", "en-de": "En→De"}
DETAILS = ("BLEU", "chrF", "tok. BLEU", "passes", "head rows", "Δ best", "p")


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


# ---------------------------------------------------------------- with costs


def details(results: Results, rows: Mapping[tuple[str, ...], Row], names: list[str]) -> TextTable:
    """Every row with all scores, what it cost per sentence, and its difference from the best row with p.

    Rows are compared over the sentences that all of them have.
    """
    sentences = results.common(rows.values())
    found = {name: results.measure(row, sentences) for name, row in rows.items()}
    done = [m for m in found.values() if m is not None]
    best = max(done, key=lambda m: m.quality.bleu, default=None)
    out = []
    for name, m in found.items():
        if m is None or best is None:
            out.append([*name, *[MISSING] * len(DETAILS)])
            continue
        difference = None if m is best else results.compare([(m.row, best.row)], sentences)
        out.append([*name, *_cells(m, difference, "best")])
    return TextTable([*names, *DETAILS], out, f"{sentences} sentences.")


def _cells(m: Measured, difference: Difference | None, alone: str = "") -> list[str]:
    """Scores, costs, and the difference from another row with its p, as DETAILS names them."""
    q = m.quality
    tokenised = "–" if q.tokenised is None else f"{q.tokenised:.2f}"
    tail = [alone, ""] if difference is None else [f"{difference.delta:+.2f}", f"{difference.p:.3f}"]
    return [f"{q.bleu:.2f}", f"{q.chrf:.2f}", tokenised, f"{m.passes:.1f}", f"{m.head_rows:.0f}", *tail]


def headline(results: Results, scope: Scope, corpus: str) -> TextTable:
    """Each row over as many of the sentences asked for as it has, beside the baseline's beam over the same ones."""
    rows = {direction: grid.headline(scope, corpus, direction) for direction in scope.directions}
    table = _beside_baseline(results, scope, corpus, rows, scope.headline)
    if any("several orders" in row[1] for row in table.rows):
        pooled = f" Several orders are {', '.join(grid.POOLED)}, all their candidates together."
        rounds = f" Polished: then {grid.POLISH} rounds of local search around the best of them."
        return replace(table, caption=table.caption + pooled + rounds * ("polished" in str(table.rows)))
    return table


def whole(results: Results, scope: Scope, corpus: str) -> TextTable:
    """The rows that have all sentences of a test set."""
    rows = {d: grid.whole(scope, corpus, d) for d in scope.directions}
    done = {d: {n: r for n, r in some.items() if results.complete(r)} for d, some in rows.items()}
    return _beside_baseline(results, scope, corpus, done, grid.EVERYTHING)


def orders(results: Results, scope: Scope, corpus: str) -> TextTable:
    """Does the order matter? Each order beside the uniform one (its first seed), over the sentences that all have."""
    out, counts = [], []
    for direction in scope.directions:
        rows = grid.deciding(scope, corpus, direction)
        sentences = results.common(row for some in rows.values() for row in some)
        counts.append(sentences)
        for order, some in rows.items():
            found = [m for row in some if (m := results.measure(row, sentences)) is not None]
            if not found:
                out.append([title(direction), order, MISSING, "", ""])
                continue
            text = _mean([m.quality.bleu for m in found])
            against = None if order == "uniform" else results.compare([(some[0], rows["uniform"][0])], sentences)
            tail = ["", ""] if against is None else [f"{against.delta:+.2f}", f"{against.p:.3f}"]
            out.append([title(direction), order, text, *tail])
    many = " and ".join(str(n) for n in dict.fromkeys(counts))
    return TextTable(["", "order", "BLEU", "Δ uniform", "p"], out, f"{corpus}, {many} sentences, T = L, 4 lengths.")


def _mean(values: list[float]) -> str:
    """Mean, with the standard deviation where there are several."""
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.2f}"


def _beside_baseline(
    results: Results, scope: Scope, corpus: str, rows: Mapping[str, Mapping[str, Row]], most: int
) -> TextTable:
    """Rows by direction and name over at most that many sentences, each compared with the baseline's beam."""
    out = []
    for direction, some in rows.items():
        reference = grid.baseline(scope, direction, 1 if scope.quick else 5, corpus)
        for name, row in some.items():
            sentences = min(results.ready(row), most)
            m = results.measure(row, sentences)
            if m is None:
                out.append([title(direction), name, *[MISSING] * 8])
                continue
            against = None
            if reference is not None and row != reference:
                against = results.compare([(row, reference)], sentences)
            out.append([title(direction), name, str(sentences), *_cells(m, against)])
    beam = "greedy" if scope.quick else "beam 5"
    header = ["", "", "sentences", *DETAILS[:5], f"Δ AR {beam}", "p"]
    return TextTable(header, out, f"{corpus}; the last two columns compare with the baseline's {beam}, same sentences.")


# ---------------------------------------------------------------- as in the paper


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
            out.append(line)
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
    return _mean(values) if len(values) > 1 else None


def table2(results: Results, scope: Scope) -> TextTable:
    """Length candidates."""
    out, counts = [], []
    for direction in scope.directions:
        rows = grid.lengths(scope, direction)
        sentences, found = _alike(results, rows)
        counts.append(sentences)
        passes = {name: "" if m is None else f" ({m.passes:.0f})" for name, m in found.items()}
        out.append([title(direction), *(score(m) + passes[name] for name, m in found.items())])
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
                out.append([title(direction), str(budget), count, *marked])
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
        out.append([title(direction), *(score(results.measure(row, sentences)) for row in rows.values())])
    header = ["", *choices.criteria(scope, scope.directions[0])]
    return TextTable(header, out, f"Easy-first, T = L, 4 length candidates, on {scope.val}.")


def frontier_rows(scope: Scope, direction: str) -> dict[tuple[str, ...], Row]:
    """The rows of the frontier, by name."""
    return {(name,): row for name, row in grid.frontier(scope, direction).items()}


def timings(results: Results, scope: Scope, rows: Iterable[Row]) -> TextTable:
    """Seconds of one thread a sentence, as measured while decoding: not part of the tables, as they never repeat."""
    out = []
    for row in dict.fromkeys(rows):
        m = results.measure(row, results.ready(row))
        if m is not None:
            c = row.cell
            how = [c.order, c.count or "", f"T={c.steps}", f"b={c.beam}", f"seed {c.seed}", row.criterion]
            out.append([c.corpus, title(c.direction), *how, str(len(m.texts)), f"{m.seconds:.3f}"])
    header = ["test set", "", "order", "count", "T", "b", "seed", "chosen by", "sentences", "seconds per sentence"]
    return TextTable(header, out, "CPU seconds of one thread.")
