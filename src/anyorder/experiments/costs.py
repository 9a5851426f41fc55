"""Lists of rows with all their scores, what they cost, and how they differ from another row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from anyorder.experiments import grid
from anyorder.experiments.evaluate import Difference
from anyorder.experiments.grid import Scope
from anyorder.experiments.results import Measured, Results, Row
from anyorder.experiments.tables import TextTable, mean, title

DETAILS = ("BLEU", "chrF", "tok. BLEU", "passes", "head rows", "Δ best", "p")


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
        if m is not None and best is not None:
            difference = None if m is best else results.compare([(m.row, best.row)], sentences)
            out.append([*name, *_cells(m, difference, "best")])
    return TextTable([*names, *DETAILS], out, f"{sentences} sentences.{_missing(len(found) - len(out))}")


def _missing(rows: int) -> str:
    """A sentence about rows that are left out."""
    return f" {rows} more rows are not measured yet." if rows else ""


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
                continue
            text = mean([m.quality.bleu for m in found])
            against = None if order == "uniform" else results.compare([(some[0], rows["uniform"][0])], sentences)
            tail = ["", ""] if against is None else [f"{against.delta:+.2f}", f"{against.p:.3f}"]
            out.append([title(direction), order, text, *tail])
    many = " and ".join(str(n) for n in dict.fromkeys(counts))
    return TextTable(["", "order", "BLEU", "Δ uniform", "p"], out, f"{corpus}, {many} sentences, T = L, 4 lengths.")


def _beside_baseline(
    results: Results, scope: Scope, corpus: str, rows: Mapping[str, Mapping[str, Row]], most: int
) -> TextTable:
    """Rows by direction and name over at most that many sentences, each compared with the baseline's beam."""
    out, left = [], 0
    for direction, some in rows.items():
        reference = grid.baseline(scope, direction, 1 if scope.quick else 5, corpus)
        for name, row in some.items():
            sentences = min(results.ready(row), most)
            m = results.measure(row, sentences)
            if m is None:
                left += 1
                continue
            against = None
            if reference is not None and row != reference:
                against = results.compare([(row, reference)], sentences)
            out.append([title(direction), name, str(sentences), *_cells(m, against)])
    beam = "greedy" if scope.quick else "beam 5"
    header = ["", "", "sentences", *DETAILS[:5], f"Δ AR {beam}", "p"]
    caption = f"{corpus}; the last two columns compare with the baseline's {beam}, same sentences.{_missing(left)}"
    return TextTable(header, out, caption)


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
