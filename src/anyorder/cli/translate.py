"""`anyorder translate`: sentences, or a stream of lines, into another language in any order."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import READ, WRITTEN
from anyorder.cli._terminal import visible
from anyorder.data.lines import unpacked
from anyorder.errors import UsageError

if TYPE_CHECKING:
    from anyorder.text.plan import Plan
    from anyorder.text.translator import Translator

_FILES = "Files"


@o.options("translate", loads=("translation",))
def translate(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to translate. [default: lines of standard input]"),
    ] = None,
    to: Annotated[str, typer.Option("--to", "-t", help="Language to translate into.")] = ...,  # type: ignore[assignment]
    source: Annotated[str | None, typer.Option("--from", help="Language of the text. [default: the other one]")] = None,
    model: o.TranslationModel = "de-en",
    *,
    as_json: o.Json = False,
    show: o.Show = False,
    trace: o.TraceFile = None,
    view: o.View = False,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="Read lines from this file, plain or .gz.", rich_help_panel=_FILES),
        READ,
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this file, packed if it ends in .gz.", rich_help_panel=_FILES),
        WRITTEN,
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on where the output file ends: with the same input and settings, or not at all.",
            rich_help_panel=_FILES,
        ),
    ] = False,
    **given: Any,
) -> None:
    """Translate sentences, or lines from standard input to standard output.

    A line in is a line out, in order, as soon as it is done; an empty line stays empty. With --nbest every candidate is
    a line `number ||| text ||| score`, or use --json.

    Example: anyorder translate "Ein Hund läuft am Strand." --to en --show

    Example: anyorder translate --to en --order 'negent + 0.9*logp' --steps 10 < lines.de > lines.en

    Example: anyorder translate --to en --order 'easy-first | left2right' --rescore ar < lines.de > lines.en

    Example: anyorder translate -t en -m de-en-masked -O 'mask-predict(10)' --polish 2 --rescore ar < lines.de > out.en
    """
    plan, loading = o.parted(given)
    if resume and output is None:
        raise UsageError("--resume goes on with an output file: say which with --output FILE")
    if resume and plan["nbest"] > 1 and not as_json:
        raise UsageError("--resume needs a line per sentence: use --json with --nbest")
    if text and input_file:
        raise UsageError("give either texts or --input, not both")
    if text and resume:
        raise UsageError("--resume goes on with a stream of lines: give them with --input or on standard input")
    o.check_beside(loading, plan)
    raw = unpacked(input_file.open("rb")) if input_file else None
    made = o.make_plan(**plan)

    from anyorder.cli._show import Watch
    from anyorder.cli._streams import Run
    from anyorder.text.load import identity

    translator = o.open_translator(model, loading)
    _check_direction(translator, to, source, made)
    for one in text or ():
        if "\n" not in one and len(one) < 1000 and Path(one).is_file():
            print(f"anyorder: {visible(one)} is a file, and is translated as a text: --input reads it", file=sys.stderr)
    watch = Watch(show, trace, view)
    run = Run(translator, to, source, made, as_json, watch)
    if text:
        run.texts(text, output)
    else:
        if raw is None and sys.stdin.isatty():
            print("anyorder: write a sentence and press Enter; Ctrl-D ends", file=sys.stderr)
        settings = {name: value for name, value in plan.items() if name not in ("most_passes", "most_memory")}
        settings |= {"to": to, "from": source, "json": as_json, "trace": trace is not None, **loading}
        settings = {} if output is None else {**identity(model, made, loading.get("beside")), **settings}
        run.stream(raw or sys.stdin.buffer, str(input_file or "standard input"), output, resume, settings)
    watch.finish()
    if run.failed:
        raise typer.Exit(1)


def _check_direction(translator: Translator, to: str, source: str | None, plan: Plan) -> None:
    from anyorder.errors import TextError
    from anyorder.models.folder import LEARNED

    try:
        direction = "-".join(translator.direction(to, source))
    except TextError as error:
        raise UsageError(str(error)) from None
    for name in LEARNED:
        have = [way for way, orders in translator.policies.items() if name in orders]
        if direction not in have and any(one.order == name for one in plan.each):
            known = ", ".join(have) or "no direction"
            raise UsageError(f"{translator.name} has a {name} order for {known}, not for {direction}; try easy-first")
    if plan.rescore in ("ar", "both") and translator.beside is None and not translator.causal:
        raise UsageError(f"{translator.name} has no autoregressive model beside it: use --rescore pll")
