"""`anyorder evaluate`: how well a model translates a test set, with one way of decoding, and what that costs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import FOLDER, READ, WRITTEN
from anyorder.cli._streams import one_line
from anyorder.cli._terminal import visible
from anyorder.errors import UsageError
from anyorder.files import write_whole
from anyorder.options import hole
from anyorder.progress import Bar

if TYPE_CHECKING:
    from anyorder.data.test_sets import EvalSet
    from anyorder.lab.compare import System, Written
    from anyorder.text.translator import Translator

COMPARE = "Beside other systems"


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
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SYSTEM",
            help="Compare with this system, too: a file of translations, a model, or an order, and options after it, "
            "as in 'mask-predict(10) lengths=6', 'de-en-ar beam=5' or 'beam=4'. What an order leaves open is as for "
            "the first system. May be given again.",
            rich_help_panel=COMPARE,
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Write quality against passes of all systems to this SVG file.", rich_help_panel=COMPARE),
        WRITTEN,
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the translations to this file, line by line."), WRITTEN
    ] = None,
    as_json: o.Json = False,
    ray: o.Ray = None,
    **given: Any,
) -> None:
    """BLEU (with its signature), chrF and costs of a model on a test set; with --against those of several systems, with
    TER and the significance of each difference from the first.

    Example: anyorder evaluate --source test.de --reference test.en --to en --order easy-first --steps 10

    Example: anyorder evaluate --data DATA --order mine.py:outside_in --against left2right --against 'de-en-ar beam=5'
    """
    from anyorder.lab.compare import System, of_file, system
    from anyorder.text.own_orders import shown

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
    if picture is not None and not against:
        raise UsageError("--picture shows several systems: name them with --against, or leave it out")
    first = System(model if made.order is None else shown(made.name), model=model, options=plan, loading=loading)
    others = [system(said, first) for said in against or ()]
    translator = o.open_translator(model, loading)
    origin, _ = translator.direction(to, None)
    every, problems = _lines(data, test_set, source, reference, (origin, to))
    corpus = every.part(0, limit or len(every))
    problems = {n: problem for n, problem in problems.items() if n < len(corpus)}
    files = {one.name: of_file(one, corpus, len(every)) for one in others if one.file is not None}
    written = [_written(first, translator, corpus, ray)]
    if output is not None:
        write_whole(output, "".join(line + "\n" for line in written[0].texts))
    for one in others:
        same = (one.model, one.loading) == (model, loading)
        written.append(files.get(one.name) or _written(one, translator if same else None, corpus, ray))
    failed = {f"{w.name}, line {n + 1}": p for w in written[1:] for n, p in sorted(w.errors.items())}
    failed = {f"line {n + 1}": p for n, p in sorted({**written[0].errors, **problems}.items())} | failed
    for where, problem in failed.items():
        print(f"anyorder: {where}: {visible(problem)}", file=sys.stderr)
    if others:
        _table([replace(w, errors={**w.errors, **problems}) for w in written], corpus, as_json, picture)
    else:
        _say(corpus, written[0], {**written[0].errors, **problems}, as_json)
    if failed:
        raise typer.Exit(1)


def _written(which: System, translator: Translator | None, corpus: EvalSet, ray: str | None) -> Written:
    """What a system writes; its model is loaded where it is not already."""
    import time

    from anyorder.lab.compare import Written

    plan, loading = dict(which.options or {}), dict(which.loading or {})
    to, origin = corpus.target_language, corpus.source_language
    with Bar(f"translating: {which.name}", len(corpus)) as bar:
        if ray is None:
            translator = translator or o.open_translator(which.model, loading)
            before, begun = translator.cost, time.perf_counter()
            found = translator.translate(
                corpus.sources, to, source=origin, plan=o.make_plan(**plan), scores=False, progress=bar.advance
            )
            texts, errors, cost = [t.text for t in found], [t.error or "" for t in found], translator.cost - before
        else:
            from anyorder.corpus.task import Task, absolute
            from anyorder.corpus.work import translated
            from anyorder.pool import connected

            task = Task("translate", absolute(which.model), to, origin, loading=loading, options=plan)
            with connected(ray=ray) as pool:
                begun = time.perf_counter()
                texts, errors, cost = translated(pool, task, corpus.sources, bar.advance)
    failed = {n: problem for n, problem in enumerate(errors) if problem}
    return Written(which.name, [one_line(text) for text in texts], failed, cost, time.perf_counter() - begun)


def _table(written: list[Written], corpus: EvalSet, as_json: bool, picture: Path | None) -> None:
    """Several systems beside each other."""
    import json

    from anyorder.lab.compare import compared, markdown
    from anyorder.lab.compare import picture as drawn
    from anyorder.lab.metrics import signatures

    rows = compared(written, corpus)
    if picture is not None:
        write_whole(picture, drawn(rows, f"{corpus.name}, {corpus.source_language}-{corpus.target_language}"))
    marks = signatures()
    if as_json:
        typer.echo(json.dumps({"systems": rows, "signatures": marks}, ensure_ascii=False))
    else:
        typer.echo(markdown(rows) + f"\nBLEU: {marks['BLEU']}")


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


def _say(corpus: EvalSet, written: Written, problems: dict[int, str], as_json: bool) -> None:
    """Scores of the lines that could be translated and have a reference; what of the others became is said too."""
    import json
    from dataclasses import asdict

    from anyorder.errors import DataError
    from anyorder.lab.metrics import quality, signatures

    texts, cost, seconds = written.texts, written.cost, written.seconds
    assert cost is not None and seconds is not None
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
