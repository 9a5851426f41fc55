"""The report's tables as Markdown, from measured rows; what is not measured yet is left out, or a dot."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence

from anyorder.lab.metrics import LEVEL, Difference, holm
from anyorder.lab.published import COMPARISON
from anyorder.lab.results import Measured, Results, Row
from anyorder.lab.rows import (
    AR,
    BUDGETS,
    CONSTANT,
    COUNTS,
    EVERYTHING,
    LINEAR,
    PICKED,
    POLISH,
    POOLED,
    SETTINGS,
    Rows,
)
from anyorder.text.own_orders import shown

Name = tuple[str, ...]
MISSING = "·"  # not measured yet
ARROW = {"de-en": "De→En", "en-de": "En→De"}
DETAILS = ("BLEU", "chrF", "tok. BLEU", "passes", "head rows", "Δ best", "p")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table as Markdown; nothing, if it has no rows."""
    if not rows:
        return ""
    words = [any(re.search(r"[A-Za-z]{4}", row[i]) for row in rows) for i in range(len(header))]
    lines = [header, ["---" if word else "---:" for word in words], *rows]
    text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return text + (f"\n\n{caption}" if caption else "")


def folded(title: str, text: str) -> str:
    """Something long under a title that opens it."""
    return f'<details markdown="1"><summary>{title}</summary>\n\n{text}\n\n</details>' if text else ""


def title(direction: str) -> str:
    """A direction as the tables write it: De→En."""
    return ARROW.get(direction, direction)


def bleu(measured: Measured | None) -> str:
    """BLEU as text, or the sign for what is not measured yet."""
    return MISSING if measured is None else f"{measured.quality.bleu:.2f}"


def mean(values: list[float]) -> str:
    """Mean, with the standard deviation where there are several."""
    text = f"{statistics.mean(values):.2f}"
    return text if len(values) < 2 else f"{text} ± {statistics.stdev(values):.2f}"


def many(counts: Iterable[int]) -> str:
    """Numbers of sentences, each once."""
    return " and ".join(str(n) for n in dict.fromkeys(counts))


def _some(line: Iterable[str]) -> bool:
    """Is anything of a line measured?"""
    return any(text not in (MISSING, "–") for text in line)


# ---------------------------------------------------------------- the paper's


def paper_table(results: Results, rows: Rows, which: str) -> str:
    """Table 1 (linear time) or 3 (constant time): a line for each setting, a column for each order."""
    first = which == "1"
    lines, orders = (list(SETTINGS), LINEAR) if first else ([(str(b), c) for b in BUDGETS for c in COUNTS], CONSTANT)
    known = {e.name for e in rows.entries if e.table == which}
    lines = [line for line in lines if any(name[:2] == line for name in known)]
    every = [o for o in (*orders, *rows.scope.own) if any(name[2] == o for name in known)]
    out, counts = [], []
    for direction in rows.scope.directions:
        here = rows.of(which, direction)
        sentences = results.common(here.values())
        counts.append(sentences)
        found = {name: results.measure(row, sentences) for name, row in here.items()}
        marks = _marks(results, {n: m for n, m in found.items() if m is not None and n[2] != AR})
        for line in lines:
            names = [(*line, order) for order in every]
            texts = {n: bleu(found[n]) if n in found else "–" for n in names}
            if first and line == ("1", "L"):
                seeds = [results.measure(r, sentences) for r in rows.of("seeds", direction).values()]
                drawn = [m.quality.bleu for m in seeds if m is not None]
                texts |= {names[0]: mean(drawn)} if len(drawn) > 1 else {}
            cells = [marks.get(n, "{}").format(text) for n, text in texts.items()]
            if first:
                cells = [bleu(found.get((line[0], "L", AR))) if line[1] == "L" else "–", *cells]
            out += [[title(direction), *line, *cells]] * _some(cells)
    caption = (
        f"BLEU on {rows.scope.main}, the first {many(counts)} sentences, 4 length candidates. \\* is rescoring by the "
        "autoregressive model. Bold: best of its direction; °: not significantly worse than that (paired bootstrap, p "
        f"corrected for the number of rows by Holm's method, ≥ {LEVEL}); {MISSING}: not measured yet."
    )
    columns = [shown(o) if o in rows.scope.own else o.capitalize() for o in every]
    return table(["", "b", "T", "Autoregressive", *columns] if first else ["", "T", "o_t", *columns], out, caption)


