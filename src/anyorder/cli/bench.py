"""anyorder bench: how fast our decoders are, beside others and beside the machine's limit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import READ, WRITTEN
from anyorder.files import write_whole


class Size(StrEnum):
    """Which models are measured."""

    shipped = "shipped"
    paper = "paper"
    both = "both"


def bench(
    data: Annotated[
        Path | None, typer.Option(help="A file with one sentence a line to translate, plain or .gz."), READ
    ] = None,
    reference: Annotated[Path | None, typer.Option(help="Its translations: BLEU is then given too."), READ] = None,
    model: o.TranslationModel = "de-en",
    to: Annotated[str, typer.Option(help="Language to translate into.")] = "en",
    sentences: Annotated[int, typer.Option(min=1, help="How many sentences to translate in bulk.")] = 300,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Threads for every side.")] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds, of which the median counts.")] = 3,
    size: Annotated[Size, typer.Option(help="The model given, one of 1024 units, 6 layers, 60k symbols, or both.")] = (
        Size.both
    ),
    diffusion: Annotated[
        bool, typer.Option("--diffusion", help="Diffusion LMs instead, beside the loops that their authors publish.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the report to this Markdown file."), WRITTEN
    ] = None,
) -> None:
    """Measure decoding speed: both sides of every ratio in one process, interleaved, the median of repeats.

    Sides: the paper's way (one sentence and one length at a time, two full passes per step), a loop with full logits,
    Hugging Face generate and CTranslate2 on the autoregressive model beside ours, and the limit (the matrix products
    alone). Outputs of the first two must be identical to ours.

    Example: anyorder bench --data test.de --reference test.en --output speed.md

    Example: anyorder bench --diffusion --output diffusion.md
    """
    import torch
    from rich.console import Console

    from anyorder.data.read import read_parallel, read_texts
    from anyorder.errors import DataError, UsageError
    from anyorder.lab.bench_page import Asked, report

    if diffusion:
        _diffusion(repeats, output)
        return
    if data is None:
        raise UsageError("give --data, sentences to translate, or --diffusion")
    torch.set_num_threads(threads)
    if reference is None:
        sources, references = read_texts(data).lines, []
    else:
        pairs = read_parallel(data, reference)
        sources, references = pairs.first, pairs.second
    if not sources:
        raise DataError(f"{data} has not one usable line: there is nothing to measure")
    asked = Asked(sources, references, to, sentences, repeats, size != Size.paper, size != Size.shipped)
    console = Console(stderr=True)
    with console.status("loading") as status:
        text = report(o.open_translator(model, {}), asked, status.update if console.is_terminal else console.print)
    if output is not None:
        write_whole(output, text)
    typer.echo(text)


def _diffusion(repeats: int, output: Path | None) -> None:
    from rich.console import Console

    from anyorder.lab.diffusion_bench import report

    console = Console(stderr=True)
    with console.status("loading") as status:
        text = report(repeats, status.update if console.is_terminal else lambda text: None)
    if output is not None:
        write_whole(output, text)
    typer.echo(text)
