"""`anyorder evaluate`: how well a model translates a test set, with one way of decoding, and what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli import _options as o
from anyorder.errors import UsageError


def evaluate(
    data: Annotated[Path | None, typer.Option(help="Folder with multi30k/ and tatoeba/.")] = None,
    test_set: Annotated[
        str, typer.Option("--set", help="val, test_2016_flickr, test_2017_flickr, tatoeba-val or tatoeba-test.")
    ] = "test_2016_flickr",
    to: Annotated[str, typer.Option("--to", "-t", help="Target language.")] = "en",
    source: Annotated[Path | None, typer.Option(help="A file to translate, instead of a named set.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Its translations, line by line.")] = None,
    model: o.TranslationModel = "de-en",
    limit: Annotated[int | None, typer.Option(help="Only the first so many sentences.")] = None,
    order: o.Orders = "easy-first",
    count: o.CountOption = None,
    steps: o.Steps = None,
    among: o.Among = None,
    conditionals: o.Conditionals = o.Conditional.visible,
    beam: o.Beam = 1,
    positions: o.Positions = 1,
    lengths: o.Lengths = 4,
    rescore: o.RescoreOption = o.Rescore.written,
    polish: o.Polish = 0,
    seed: o.Seed = 0,
    int8: o.Int8 = False,
    compiled: o.Compiled = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the translations to this file.")] = None,
    as_json: o.Json = False,
) -> None:
    """BLEU (with its signature), chrF and costs of a model on a test set.

    Example: anyorder evaluate --source test.de --reference test.en --to en --order easy-first --steps 10
    """
    import json
    import time
    from dataclasses import asdict

    from rich.console import Console
    from rich.progress import Progress

    from anyorder.data.read import read_parallel
    from anyorder.data.test_sets import Corpus, load_corpus
    from anyorder.experiments.evaluate import quality, signatures

    plan = o.make_plan(
        order=order, count=count, steps=o.steps_of(steps), among=among,
        conditionals=conditionals.value, beam=beam, positions=positions, lengths=lengths, rescore=rescore.value,
        polish=polish, seed=seed,
    )  # fmt: skip
    translator = o.open_translator(model, int8, compiled)
    origin, _ = translator.direction(to, None)
    if source is not None and reference is not None:
        pairs = read_parallel(source, reference)
        corpus = Corpus(source.name, origin, to, pairs.first, pairs.second)
    elif source is None and reference is None and data is not None:
        corpus = load_corpus(data, test_set, f"{origin}-{to}")
    else:
        raise UsageError("give --data with a named --set, or both --source and --reference")
    corpus = corpus.part(0, limit or len(corpus))
    begun = time.perf_counter()
    with Progress(console=Console(stderr=True)) as bar:
        shown = bar.add_task("translating", total=len(corpus))
        found = translator.translate(
            corpus.sources, to, source=origin, plan=plan, progress=lambda n: bar.advance(shown, n)
        )
    seconds = time.perf_counter() - begun
    texts = [t.text for t in found]
    if output is not None:
        output.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    n, cost = len(corpus), translator.cost
    costs = {"forwards": cost.forwards, "passes": cost.canvases / n, "head_rows": cost.head_rows / n}
    scores = {**asdict(quality(texts, corpus)), **costs, "seconds": seconds / n, "sentences": n}
    if as_json:
        typer.echo(json.dumps({**scores, "signatures": signatures()}, ensure_ascii=False))
        return
    marks = signatures()
    typer.echo(f"BLEU            {scores['bleu']:6.2f}   {marks['BLEU']}")
    typer.echo(f"chrF            {scores['chrf']:6.2f}   {marks['chrF']}")
    if scores["tokenised"] is not None:
        typer.echo(f"tokenised BLEU  {scores['tokenised']:6.2f}   {marks['tokenised BLEU']}, lower-cased Moses tokens")
    typer.echo(
        f"a sentence: {costs['passes']:.1f} passes, {costs['head_rows']:.0f} head rows, {seconds / n:.3f} seconds "
        f"({n} sentences)"
    )
