"""`anyorder convert`: XLM and fairseq checkpoints as model folders; a folder with vocab.txt alone, with a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli._guard import FOLDER, READ
from anyorder.cli._terminal import visible


def convert(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="A .pth file of XLM or of the paper's authors, or fairseq's RoBERTa .pt beside its dict.txt; with "
            "--split, a folder."
        ),
        READ,
    ],
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
    split: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Copy a Hugging Face folder that has vocab.txt but no tokenizer.json, with a tokenizer to which each "
            "match of this expression is a symbol.",
        ),
    ] = None,
) -> None:
    """Convert an XLM or a fairseq checkpoint to safetensors and JSON, or give a folder the tokenizer that it lacks.

    The file is read without running anything in it, and every tensor is checked.

    Example: anyorder convert sapiens/models/v1/checkpoint_vh.pt sapiens-vh

    Example: anyorder convert mlm_tlm.pth my-model --codes bpe.codes --text train.de train.en
    """
    if split is not None:
        if codes is not None or text is not None or half:
            raise typer.BadParameter("--split copies a folder as it is: --codes, --text and --half are for checkpoints")
        _split(checkpoint, folder, split)
        return
    if checkpoint.is_dir():
        raise typer.BadParameter(f"{checkpoint} is a folder: --split REGEX gives it a tokenizer; else give a .pth file")
    from anyorder.models.fairseq import is_fairseq

    if is_fairseq(checkpoint):
        if codes is not None or text is not None or half:
            raise typer.BadParameter("--codes, --text and --half are for XLM's checkpoints")
        _fairseq(checkpoint, folder)
        return
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


def _fairseq(checkpoint: Path, folder: Path) -> None:
    from anyorder.errors import AnyorderError
    from anyorder.models.fairseq import convert_fairseq

    try:
        what = convert_fairseq(checkpoint, folder)
    except AnyorderError as error:
        raise typer.BadParameter(str(error)) from None
    except OSError as error:
        raise typer.BadParameter(f"cannot write {folder}: {error.strerror}") from None
    typer.echo(f"{folder}: {what}")


def _split(old: Path, new: Path, pattern: str) -> None:
    from anyorder.errors import AnyorderError
    from anyorder.models.split import convert_split

    try:
        symbols = convert_split(old, new, pattern)
    except AnyorderError as error:
        raise typer.BadParameter(str(error)) from None
    except OSError as error:
        raise typer.BadParameter(f"cannot write {new}: {error.strerror}") from None
    typer.echo(f"{new}: a tokenizer of {symbols} symbols")