def _marks(results: Results, found: Mapping[Name, Measured]) -> dict[Name, str]:
    """The best entry bold; a ° at those that are not significantly worse than it."""
    best = max(found, key=lambda n: found[n].quality.bleu, default=None)
    marks = {} if best is None else {best: "**{}**"}
    others = [name for name in found if name != best]
    compared = [results.compare([(found[n].row, found[best].row)], len(found[n].texts)) for n in others if best]
    corrected = holm([1.0 if d is None else d.p for d in compared])
    return marks | {name: "{}°" for name, p in zip(others, corrected, strict=False) if p >= LEVEL}


def lines(results: Results, rows: Rows, which: str, caption: str, *, passes: bool = False) -> str:
    """A line for each direction, a column for each name."""
    out, counts = [], []
    for direction in rows.scope.directions:
        here = rows.of(which, direction)
        counts.append(sentences := results.common(here.values()))
        found = [results.measure(row, sentences) for row in here.values()]
        cells = [bleu(m) + (f" ({m.passes:.0f})" if passes and m is not None else "") for m in found]
        out += [[title(direction), *cells]] * _some(cells)
    header = [name[0] for name in rows.of(which, rows.scope.directions[0])]
    return table(["", *header], out, caption.format(many(counts)))


def comparison(results: Results, rows: Rows) -> str:
    """The appendix's table: published rows as given, ours below them."""
    s = rows.scope
    out = [[name, *("–" if v is None else f"{v:.2f}" for v in values), "WMT'14"] for name, *values in COMPARISON]
    ours: dict[str, tuple[str, Name]] = {"AR, beam 4 (here)": ("1", ("4", "L", AR))}
    if s.quick:
        ours = {"AR, greedy (here)": ("1", ("1", "L", AR))}
    distilled = "+Distill, " if s.distilled else ""
    for budget in BUDGETS[:1] if s.quick else BUDGETS:
        text = f"Constant-time {budget} iterations ({distilled}"
        ours[f"{text}here)"] = ("3", (str(budget), "L→1", "least2most"))
        if s.autoregressive:
            ours[f"{text}+AR Rescoring, here)"] = ("3", (str(budget), "L→1*", "least2most"))
    for text, (which, name) in ours.items():
        found = [rows.of(which, d).get(name) for d in ("en-de", "de-en")]
        out.append([text, *("–" if r is None else bleu(results.measure(r, results.ready(r))) for r in found), s.main])
    return table(
        ["Model", "En→De", "De→En", "Data"], out, "Least2most, L→1. Rows of different data cannot be compared."
    )


# ---------------------------------------------------------------- rows with what they cost


def details(results: Results, here: Mapping[Name, Row], names: list[str]) -> str:
    """Every row with all scores, what it cost per sentence, and its difference from the best row with p.

    Rows are compared over the sentences that all of them have.
    """
    sentences = results.common(here.values())
    found = {name: results.measure(row, sentences) for name, row in here.items()}
    done = {name: m for name, m in found.items() if m is not None}
    best = max(done.values(), key=lambda m: m.quality.bleu, default=None)
    out = []
    for name, m in done.items():
        assert best is not None
        difference = None if m is best else results.compare([(m.row, best.row)], sentences)
        out.append([*name, *_cells(m, difference, "best")])
    return table([*names, *DETAILS], out, f"{sentences} sentences.{_missing(len(found) - len(done))}")


