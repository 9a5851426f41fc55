"""The report: decode what is missing, then write Markdown, one page of HTML made of it, figures and raw results."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from anyorder.errors import extra
from anyorder.files import write_whole
from anyorder.lab import figures, tables
from anyorder.lab.cells import CRITERIA, identify
from anyorder.lab.findings import findings
from anyorder.lab.generations import Watched, clusters, differences, mean_curve, monotone_share, watched
from anyorder.lab.metrics import LEVEL, RESAMPLES, signatures
from anyorder.lab.results import Results, record
from anyorder.lab.rows import Rows, Scope, schedule, what_findings_need
from anyorder.lab.runner import Setting, run_all
from anyorder.lab.tables import details, folded, table, title
from anyorder.lab.verdicts import NOT_SHOWN
from anyorder.models.catalog import locate
from anyorder.pool import HERE, Pool
from anyorder.text.own_orders import shown
from anyorder.traces.page import page as viewer_page
from anyorder.traces.pieces import pieces
from anyorder.traces.trace import Trace, replay

ADAPTIVE = ("least2most", "easy-first", "learned")  # orders worth clustering
SAMPLES = 4  # generations shown in the viewer, each by every order
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
table { display: block; overflow-x: auto; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8884; vertical-align: top; }
svg { max-width: 100%; height: auto; background: #fff; } summary { cursor: pointer; margin: .6rem 0; }
pre { font-size: .8rem; overflow-x: auto; padding: .8rem; background: #8881; }
iframe { width: 100%; height: 44rem; border: 1px solid #8884; }
"""
Seen = dict[tuple[str, str], list[Watched]]  # (direction, order) → generations


@dataclass
class Page:
    """Markdown, and the files beside it that it shows."""

    parts: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    def add(self, heading: str, *parts: str) -> None:
        """A section; nothing, if all its parts are empty. An opening ("…:") of nothing is left out."""
        kept = [p for p, after in zip(parts, [*parts[1:], ""], strict=True) if p and (after or not p.endswith(":"))]
        self.parts += [heading, *kept] if kept else []

    def show(self, name: str, content: str, caption: str) -> str:
        """A file beside the page, shown in it."""
        self.files[name] = content
        return f"![{caption}]({name})\n\n{caption}" if name.endswith(".svg") else f"[{caption}]({name})"

    @property
    def text(self) -> str:
        """As Markdown."""
        return "\n\n".join(self.parts) + "\n"

    def html(self, name: str) -> str:
        """One file that needs no other."""
        with extra("report"):
            import markdown
        body = markdown.markdown(self.text, extensions=["tables", "fenced_code", "md_in_html"])
        for file, content in self.files.items():
            inside = content if file.endswith(".svg") else f'<iframe srcdoc="{html.escape(content)}"></iframe>'
            body = re.sub(rf'<img [^>]*src="{file}"[^>]*>|<a href="{file}">[^<]*</a>', lambda _, x=inside: x, body)  # type: ignore[misc]
        body = re.sub(r'<a href="[^"#][^"]*">([^<]*)</a>', r"\1", body)  # the page stands alone
        head = f'<meta charset="utf-8"><title>{html.escape(name)}</title>'
        head += '<meta name="viewport" content="width=device-width">'
        return (
            f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>{body}</body></html>\n'
        )


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
    only_findings: bool = False,
    cache: Path | None = None,
    pool: Pool = HERE,
    minutes: float | None = None,
) -> Written:
    """Decode, in order of importance and no longer than `minutes`, and write the report to the folder `out`; with
    `only_findings` what the paper's findings are judged by and nothing else, to `out`/findings.md."""
    identity, folder = identify(model), locate(model)
    policies = frozenset(name.removeprefix("policy-") for name in identity if name.startswith("policy-"))
    config = ((folder.config if folder else None) or {}).get("architecture") or {}
    scope = replace(
        scope, learned=policies & set(scope.directions), autoregressive="ar" in identity,
        distilled=bool(folder and (folder.story or {}).get("distilled")), forwards=bool(config.get("forwards")),
        tuned={} if only_findings else scope.tuned,
    )  # fmt: skip
    setting, rows = Setting(model, data, cache or out / "cells", identity), Rows(scope)
    results = Results(setting.store, data)
    tasks = (what_findings_need if only_findings else schedule)(rows, results)
    left = run_all(tasks, setting, pool, minutes)
    out.mkdir(parents=True, exist_ok=True)
    if only_findings:
        write_whole(out / "findings.md", findings_page(results, rows, model, left).text)
        return Written((out / "findings.md",), left)
    write_report(results, rows, out, model, left)
    return Written((out / "README.md", out / "report.html"), left)


