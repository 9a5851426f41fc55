"""Traces as one animated SVG picture: the canvas fills step by step, in light and dark, in pure Python."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from anyorder.traces.page import names, source_text
from anyorder.traces.pieces import Piece, pieces
from anyorder.traces.trace import Trace

MARGIN, FONT, SMALL = 30, 20, 11
PLOT = 150  # width of the order plot
START, HOLD = 0.6, 3.5  # seconds before the first step and after the last
FAMILY = "Inter, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Life:
    """A token in a cell from the step that wrote it until the one that replaced or erased it (None: to the end)."""

    token: str
    logp: float
    start: int
    end: int | None = None


def lives(trace: Trace) -> list[list[Life]]:
    """For each final position the tokens it has held, in time. Given tokens are not among them."""
    cells: list[list[Life]] = [[] for _ in trace.canvas]
    for i, step in enumerate(trace.steps):
        for position, token, logp in sorted(zip(step.positions, step.tokens, step.logp, strict=True), reverse=True):
            life = Life(token, logp, i)
            if trace.edit == "insert":
                cells.insert(position, [life])
            else:
                cells[position] = [*_ended(cells[position], i), life]
        for position in step.erased:
            cells[position] = _ended(cells[position], i + 1 if position in step.positions else i)
    return cells


def _ended(cell: list[Life], step: int) -> list[Life]:
    return [Life(v.token, v.logp, v.start, step if v.end is None else v.end) for v in cell]


def svg(traces: Sequence[Trace], *, animated: bool = True, width: int = 880, pace: float = 0.6) -> str:
    """A picture of generations of one source; `pace` is seconds per step. Not animated, it shows the end."""
    if not traces:
        raise ValueError("no traces to draw")
    steps = max(len(trace.steps) for trace in traces)
    body, y = [], float(MARGIN)
    source = source_text(traces[0])
    if source:
        for line in _wrapped(source, width - 2 * MARGIN, FONT):
            y += FONT * 1.3
            body.append(_text(MARGIN, y, line, FONT, "ink"))
        y += 26
    for trace, name in zip(traces, names(traces), strict=True):
        part, y = _panel(trace, name, y, width, steps)
        body += part
    height = round(y + MARGIN)
    label = escape(_printable("; ".join(f"{t.recipe}: {t.text or ''}" for t in traces)), {'"': "&quot;"})
    style = _style(traces, steps, pace, animated)
    ramp = "".join(f'<stop offset="{i / 8:.3f}" class="c{round(i / 8 * (steps - 1))}"/>' for i in range(9))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{label}" font-family="{FAMILY}">\n<style>{style}</style>\n'
        f'<defs><linearGradient id="ramp">{ramp}</linearGradient></defs>\n'
        f'<rect class="paper card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="18"/>\n'
        + "\n".join(body)
        + f'\n<rect class="time" x="{MARGIN}" y="{height - 26}" width="{width - 2 * MARGIN}" height="3" rx="1.5"/>'
        "\n</svg>\n"
    )


# ---------------------------------------------------------------- layout


def _panel(trace: Trace, name: str, y: float, width: int, steps: int) -> tuple[list[str], float]:
    """One strategy: its name, its cells in lines, its order plot on the right."""
    cells = lives(trace)
    given = [None if cell else token for cell, token in zip(cells, trace.tokens, strict=True)]
    shown = pieces([v.token for cell in cells for v in cell] + [token for token in trace.tokens if token is not None])
    out = [_text(MARGIN, y + 12, name, 13, "ink", weight=600)]
    top = y = y + 24
    boxes = list(_flow(trace, cells, shown, width - 2 * MARGIN - PLOT - 40))
    for i, (x, line, wide) in enumerate(boxes):
        out += _cell(cells[i], given[i], trace.edit, shown, MARGIN + x, y + line * 58, wide)
    y += (boxes[-1][1] + 1 if boxes else 1) * 58
    y = max(y, top + 74)
    left, tall, r = width - MARGIN - PLOT, y - top - 18, _radius(cells, steps)
    for i, cell in enumerate(cells):
        for v in cell:
            px = left + (i + 0.5) / len(cells) * PLOT
            py = top + (v.start + 0.5) / steps * tall
            out.append(f'<circle class="c{v.start} from{v.start}" cx="{px:.1f}" cy="{py:.1f}" r="{r:.1f}"/>')
    return out, y + 16


def _radius(cells: list[list[Life]], steps: int) -> float:
    return max(1.4, min(3.6, PLOT / len(cells) / 2.4, 120 / steps))


def _flow(
    trace: Trace, cells: list[list[Life]], shown: dict[str, Piece], room: float
) -> Iterator[tuple[float, int, float]]:
    """(x, line, width) of each cell: pieces of a word stay together, words wrap."""
    groups: list[list[float]] = []
    before = Piece("")
    for i, final in enumerate(trace.tokens):
        piece = shown[final] if final is not None else Piece("")
        texts = [shown[v.token].text for v in cells[i]] + [piece.text]
        wide = max(30.0, max(_width(text, FONT) for text in texts) + 16)
        if i and (piece.joins_left or before.joins_right):
            groups[-1].append(wide)
        else:
            groups.append([wide])
        before = piece
    x, line = 0.0, 0
    for group in groups:
        if x and x + sum(group) > room:
            x, line = 0.0, line + 1
        for wide in group:
            yield x, line, wide
            x += wide + 2
        x += 6


def _cell(
    cell: list[Life], given: str | None, edit: str, shown: dict[str, Piece], x: float, y: float, wide: float
) -> list[str]:
    box = f'x="{x:.1f}" y="{y + 14:.1f}" width="{wide:.1f}" height="28" rx="8"'
    middle = x + wide / 2
    out = [f'<rect class="slot" {box}/>'] if edit == "replace" and given is None else []
    if given is not None:
        out.append(_text(middle, y + 35, shown[given].text, FONT, "ink", anchor="middle"))
    for v in cell:
        piece = shown[v.token]
        size = FONT * (0.8 if piece.special else 1)
        full, part = wide - 16, (wide - 16) * math.exp(v.logp)
        out.append(
            f'<g class="c{v.start} life {_span(v)}">'
            f'<rect class="paper" {box}/><rect class="tint" {box}/><rect class="new at{v.start}" {box}/>'
            + _text(middle, y + 10, str(v.start + 1), SMALL, "place", weight=600, anchor="middle")
            + _text(middle, y + 35, piece.text, size, "ink", anchor="middle", fit=wide - 10)
            + f'<rect class="rest" x="{x + 8:.1f}" y="{y + 45:.1f}" width="{full:.1f}" height="3" rx="1.5"/>'
            f'<rect x="{x + 8:.1f}" y="{y + 45:.1f}" width="{part:.1f}" height="3" rx="1.5"/></g>'
        )
    return out


def _span(v: Life) -> str:
    return f"from{v.start}" if v.end is None else f"from{v.start}to{v.end}"


def _text(
    x: float, y: float, text: str, size: float, kind: str,
    *, weight: int = 400, anchor: str = "start", fit: float | None = None,
) -> str:  # fmt: skip
    squeeze = ""
    if fit is not None and _width(text, size) > fit:
        squeeze = f' textLength="{fit:.1f}" lengthAdjust="spacingAndGlyphs"'
    extra = "" if weight == 400 else f' font-weight="{weight}"'
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"{extra}{squeeze}>'
        f"{escape(_printable(text))}</text>"
    )


def _printable(text: str) -> str:
    """XML has no room for control characters."""
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cs", "Cn") else c for c in text)


def _width(text: str, size: float) -> float:
    """About the width of text in a sans-serif face; there is no font here to ask."""
    return size * sum(_advance(c) for c in text)


def _advance(c: str) -> float:
    if unicodedata.east_asian_width(c) in "WF":
        return 1.0
    for characters, advance in (("iljI.,:;'|!", 0.27), ("ftr()[]-/ ", 0.35), ("mwMW@%&", 0.86)):
        if c in characters:
            return advance
    return 0.7 if c.isupper() else 0.56


def _wrapped(text: str, room: float, size: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and _width(longer, size) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


# ---------------------------------------------------------------- colour and time


def _style(traces: Sequence[Trace], steps: int, pace: float, animated: bool) -> str:
    spans = {(v.start, v.end) for trace in traces for cell in lives(trace) for v in cell}
    spans |= {(s, None) for s in range(steps)}
    rules = [
        ".paper,.life .paper{fill:#fff}.card{stroke:#e9e5dd}.ink{fill:#1d1b26}.slot{fill:#f0ece5}",
        ".place,.life rect{fill:currentColor}.life .tint{opacity:.13}.life .rest{opacity:.2}",
        ".life .new{fill:none;stroke:currentColor;stroke-width:2;opacity:0}",
        ".time{fill:url(#ramp)}circle{fill:currentColor}stop{stop-color:currentColor}",
        *(f".c{s}{{color:{ramp(s, steps)}}}" for s in range(steps)),
        *(f".from{a}to{b}{{opacity:0}}" for a, b in sorted(spans, key=str) if b is not None),
        "@media(prefers-color-scheme:dark){.paper,.life .paper{fill:#1a1921}.card{stroke:#2c2a36}",
        ".ink{fill:#eeecf4}.slot{fill:#282631}.life .tint{opacity:.21}",
        *(f".c{s}{{color:{ramp(s, steps, dark=True)}}}" for s in range(steps)),
        "}",
    ]
    return "".join(rules + (_motion(spans, steps, pace) if animated else []))


def _motion(spans: set[tuple[int, int | None]], steps: int, pace: float) -> list[str]:
    """Keyframes: a token is there from its step on, its frame lights up for the step, time runs along the bottom."""
    total = START + steps * pace + HOLD

    def at(step: float) -> float:
        return round(100 * (START + step * pace) / total, 2)

    fade = 0.25  # of a step
    rules = [
        "@media(prefers-reduced-motion:no-preference){",
        f".time{{animation:time {total:.2f}s linear infinite}}",
        f"@keyframes time{{0%,{at(0)}%{{clip-path:inset(0 100% 0 0)}}{at(steps)}%,100%{{clip-path:inset(0)}}}}",
    ]
    for a, b in sorted(spans, key=str):
        name, stay, gone = (f"from{a}", 99.0, 100.0) if b is None else (f"from{a}to{b}", at(b), at(b + fade))
        rules.append(f".{name}{{animation:{name} {total:.2f}s infinite}}")
        rules.append(
            f"@keyframes {name}{{0%,{at(a)}%{{opacity:0}}{at(a + fade)}%,{stay}%{{opacity:1}}"
            f"{gone}%,100%{{opacity:0}}}}"
        )
    for s in range(steps):
        lit = f"{at(s + fade)}%,{at(s + 1)}%{{opacity:1}}{at(s + 1.5)}%,100%{{opacity:0}}"
        rules.append(
            f".life .at{s}{{animation:at{s} {total:.2f}s infinite}}@keyframes at{s}{{0%,{at(s)}%{{opacity:0}}{lit}}}"
        )
    return [*rules, "}"]


def ramp(step: int, steps: int, dark: bool = False) -> str:
    """The colour of a step, from indigo by magenta to amber, as the viewer has it (style.css: --c)."""
    f = step / (steps - 1) if steps > 1 else 0.0
    if dark:
        return oklch(0.74 + 0.06 * f, 0.15 - 0.02 * f, 268 + 162 * f)
    return oklch(0.54 + 0.03 * f, 0.2 - 0.05 * f, 268 + 147 * f)


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """OKLCH (hue in degrees) as #rrggbb, clipped to sRGB."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    )
    gamma = [12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in (max(c, 0.0) for c in linear)]
    return "#" + "".join(f"{round(255 * min(c, 1.0)):02x}" for c in gamma)