def _missing(rows: int) -> str:
    return f" {rows} more rows are not measured yet." if rows else ""


def _cells(m: Measured, difference: Difference | None, alone: str = "") -> list[str]:
    """Scores, costs, and the difference from another row with its p, as DETAILS names them."""
    q = m.quality
    tokenised = "–" if q.tokenised is None else f"{q.tokenised:.2f}"
    tail = [alone, ""] if difference is None else [f"{difference.delta:+.2f}", f"{difference.p:.3f}"]
    return [f"{q.bleu:.2f}", f"{q.chrf:.2f}", tokenised, f"{m.passes:.1f}", f"{m.head_rows:.0f}", *tail]


def beside_baseline(results: Results, rows: Rows, corpus: str, *, whole: bool = False) -> str:
    """The first table: rows over as many of the sentences as they have, each compared with the baseline's beam over the
    same ones; `whole`: those that have all, of what a user would pick from."""
    s, out, left = rows.scope, [], 0
    beam = "greedy" if s.quick else "beam 5"
    for direction in s.directions:
        here = rows.of("first", direction, corpus)
        reference = here.get((f"{AR}, {beam}",))
        for (name,), row in here.items():
            if whole and (s.quick or not (name.startswith(PICKED) and results.complete(row))):
                continue
            sentences = min(results.ready(row), EVERYTHING if whole else s.headline)
            m = results.measure(row, sentences)
            if m is None:
                left += 1
                continue
            against = None if reference in (None, row) else results.compare([(row, reference)], sentences)
            out.append([title(direction), name, str(sentences), *_cells(m, against)])
    caption = f"{corpus}; the last two columns compare with the baseline's {beam}, same sentences.{_missing(left)}"
    if not whole and any("several orders" in line[1] for line in out):
        caption += f" Several orders are {', '.join(POOLED)}, all their candidates together."
        polished = any("polished" in line[1] for line in out)
        caption += f" Polished: then {POLISH} rounds of local search around the best of them." * polished
    if whole and not any(int(line[2]) > s.headline for line in out):
        return ""
    return table(["", "", "sentences", *DETAILS[:5], f"Δ AR {beam}", "p"], out, caption)


def orders(results: Results, rows: Rows, corpus: str) -> str:
    """Does the order matter? Each order beside the uniform one (its first seed), over the sentences that all have."""
    out, counts = [], []
    for direction in rows.scope.directions:
        here = rows.of("orders", direction, corpus)
        counts.append(sentences := results.common(here.values()))
        for order in dict.fromkeys(order for order, _ in here):
            some = [m for (o, _), r in here.items() if o == order and (m := results.measure(r, sentences)) is not None]
            if not some:
                continue
            pair = here[order, "0"], here["uniform", "0"]
            against = None if order == "uniform" else results.compare([pair], sentences)
            tail = ["", ""] if against is None else [f"{against.delta:+.2f}", f"{against.p:.3f}"]
            out.append([title(direction), shown(order), mean([m.quality.bleu for m in some]), *tail])
    caption = f"{corpus}, {many(counts)} sentences, T = L, 4 lengths."
    return table(["", "order", "BLEU", "Δ uniform", "p"], out, caption)


def timings(results: Results, rows: Iterable[Row]) -> str:
    """Seconds of one thread a sentence, as measured while decoding: not part of the tables, as they never repeat."""
    out = []
    for row in rows:
        m = results.measure(row, results.ready(row))
        if m is not None:
            c = row.cell
            how = [c.order, c.count or "", f"T={c.steps}", f"b={c.beam}", f"seed {c.seed}", row.criterion]
            out.append([c.corpus, title(c.direction), *how, str(len(m.texts)), f"{m.seconds:.3f}"])
    header = ["test set", "", "order", "count", "T", "b", "seed", "chosen by", "sentences", "seconds per sentence"]
    return table(header, out, "CPU seconds of one thread.")
