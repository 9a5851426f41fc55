"""`anyorder view`: traces as a page that plays them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def view(
    files: Annotated[
        list[str], typer.Argument(metavar="TRACE", help="Files of traces (JSON lines), or - for standard input.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the page. [default: beside the first trace]")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Also write the first sentence's traces as an animated SVG picture.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Play generations step by step in the browser.

    Traces of the same source, by different orders, are shown side by side. The page is one file and needs no network.

    Example: anyorder translate "Ein Hund läuft am Strand." --to en --trace trace.jsonl && anyorder view trace.jsonl
    """
    from anyorder.traces import trace as tracing
    from anyorder.traces.page import groups, page

    traces: list[tracing.Trace] = []
    for name in files:
        try:
            traces += tracing.read(sys.stdin if name == "-" else name)
        except OSError as error:
            raise typer.BadParameter(f"can not read {name}: {error.strerror}") from None
        except tracing.TraceError as error:
            raise typer.BadParameter(str(error)) from None
    first = Path("trace.jsonl" if files[0] == "-" else files[0])
    target = output or first.with_suffix(".html")
    _save(target, page(traces, title=f"{first.stem} · anyorder"))
    if svg is not None:
        from anyorder.traces import picture

        _save(svg, picture.svg([traces[i] for i in groups(traces)[0]["traces"]]))
    typer.echo(target)
    if open_page:
        typer.launch(target.resolve().as_uri())


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"can not write {path}: {error.strerror}") from None
