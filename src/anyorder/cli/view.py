"""`anyorder view`: traces as a page that plays them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli._guard import READ, WRITTEN
from anyorder.cli._terminal import visible
from anyorder.files import keep_apart, write_whole


def view(
    files: Annotated[
        list[str],
        typer.Argument(metavar="TRACE", help="Files of traces (JSON lines), or - for standard input."),
        READ,
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the page. [default: beside the first trace]"),
        WRITTEN,
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Also write the first sentence's traces as an animated SVG picture."), WRITTEN
    ] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Play generations step by step in the browser.

    Traces of the same source, by different orders, are shown side by side. The page is one file and needs no network.

    Example: anyorder translate "Ein Hund läuft am Strand." --to en --trace trace.jsonl && anyorder view trace.jsonl
    """
    from anyorder.cli._show import save_page
    from anyorder.traces import reading
    from anyorder.traces import trace as tracing
    from anyorder.traces.page import groups, page

    traces: list[tracing.Trace] = []
    for name in files:
        try:
            traces += reading.read(sys.stdin if name == "-" else name)
        except OSError as error:
            raise typer.BadParameter(f"can not read {name}: {error.strerror}") from None
        except tracing.TraceError as error:
            raise typer.BadParameter(str(error)) from None
    first = Path("trace.jsonl" if files[0] == "-" else files[0])
    target = output or first.with_suffix(".html")
    keep_apart({name: name for name in files if name != "-"}, {"the page": target, "--svg": svg})
    (write_whole if output else save_page)(target, page(traces, title=f"{first.stem} · anyorder"))
    if svg is not None:
        from anyorder.traces import picture

        write_whole(svg, picture.svg([traces[i] for i in groups(traces)[0]["traces"]]))
    typer.echo(visible(str(target)))
    if open_page:
        typer.launch(target.resolve().as_uri())
