"""`anyorder infill`: write what is missing in gaps of unknown length, with a masked language model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anyorder.cli import _options as o
from anyorder.options import PLAN


@o.options("infill", loads=("language",))
def infill(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts with {} for each gap. [default: lines of standard input]"),
    ] = None,
    model: o.LanguageModelName = ...,  # type: ignore[assignment]
    length: Annotated[
        str | None,
        typer.Option(
            help="Tokens a gap, a number or a range. [default: 1-5, or what a rule has]", rich_help_panel=PLAN
        ),
    ] = None,
    *,
    as_json: o.Json = False,
    **given: Any,
) -> None:
    """Fill gaps of unknown length; every length is tried, the best chosen by score.

    Each line is the mean log-probability of the whole text's tokens, which lengths are compared by, and the text.

    Example: anyorder infill "Yesterday {} in the park." -m bert-base-uncased --length 2-6
    """
    from anyorder.cli._streams import texts_or_lines

    plan, loading = o.parted(given)
    o.make_plan(**plan)
    n = plan.pop("nbest")
    lengths = None if length is None else o.lengths_of(length)
    writer = o.open_language_model(model, loading)
    for line in texts_or_lines(text):
        if not line.strip() and not text:
            continue
        for filling in writer.infill(line, lengths, n, **plan):
            o.say(filling.text, filling.score, as_json, tokens=filling.tokens, logp=filling.logp, source=line)
