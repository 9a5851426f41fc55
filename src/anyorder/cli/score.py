"""`anyorder score`: how likely a model finds a text, or a translation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli import _options as o
from anyorder.errors import UsageError

if TYPE_CHECKING:
    from anyorder.text.results import TextScore


@o.options(loads=("language", "translation"))
def score(
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT", help="Texts; with --to, a text and its translation. [default: lines of standard input]"
        ),
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="A masked LM or a translation model.")] = "de-en",
    to: Annotated[str | None, typer.Option("--to", "-t", help="Score translations into this language.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Also log p of each token given all others.")] = False,
    as_json: o.Json = False,
    **given: Any,
) -> None:
    """Score texts by pseudo log-likelihood (an autoregressive model: by log-likelihood).

    Each line is Σ log p and the text. Lines of translations hold a text and its translation, separated by a tab.

    Example: anyorder score "Ein Hund läuft." "A dog is running." --to en

    Example: anyorder score "The cat sat on the mat." -m bert-base-uncased --tokens
    """
    from anyorder.cli._streams import texts_or_lines

    _, loading = o.parted(given)
    if to is not None:
        _translations(model, to, text, tokens, as_json, loading)
        return
    writer = o.open_language_model(model, loading)
    for line in texts_or_lines(text):
        if not line.strip() and not text:
            continue
        _say(line, writer.score(line), tokens, as_json)


def _say(text: str, found: TextScore, tokens: bool, as_json: bool, **more: str) -> None:
    if found.problem:
        typer.echo(found.problem, err=True)
    finite = [value if math.isfinite(value) else None for value in found.logp]  # JSON has no −∞
    perplexity = found.perplexity if math.isfinite(found.perplexity) else None
    o.say(text, found.total, as_json, tokens=found.tokens, logp=finite, perplexity=perplexity, **more)
    if tokens and not as_json:
        for token, logp in zip(found.tokens, found.logp, strict=True):
            o.echo(f"  {logp:9.4f}\t{token}")


def _translations(
    model: str, to: str, text: list[str] | None, tokens: bool, as_json: bool, loading: dict[str, Any]
) -> None:
    from anyorder.cli._streams import texts_or_lines
    from anyorder.errors import TextError

    if text and len(text) != 2:
        raise UsageError(f'with --to give a text and its translation: "Ein Hund." "A dog."; got {len(text)} texts')
    if loading.pop("diffusion", False):
        raise UsageError("--diffusion is for language models, and --to for translations: leave out one of them")
    translator = o.open_translator(model, loading)
    try:
        translator.direction(to, None)
    except TextError as error:
        raise UsageError(str(error)) from None
    for number, line in enumerate(["\t".join(text)] if text else texts_or_lines(None), 1):
        if line.count("\t") != 1:
            raise TextError(f"line {number}: expected a text, a tab and its translation")
        source, target = line.split("\t")
        try:
            (found,) = translator.scores(source, target, to)
        except TextError as error:
            raise TextError(f"line {number}: {error}") from None
        _say(target, found, tokens, as_json, source=source)