def findings_page(results: Results, rows: Rows, model: str, left: int) -> Page:
    """What the paper's findings come to, and its tables."""
    asked = _asked(rows.scope, f"--headline {rows.scope.headline}")
    page = Page(["# The paper's findings, measured here", _command(rows.scope, model, f"--findings {asked}", left)])
    page.add("## Does it hold?", *findings(results, rows))
    page.add("## Does the order matter?", *_first_shown(tables.orders(results, rows, c) for c in rows.scope.sets))
    page.add("## Table 1: linear time", folded("The table", tables.paper_table(results, rows, "1")))
    page.add("## Table 3: constant time", folded("The table", tables.paper_table(results, rows, "3")))
    page.add("## How it was measured", *_how(rows.scope))
    return page


def write_report(results: Results, rows: Rows, out: Path, model: str, left: int = 0) -> None:
    """Everything that is known, as files."""
    out.mkdir(parents=True, exist_ok=True)
    page = report(results, rows, model, left)
    done = {(w.direction, w.order): watched(w, results.store) for w in rows.watches()}
    if seen := {key: some for key, some in done.items() if some}:
        played(page, rows.scope, seen)
    page.add(
        "## How it was measured",
        *_how(rows.scope),
        "Passes are canvases through the model per sentence, all its length candidates and hypotheses together; head "
        "rows are positions projected onto the vocabulary. Seconds are in [timings.md](timings.md), all rows with "
        "their configuration in results.jsonl.",
    )
    for name, content in page.files.items():
        write_whole(out / name, content)
    write_whole(out / "README.md", page.text)
    write_whole(out / "report.html", page.html("anyorder: the paper's results, measured here"))
    every = list(dict.fromkeys(e.row for e in rows.entries))
    lines = [record(m) for row in every if (m := results.measure(row, results.ready(row))) is not None]
    write_whole(out / "results.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    write_whole(out / "timings.md", f"# Seconds\n\n{tables.timings(results, every)}\n")


def _asked(scope: Scope, sizes: str) -> str:
    """The options that differ from the command's own."""
    usual = Scope()
    out = ["--quick" if scope.quick else sizes]
    out += [f"--set {scope.main}"] if scope.main != usual.main else []
    out += [f"--order {shown(order)}" for order in scope.own]
    out += [f"--val {scope.val}"] if scope.val != usual.val else []
    return " ".join(out + ([f"--choose {scope.criterion}"] if scope.criterion != usual.criterion else []))


def _command(scope: Scope, model: str, asked: str, left: int) -> str:
    """By which command the page was written."""
    name = Path(model).name
    state = f" Rows of {left} tasks that were not done in the time given are left out." if left else ""
    return f"Model `{name}`, written by `anyorder reproduce --data DATA --model {name} {asked}`.{state}"


def _how(scope: Scope) -> Iterable[str]:
    """How everything above was measured."""
    yield "\n".join(f"- {name}: `{signature}`" for name, signature in signatures().items())
    yield (
        f"Candidates of different lengths are compared by {CRITERIA[scope.criterion]}. Significance: paired "
        f"bootstrap, {RESAMPLES} resamples, level {LEVEL}. A claim that names several orders holds only if each of its "
        "parts holds, and does not if one is shown to be false, its p corrected for their number (Holm); all else is "
        f"{NOT_SHOWN}. Cells are cached by their configuration: the same command goes on where it stopped."
    )


def _first_shown(parts: Iterable[str]) -> list[str]:
    """The first of several tables, the others folded."""
    first, *others = [part for part in parts if part] or [""]
    return [first, folded("On other test sets", "\n\n".join(others))]


def report(results: Results, rows: Rows, model: str, left: int) -> Page:
    """The report, but for generations that were watched: what was found first, then one table, the rest folded."""
    s = rows.scope
    asked = _asked(s, f"--limit {s.limit} --headline {s.headline}")
    page = Page(["# The paper's results, measured here", _command(s, model, asked, left)])

    def costs(which: str, names: list[str], name: str) -> list[str]:
        each = ((d, details(results, rows.of(which, d), names)) for d in s.directions)
        return [folded(f"{title(d)}: {name}", text) for d, text in each]

    page.add("## Does it hold?", *findings(results, rows))
    page.add("## How good, and at what cost", *_first_shown(tables.beside_baseline(results, rows, c) for c in s.sets))
    whole = [tables.beside_baseline(results, rows, c, whole=True) for c in s.sets]
    page.add(
        "## On whole test sets",
        folded("The tables", "\n\n".join(t for t in whole if t)),
    )
    page.add("## Does the order matter?", *_first_shown(tables.orders(results, rows, c) for c in s.sets))
    numbers = "costs, significance"
    page.add(
        "## Table 1: linear time",
        folded("The table", tables.paper_table(results, rows, "1")),
        *costs("1", ["b", "T", "order"], numbers),
    )
    page.add(
        "## Table 2: length candidates",
        tables.lines(
            results, rows, "2", f"BLEU (passes per sentence) of easy-first on {s.val}, {{}} sentences.", passes=True
        ),
        "Which of the candidates is taken matters:",
        tables.lines(results, rows, "criteria", f"Easy-first, T = L, 4 length candidates, on {s.val}."),
        *costs("chosen", ["chosen by", "order"], "our choice of a length and the paper's, b = 1, T = L"),
    )
    page.add(
        "## Table 3: constant time",
        folded("The table", tables.paper_table(results, rows, "3")),
        *costs("3", ["T", "o_t", "order"], numbers),
        *costs(
            "conditionals", ["decoder", "conditionals"],
            "written positions judged as they stand (visible) and as in the paper (masked)",
        ),
    )  # fmt: skip
    page.add("## Comparison with other constant-time models", folded("The table", tables.comparison(results, rows)))
    points = {title(d): p for d in s.directions if (p := _points(results, rows, d))}
    caption = "Quality against passes. Joined: nothing cheaper is as good."
    picture = page.show("frontier.svg", figures.frontier(points), caption) if points else ""
    page.add("## What the paper could not have", picture, *costs("frontier", ["decoder"], numbers))
    return page


def _points(results: Results, rows: Rows, direction: str) -> dict[str, tuple[float, float]]:
    here = rows.of("frontier", direction)
    sentences = results.common(here.values())
    found = {name: results.measure(row, sentences) for (name,), row in here.items()}
    return {n: (m.passes / m.row.cell.lengths, m.quality.bleu) for n, m in found.items() if m is not None}


# ---------------------------------------------------------------- generations that were watched


def played(page: Page, scope: Scope, seen: Seen) -> None:
    """In which orders texts were written, their energies, and some to play."""
    groups = {(title(d), o): clusters(some) for (d, o), some in seen.items() if o in ADAPTIVE}
    shares = [[title(d), order, f"{monotone_share(some):.0%}"] for (d, order), some in seen.items()]
    page.add(
        "## Generation orders",
        page.show("orders.svg", figures.orders(groups), "k-means of 10-dimensional generation orders, on val."),
        table(["", "order", "steps to the next position on the right"], shares),
        folded(
            "An example of each",
            "\n\n".join(
                f"{order}, {direction}: {c.name} ({c.share:.0%} of the generations)\n\n```text\n"
                + "\n".join(steps_of(c.example.trace, c.example.reference))
                + "\n```"
                for (direction, order), found in groups.items()
                for c in found
            ),
        ),
    )
    means = {title(d): {o: mean_curve(x) for (e, o), x in seen.items() if e == d} for d in scope.directions}
    curves = {name: of_order for name, of_order in means.items() if of_order}
    apart = {name: differences(of_order) for name, of_order in curves.items()}
    last = [[name, *(f"{line[-1]:.1f}" for line in of_order.values())] for name, of_order in curves.items()]
    text, label = "Energy (−Σ logit of what is written) over the generation.", "energy − that of uniform"
    below = figures.energy(apart, label) if all(apart.values()) else ""
    page.add(
        "## Energy over the steps",
        page.show("energy.svg", figures.energy(curves, "energy"), text),
        page.show("energy-difference.svg", below, "Below zero: likelier than uniform's.") if below else "",
        table(["at the end", *next(iter(curves.values()))], last),
    )
    traces = [some[i].trace for i in range(SAMPLES) for some in seen.values() if i < len(some)]
    caption = "Sample generations, played step by step"
    page.add("## Sample generations", page.show("samples.html", viewer_page(traces, "Sample generations"), caption))


def steps_of(trace: Trace, reference: str) -> list[str]:
    """A generation as the paper's appendix shows it: what is new in brackets, what is open as _."""
    canvases = replay(trace)
    shown = pieces(token for canvas in canvases for token in canvas if token is not None)
    out = [f"(source)  {trace.source or ''}"]
    for t, (step, canvas) in enumerate(zip(trace.steps, canvases[1:], strict=True), 1):
        words, glue = "", True
        for i, token in enumerate(canvas):
            piece = None if token is None else shown[token]
            text = "_" if piece is None else f"[{piece.text}]" if i in step.positions else piece.text
            joined = piece is not None and piece.joins_left and i > 0 and canvas[i - 1] is not None
            words += text if glue or joined else " " + text
            glue = piece is not None and piece.joins_right
        out.append(f"{t:>8}  {words}")
    return [*out, f"(target)  {reference}"]
