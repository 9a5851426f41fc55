"""`anyorder generate`: write texts with a masked or diffusion language model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anyorder.cli import _options as o


@o.options("generate", loads=("language",))
def generate(
    prompt: Annotated[str, typer.Argument(help="What the text begins with.")] = "",
    model: o.LanguageModel = ...,  # type: ignore[assignment]
    length: Annotated[int, typer.Option(min=1, help="Tokens to write.")] = 20,
    *,
    as_json: o.Json = False,
    **given: Any,
) -> None:
    """Write texts: sampled, in random order, unless other options are given.

    Example: anyorder generate "Once upon a time" -m bert-base-uncased --length 12 -n 3 --top-p 0.9 --seed 7
    """
    plan, loading = o.parted(given)
    o.make_plan(**plan)
    n = plan.pop("nbest")
    writer = o.open_writer(model, loading)
    for filling in writer.generate(length, n, prompt, **plan):
        if as_json:
            o.say(filling.text, filling.score, True, tokens=filling.tokens, logp=filling.logp)
        else:
            o.echo(filling.text)
