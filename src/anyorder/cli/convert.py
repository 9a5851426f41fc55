"""`anyorder convert`: an XLM checkpoint as a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli._guard import FOLDER, READ
from anyorder.cli._terminal import visible


def convert(
    checkpoint: Annotated[Path, typer.Argument(help="A .pth file of XLM or of the paper's authors."), READ],
    folder: Annotated[Path, typer.Argument(help="The model folder to write: a new one."), FOLDER],
    codes: Annotated[
        Path | None,
        typer.Option(help="Its BPE codes (subword-nmt or fastBPE): without them it takes ids, not text."),
        READ,
    ] = None,
    text: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Parallel text in its two languages, to count lengths p(L|X): needed to translate."),
        READ,
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="Store float16 weights: half the size.")] = False,
) -> None:
    """Convert an XLM checkpoint to safetensors and JSON.

    The file is read without running anything in it, and every tensor is checked.

    Example: anyorder convert mlm_tlm.pth my-model --codes bpe.codes --text train.de train.en
    """
    from rich.console import Console
    from rich.text import Text

    from anyorder.data.read import read_parallel
    from anyorder.errors import AnyorderError
    from anyorder.models.convert import convert_xlm

    try:
        with Console(stderr=True).status(Text(f"converting {visible(str(checkpoint))}")):
            pairs = None if text is None else read_parallel(*text, longest=10_000)
            lines = None if pairs is None else (pairs.first, pairs.second)
            read = convert_xlm(checkpoint, folder, codes=codes, text=lines, half=half)
    except AnyorderError as error:
        raise typer.BadParameter(str(error)) from None
    except OSError as error:
        raise typer.BadParameter(f"can not write {folder}: {error.strerror}") from None
    a = read.architecture
    sizes = f"{a.layers} layers, {a.dim} wide, {a.vocabulary} words, {' and '.join(read.languages)}"
    typer.echo(f"{folder}: {sizes}{'' if codes else '; without --codes it has no tokenizer'}")
