"""A report as blocks, written as Markdown and as one self-contained HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from anyorder.experiments.tables import TextTable
from anyorder.traces.pieces import pieces
from anyorder.traces.trace import Trace, replay

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; margin: 1rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8884; text-align: left; vertical-align: top; }
td.number { text-align: right; white-space: nowrap; }
td.yes { color: #0f7b6c; font-weight: 600; } td.no { color: #c0392b; font-weight: 600; }
figure { margin: 1.5rem 0; } figure svg { max-width: 100%; height: auto; background: #fff; }
pre { font-size: .8rem; overflow-x: auto; padding: .8rem; background: #8881; }
iframe { width: 100%; height: 44rem; border: 1px solid #8884; }
.caption, figcaption { color: #777; font-size: .86rem; } summary { cursor: pointer; margin: .6rem 0; }
"""


@dataclass(frozen=True)
class Heading:
    """A heading of some level."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph, or a list."""

    text: str  # may hold `code`, **bold** and lines that begin with "- "


@dataclass(frozen=True)
class Shown:
    """A table; folded away where it is long."""

    table: TextTable
    folded: str | None = None  # what stands on the fold


@dataclass(frozen=True)
class Figure:
    """A picture with its caption."""

    name: str  # file name without .svg
    svg: str
    caption: str


@dataclass(frozen=True)
class Steps:
    """A generation, a line a step, as in the appendix; folded away."""

    lines: list[str]
    title: str


@dataclass(frozen=True)
class Viewer:
    """The viewer's page of some traces: in the HTML as it is, in Markdown as a link to its file."""

    name: str
    page: str
    caption: str


Block = Heading | Text | Shown | Figure | Steps | Viewer


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
            previous = canvas[i - 1] if i else None
            joined = piece is not None and piece.joins_left and previous is not None
            words += text if glue or joined else " " + text
            glue = piece is not None and piece.joins_right
        out.append(f"{t:>8}  {words}")
    return [*out, f"(target)  {reference}"]


def without_empty(blocks: Sequence[Block]) -> list[Block]:
    """Without tables that have no rows, and then without headings and openings ("…:") of nothing."""
    out: list[Block] = []
    for block in reversed(blocks):
        if isinstance(block, Shown) and not block.table.rows:
            continue
        follows = out[-1] if out else None
        opens = isinstance(block, Text) and block.text.endswith(":") and not isinstance(follows, Shown)
        bare = isinstance(block, Heading) and (follows is None or isinstance(follows, Heading))
        if not (opens or bare):
            out.append(block)
    return out[::-1]


# ---------------------------------------------------------------- Markdown


def markdown(blocks: Sequence[Block]) -> str:
    """The report as Markdown, figures and viewers as links to files beside it."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return "#" * block.level + " " + block.text
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Figure):
        return f"![{block.caption}]({block.name}.svg)\n\n{block.caption}"
    if isinstance(block, Steps):
        lines = "\n".join(block.lines)
        return f'<details markdown="1"><summary>{block.title}</summary>\n\n```text\n{lines}\n```\n\n</details>'
    if isinstance(block, Viewer):
        return f"[{block.caption}]({block.name}.html)"
    table = _markdown_table(block.table)
    if block.folded is None:
        return table
    return f'<details markdown="1"><summary>{block.folded}</summary>\n\n{table}\n\n</details>'


def _markdown_table(table: TextTable) -> str:
    lines = [_line(table.header), _line(["---:" if _numeric(table, i) else "---" for i in range(len(table.header))])]
    lines += [_line(row) for row in table.rows]
    return "\n".join(lines) + (f"\n\n{table.caption}" if table.caption else "")


def _numeric(table: TextTable, column: int) -> bool:
    """Are these cells numbers (to be aligned right), or words?"""
    return not any(re.search(r"[A-Za-z]{4}", row[column]) for row in table.rows)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# ---------------------------------------------------------------- HTML


def page(blocks: Sequence[Block], title: str) -> str:
    """One file that needs no other."""
    body = "\n".join(_html(block) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body>\n{body}\n</body></html>\n"
    )


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{_inline(block.text)}</h{block.level}>"
    if isinstance(block, Text):
        return _paragraph(block.text)
    if isinstance(block, Figure):
        return f"<figure>{block.svg}<figcaption>{_inline(block.caption)}</figcaption></figure>"
    if isinstance(block, Steps):
        lines = html.escape("\n".join(block.lines))
        return f"<details><summary>{_inline(block.title)}</summary><pre>{lines}</pre></details>"
    if isinstance(block, Viewer):
        caption = html.escape(block.caption, quote=True)
        return f'<p>{caption}</p><iframe title="{caption}" srcdoc="{html.escape(block.page, quote=True)}"></iframe>'
    table = _html_table(block.table)
    return table if block.folded is None else f"<details><summary>{_inline(block.folded)}</summary>{table}</details>"


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if all(line.startswith("- ") for line in lines):
        return "<ul>" + "".join(f"<li>{_inline(line[2:])}</li>" for line in lines) + "</ul>"
    return f"<p>{_inline(text)}</p>"


def _html_table(table: TextTable) -> str:
    head = "".join(f"<th>{_inline(cell)}</th>" for cell in table.header)
    numeric = [_numeric(table, i) for i in range(len(table.header))]
    cells = ["".join(_cell(*pair) for pair in zip(row, numeric, strict=True)) for row in table.rows]
    rows = "".join(f"<tr>{line}</tr>" for line in cells)
    caption = f'<p class="caption">{_inline(table.caption)}</p>' if table.caption else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{caption}'


def _cell(text: str, numeric: bool) -> str:
    kind = {"**holds**": "yes", "**does not hold**": "no"}.get(text, "number" if numeric else "words")
    return f'<td class="{kind}">{_inline(text)}</td>'


def _inline(text: str) -> str:
    """The little Markdown that blocks use."""
    text = html.escape(text, quote=False).replace("\\*", "∗")
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)  # the page stands alone: no links to files beside it
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
