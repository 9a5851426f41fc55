"""Watching a text being written: played in the terminal, written to a trace file, opened in the browser."""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from anyorder.cli._outputs import Sink
from anyorder.cli._terminal import visible
from anyorder.files import FileError, write_whole
from anyorder.traces.pieces import Piece, pieces
from anyorder.traces.trace import Trace, replay, write

if TYPE_CHECKING:
    from rich.text import Text

BLANK = "_"
RED, AMBER, GREEN = (205, 60, 60), (190, 130, 0), (30, 145, 70)  # readable on light and on dark
PACE, LONGEST = 0.4, 8.0  # seconds per step, and of a whole generation


@dataclass
class Watch:
    """What the user wants to see of a generation, called with each trace."""

    show: bool = False
    file: Path | None = None
    view: bool = False
    sink: Sink | None = field(default=None, init=False)  # of the file
    traces: list[Trace] = field(default_factory=list, init=False)  # for the page

    @property
    def wanted(self) -> bool:
        return self.show or self.view or self.file is not None

    def __call__(self, trace: Trace) -> None:
        if self.show:
            play(trace, sys.stdout)
        if self.file is not None:
            if self.sink is None:
                self.sink = Sink(self.file)
                self.sink.cut(0)
            text = io.StringIO()
            write([trace], text)
            self.sink.write(text.getvalue())
        if self.view:
            self.traces.append(trace)

    def commit(self) -> None:
        """What was traced is in the file."""
        if self.sink is not None:
            self.sink.commit()

    def finish(self) -> None:
        """Open the page of everything that was watched."""
        if not self.view or not self.traces:
            return
        import tempfile

        import typer

        from anyorder.traces.page import page

        folder = Path(tempfile.mkdtemp(prefix="anyorder-")) if self.file is None else self.file.parent
        target = folder / f"{self.file.stem if self.file else 'translation'}.html"
        save_page(target, page(self.traces))
        print(f"anyorder: the page is {visible(str(target))}", file=sys.stderr)
        typer.launch(target.resolve().as_uri())


def save_page(path: Path, page: str) -> None:
    """Write a page to a place that nobody named: over an older page of ours, but over nothing else."""
    if path.exists() and b"any<b>order</b>" not in path.read_bytes():
        raise FileError(f"{path} exists and is no page of anyorder: name another place (view --output, or --trace)")
    write_whole(path, page)


class Cell(NamedTuple):
    """A position of the canvas as shown."""

    piece: Piece
    logp: float | None  # None: given, or not written yet
    step: int | None  # 1 for the first step; None: given, or not written yet
    new: bool


def frames(trace: Trace) -> Iterator[list[Cell]]:
    """The canvas before the first step and after each one."""
    canvases = replay(trace)
    shown = pieces(token for canvas in canvases for token in canvas if token is not None)
    written: list[tuple[float, int] | None] = [None] * len(trace.canvas)
    for t, canvas in enumerate(canvases):
        new: set[int] = set()
        if t:
            step = trace.steps[t - 1]
            for position, logp in sorted(zip(step.positions, step.logp, strict=True), reverse=True):
                if trace.edit == "insert":
                    written.insert(position, (logp, t))
                else:
                    written[position] = (logp, t)
            new = {i for i, w in enumerate(written) if w is not None and w[1] == t}
        yield [_cell(token, shown, written[i], i in new) for i, token in enumerate(canvas)]


def _cell(token: str | None, shown: dict[str, Piece], how: tuple[float, int] | None, new: bool) -> Cell:
    if token is None:
        return Cell(Piece(BLANK), None, None, False)
    logp, step = how or (None, None)
    piece = shown[token]
    return Cell(piece._replace(text=visible(piece.text)), logp, step, new)


def play(trace: Trace, out: TextIO) -> None:
    """Animated on a terminal, else a line a step."""
    if not out.isatty():
        out.writelines(line + "\n" for line in plain(trace))
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=out)
    if trace.source:
        console.print(visible(trace.source), style="bold", highlight=False, markup=False, emoji=False)
    pause = min(PACE, LONGEST / max(1, len(trace.steps)))
    with Live(console=console, auto_refresh=False) as live:
        for t, cells in enumerate(frames(trace)):
            live.update(picture(cells, console.width, t, len(trace.steps)), refresh=True)
            time.sleep(pause)
    console.print(_legend(trace), style="dim", highlight=False, markup=False, emoji=False)


def plain(trace: Trace) -> Iterator[str]:
    """The generation as lines of text: what is new stands in brackets."""
    if trace.source:
        yield visible(trace.source)
    width = len(str(len(trace.steps)))
    for t, cells in enumerate(frames(trace)):
        words = ""
        for gap, cell in _spaced(cells):
            words += gap + (f"[{cell.piece.text}]" if cell.new else cell.piece.text)
        sure = [f"{math.exp(c.logp):.0%}" for c in cells if c.new and c.logp is not None]
        yield f"{t:>{width}}  {words}" + (f"   ({', '.join(sure)})" if sure else "")
    yield _legend(trace)


def picture(cells: list[Cell], width: int, t: int, steps: int) -> Text:
    """The canvas in colour, below each token the step that wrote it; wrapped to the width."""
    from rich.text import Text

    rows: list[tuple[Text, Text]] = [(Text(), Text())]
    for gap, cell in _spaced(cells):
        order = str(cell.step) if cell.step else ""
        size = max(len(cell.piece.text), len(order))
        if rows[-1][0].cell_len + len(gap) + size > width and rows[-1][0]:
            rows.append((Text(), Text()))
            gap = ""
        rows[-1][0].append(gap).append(cell.piece.text.ljust(size), style=_style(cell))
        rows[-1][1].append(gap).append(order.ljust(size), style="bold" if cell.new else "dim")
    lines = [line for pair in rows for line in pair]
    return Text("\n").join([*lines, Text(f"step {t} of {steps}", style="dim")])


def _spaced(cells: list[Cell]) -> Iterator[tuple[str, Cell]]:
    """Each cell with the space before it: none inside a word."""
    before: Piece | None = None
    for cell in cells:
        inside = before is None or ((before.joins_right or cell.piece.joins_left) and before.text != BLANK)
        yield "" if inside else " ", cell
        before = cell.piece


def _style(cell: Cell) -> str:
    """Colour by probability, from red (unlikely) over amber to green (certain); new ones stand out."""
    if cell.logp is None:
        return "dim" if cell.piece.text == BLANK else ""
    p = 2 * math.exp(min(0.0, cell.logp))
    low, high, share = (RED, AMBER, p) if p < 1 else (AMBER, GREEN, p - 1)
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(low, high, strict=True))
    colour = f"rgb({red},{green},{blue})"
    return f"bold white on {colour}" if cell.new else colour


def _legend(trace: Trace) -> str:
    return f"{trace.recipe}: {len(trace.steps)} steps, {trace.forwards} forward passes, log p = {trace.score:.2f}"
