"""`anyorder data`: fetch a public corpus and lay it out as the configurations expect it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli._guard import FOLDER


def data(
    corpus: Annotated[str, typer.Argument(help="multi30k, tatoeba or wmt14.")],
    folder: Annotated[Path, typer.Argument(help="Where to put it."), FOLDER],
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A folder that has it already, or has it under its name: nothing is fetched."),
        FOLDER,
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            help="Fetch from this address instead, where files lie as HOST/PATH of their own addresses, as "
            "`wget -x` lays them out."
        ),
    ] = None,
) -> None:
    """Get a corpus: the text files that `anyorder train` reads with --data FOLDER.

    Example: anyorder data multi30k data && anyorder data tatoeba data
    """
    from anyorder.data.fetch import fetch
    from anyorder.errors import UsageError

    if source is not None and mirror is not None:
        raise UsageError("--from copies a folder and --mirror fetches: leave one of the two out")
    for line in fetch(corpus, folder, source, mirror):
        typer.echo(line)
