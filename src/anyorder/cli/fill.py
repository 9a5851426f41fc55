"""`anyorder fill`: fill every mask of a text jointly, with a masked language model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anyorder.cli import _options as o
from anyorder.options import takes


@o.options("fill", loads=("language",))
def fill(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts with [MASK] or <mask>. [default: lines of standard input]"),
    ] = None,
    model: o.LanguageModelName = ...,  # type: ignore[assignment]
    *,
    as_json: o.Json = False,
    show: o.Show = False,
    trace: o.TraceFile = None,
    view: o.View = False,
    **given: Any,
) -> None:
    """Fill all masks of a text together, the likeliest fillings first.

    Each line is a joint probability and the text. --show, --trace and --view follow the greedy filling.

    Example: anyorder fill "The [MASK] [MASK] sat on the [MASK]." -m bert-base-uncased
    """
    from anyorder.cli._show import Watch
    from anyorder.cli._streams import texts_or_lines

    plan, loading = o.parted(given)
    o.make_plan(**plan)
    n = plan.pop("nbest")
    alone = {name: value for name, value in plan.items() if name in takes("stream")}
    writer, watch = o.open_language_model(model, loading), Watch(show, trace, view)
    for line in texts_or_lines(text):
        if not line.strip() and not text:
            continue
        if watch.wanted:
            watch(writer.trace(line, **alone))
            watch.commit()
        for filling in writer.fill(line, n, **plan):
            o.say(filling.text, filling.probability, as_json, tokens=filling.tokens, logp=filling.logp, source=line)
    watch.finish()
