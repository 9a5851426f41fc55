"""anyorder bench: how fast our decoders are, beside others and beside the machine's limit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def bench(
    data: Annotated[Path, typer.Option(help="A text file with one sentence a line to translate.")],
    model: Annotated[str, typer.Option("-m", "--model", help="An undirected translation model.")] = "de-en",
    to: Annotated[str, typer.Option(help="Language to translate into.")] = "en",
    sentences: Annotated[int, typer.Option(help="How many sentences to translate in bulk.")] = 200,
    threads: Annotated[int, typer.Option(help="Threads for every side.")] = 2,
    size: Annotated[
        str, typer.Option(help="'shipped', 'paper' (1024 units, 6 layers, 60k symbols) or 'both'.")
    ] = "both",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the table to this Markdown file.")
    ] = None,
) -> None:
    """Measure decoding speed: both sides of every ratio in one process, interleaved, the median of repeats.

    Sides: the paper's way (one sentence and one length at a time, two full passes a step), a loop with full logits,
    Hugging Face generate and CTranslate2 on the autoregressive model beside ours, and the limit (the matrix products
    alone). Outputs of the first two must be identical to ours.

    Example: anyorder bench --data test.de --output speed.md
    """
    import gzip

    import torch
    from rich.console import Console

    from anyorder import load
    from anyorder.bench import run
    from anyorder.bench.plain import Job

    torch.set_num_threads(threads)
    console = Console(stderr=True)
    translator = load(model)
    direction = translator.direction(to, None)
    opening = gzip.open if data.suffix == ".gz" else open
    with opening(data, "rt", encoding="utf-8") as stream:
        lines = [line.strip() for line, _ in zip(stream, range(sentences), strict=False)]
    encoded = translator.tokenizer.encode(lines, direction[0])
    lengths = translator.lengths["-".join(direction)].propose(torch.tensor([len(e) for e in encoded]), 4)[0].tolist()
    jobs = [Job(e, length) for e, some in zip(encoded, lengths, strict=True) for length in some]
    where = (translator.languages.index(direction[0]), translator.languages.index(direction[1]))
    rows = []
    with console.status("loading") as status:
        note = status.update
        if size in ("shipped", "both"):
            setting = run.Setting("shipped", translator.model, jobs, where, (0, 1, 2, 3, 4), 40, 3)
            rows += run.throughput(setting, note) + run.latency(setting, 30, note)
            if translator.beside is not None:
                rows += run.autoregressive(translator, translator.beside(), encoded, where, note)
        if size in ("paper", "both"):
            large = run.paper_sized(jobs[: 4 * 32])
            rows += run.throughput(large, note)
    table = run.markdown(rows)
    if output is not None:
        output.write_text(table, encoding="utf-8")
    typer.echo(table)
