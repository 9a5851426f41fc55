"""`anyorder average`: the mean of several models, as a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli._guard import FOLDER


def average(
    models: Annotated[
        list[str], typer.Argument(help="Two or more models: shipped names or folders. One named twice counts twice.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to write: a new one."), FOLDER],
    half: Annotated[bool, typer.Option("--half", help="Store float16 weights: half the size.")] = False,
) -> None:
    """Average the weights of models that grew out of each other: one model, which costs as much as one.

    The first says what kind of model it is. Checkpoints of one run, a model and the one it was fine-tuned from, or
    models that were fine-tuned from the same one are worth trying; models that were trained apart are not.

    Example: anyorder average de-en-masked de-en-ar -o de-en-mean
    """
    from anyorder.models.average import average as write
    from anyorder.models.catalog import found

    write([found(name) for name in models], output, half)
    typer.echo(f"{output}: the mean of {', '.join(models)}")
