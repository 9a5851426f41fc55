"""`anyorder tune`: the coefficients of the log-linear order, searched on the validation set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli._guard import FOLDER


def tune(
    data: Annotated[Path, typer.Option(help="Folder with multi30k/ and tatoeba/."), FOLDER],
    to: Annotated[str, typer.Option("--to", "-t", help="Target language.")] = "en",
    model: Annotated[str, typer.Option("--model", "-m", help="A shipped model, or a folder.")] = "de-en",
    test_set: Annotated[str, typer.Option("--set", help="val or tatoeba-val; never a test set.")] = "val",
    limit: Annotated[int, typer.Option(help="Sentences (hundreds).", min=100)] = 100,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder where tuned.json and the decoded cells go."), FOLDER
    ] = Path("results"),
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes, one thread each. [default: as many as cores]")
    ] = None,
) -> None:
    """Try coefficients of negent, logp and position, one at a time; `anyorder reproduce` has the best as a row.

    Example: anyorder tune --data DATA --to en
    """
    from anyorder.cli._options import open_translator
    from anyorder.errors import UsageError
    from anyorder.lab.tune import tune as search
    from anyorder.lab.tune import write_tuned
    from anyorder.pool import Processes

    if test_set not in ("val", "tatoeba-val"):
        raise UsageError(f"coefficients are tuned on val or tatoeba-val, not on {test_set!r}")
    direction = "-".join(open_translator(model, {}).direction(to, None))
    tried = search(model, data, direction, output / "cells", corpus=test_set, limit=limit, pool=Processes(jobs))
    for t in tried:
        typer.echo(f"{t.bleu:6.2f}  {t.order}")
    write_tuned(output / "tuned.json", direction, tried[0].order)
    typer.echo(f"best of {direction} on {tried[0].sentences} sentences: {tried[0].order}")
