"""`anyorder evaluate`: how well a model translates a test set, with one way of decoding, and what that costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import FOLDER, READ, WRITTEN
from anyorder.cli._job import one_line
from anyorder.cli._terminal import visible
from anyorder.files import write_whole
from anyorder.progress import Bar

if TYPE_CHECKING:
    from anyorder.core import Cost
    from anyorder.data.test_sets import EvalSet
from anyorder.errors import UsageError
from anyorder.options import hole


@o.options("translate", loads=("translation",))
def evaluate(
    data: Annotated[Path | None, typer.Option(help="Folder with multi30k/, tatoeba/ or wmt14/."), FOLDER] = None,
    test_set: Annotated[
        str,
        typer.Option(
            "--set",
            help="val, test_2016_flickr, test_2017_flickr, tatoeba-val, tatoeba-test, newstest2013 or newstest2014.",
        ),
    ] = "test_2016_flickr",
    to: Annotated[str, typer.Option("--to", "-t", help="Target language.")] = "en",
    source: Annotated[Path | None, typer.Option(help="A file to translate, instead of a named set."), READ] = None,
    reference: Annotated[Path | None, typer.Option(help="Its translations, line by line."), READ] = None,
    model: o.TranslationModel = "de-en",
    limit: Annotated[int | None, typer.Option(min=1, help="At most that many lines, from the first.")] = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the translations to this file, line by line."), WRITTEN
    ] = None,
    as_json: o.Json = False,
    ray: o.Ray = None,
    **given: Any,
) -> None:
    """BLEU (with its signature), chrF and costs of a model on a test set.

    Example: anyorder evaluate --source test.de --reference test.en --to en --order easy-first --steps 10
    """
    import time

    plan, loading = o.parted(given)
    if ray is not None:
        for name in loading:
            if loading[name] and (why := hole("map", "translation", name)):
                raise UsageError(f"--{name} is of no use on a Ray cluster, where {why}: leave it out")
    o.check_beside(loading, plan)
    made = o.make_plan(**plan)
    named = source is None and reference is None and data is not None
    if not named and (source is None or reference is None):
        raise UsageError("give --data with a named --set, or both --source and --reference")
    translator = o.open_translator(model, loading)
    origin, _ = translator.direction(to, None)
    corpus, problems = _lines(data, test_set, source, reference, (origin, to))
    corpus = corpus.part(0, limit or len(corpus))
    with Bar("translating", len(corpus)) as bar:
        if ray is None:
            begun = time.perf_counter()
            found = translator.translate(
                corpus.sources, to, source=origin, plan=made, scores=False, progress=bar.advance
            )
            texts, errors, cost = [t.text for t in found], [t.error or "" for t in found], translator.cost
        else:
            from anyorder.cluster.spread import translated
            from anyorder.cluster.tasks import Task, absolute
            from anyorder.pool import connected

            task = Task("translate", absolute(model), to, origin, loading=loading, options=plan)
            with connected(ray=ray) as pool:
                begun = time.perf_counter()
                texts, errors, cost = translated(pool, task, corpus.sources, bar.advance)
    seconds = time.perf_counter() - begun
    lines = [one_line(text) for text in texts]
    if output is not None:
        write_whole(output, "".join(line + "\n" for line in lines))
    problems = {n: p for n, p in {**dict(enumerate(errors)), **problems}.items() if p and n < len(lines)}
    for n, problem in sorted(problems.items()):
        print(f"anyorder: line {n + 1}: {visible(problem)}", file=sys.stderr)
    _say(corpus, lines, problems, cost, seconds, as_json)
    if problems:
        raise typer.Exit(1)


def _lines(
    data: Path | None, test_set: str, source: Path | None, reference: Path | None, direction: tuple[str, str]
) -> tuple[EvalSet, dict[int, str]]:
    """All lines of a test set, and what is wrong with some: {line, from 0: reason}."""
    from anyorder.data.read import read_aligned
    from anyorder.data.test_sets import EvalSet, load_test_set
    from anyorder.errors import DataError

    if source is None or reference is None:
        assert data is not None
        return load_test_set(data, test_set, "-".join(direction)), {}
    lines = read_aligned(source, reference)
    if not lines.first:
        raise DataError(f"{source} is empty: there is nothing to evaluate")
    return EvalSet(source.name, *direction, lines.first, lines.second), lines.problems


def _say(
    corpus: EvalSet, texts: list[str], problems: dict[int, str], cost: Cost, seconds: float, as_json: bool
) -> None:
    """Scores of the lines that could be translated and have a reference; what of the others became is said too."""
    import json
    from dataclasses import asdict

    from anyorder.errors import DataError
    from anyorder.lab.metrics import quality, signatures

    scored = [
        n
        for n in range(len(corpus))
        if n not in problems and corpus.sources[n].strip() and corpus.references[n].strip()
    ]
    if not scored:
        raise DataError(f"not one of the {len(corpus)} lines of {corpus.name} can be scored: all are blank or failed")
    n, blank = len(scored), len(corpus) - len(scored) - len(problems)
    costs = {"forwards": cost.forwards, "passes": cost.canvases / n, "head_rows": cost.head_rows / n}
    counts = {"sentences": n, "lines": len(corpus), "blank": blank, "failed": len(problems)}
    chosen = quality([texts[i] for i in scored], corpus.some(scored))
    scores = {**asdict(chosen), **costs, "seconds": seconds / n, **counts}
    marks = signatures()
    if as_json:
        typer.echo(json.dumps({**scores, "signatures": marks}, ensure_ascii=False))
        return
    typer.echo(f"BLEU            {chosen.bleu:6.2f}   {marks['BLEU']}")
    typer.echo(f"chrF            {chosen.chrf:6.2f}   {marks['chrF']}")
    if chosen.tokenised is not None:
        typer.echo(f"tokenised BLEU  {chosen.tokenised:6.2f}   {marks['tokenised BLEU']}, lower-cased Moses tokens")
    left = f", of {len(corpus)} lines: {blank} blank, {len(problems)} failed" if n < len(corpus) else ""
    typer.echo(
        f"a sentence: {costs['passes']:.1f} passes, {costs['head_rows']:.0f} head rows, {seconds / n:.3f} seconds "
        f"({n} sentences{left})"
    )
