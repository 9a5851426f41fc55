"""`anyorder generate`: write texts with a masked or diffusion language model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anyorder.cli import _options as o


@o.options("generate", loads=("language",))
def generate(
    prompt: Annotated[str, typer.Argument(help="What the text begins with, or with --chat what to answer.")] = "",
    model: o.LanguageModelName = ...,  # type: ignore[assignment]
    length: Annotated[
        str | None,
        typer.Option(
            help="Tokens to write, a number or a range. [default: as many as a diffusion LM's authors write, as a rule "
            "has, or 20]"
        ),
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Answer the prompt, by the model's chat template.")] = False,
    system: Annotated[str | None, typer.Option(help="The conversation's first message; implies --chat.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End the text before this; may be given again.")] = None,
    *,
    as_json: o.Json = False,
    show: o.Show = False,
    trace: o.TraceFile = None,
    view: o.View = False,
    **given: Any,
) -> None:
    """Write texts, or answer: as a diffusion LM's authors do it, else sampled in random order.

    Example: anyorder generate "Once upon a time" -m bert-base-uncased --length 12 -n 3 --top-p 0.9 --seed 7

    Example: anyorder generate "Why is the sky blue?" -m GSAI-ML/LLaDA-8B-Instruct --chat --show
    """
    from anyorder.cli._show import Watch
    from anyorder.text.rules.rule import ruled

    plan, loading = o.parted(given)
    checked = o.make_plan(**({"temperature": 1.0} if plan.keys() & {"top_k", "top_p"} else {}) | plan)
    n = plan.pop("nbest")
    writer, watch = o.open_language_model(model, loading), Watch(show, trace, view)
    size: range | int | None = None if length is None else o.lengths_of(length)
    if length is None and not ruled(checked) and writer.model.family is None:
        size = 20
    asked: Any = [{"role": "user", "content": prompt}] if chat and system is None else prompt
    for filling in writer.generate(
        asked, length=size, n=n, stop=stop or (), system=system, traced=watch.wanted, **plan
    ):
        if watch.wanted and filling.trace is not None:
            watch(filling.trace)
            watch.commit()
        if as_json:
            o.say(filling.text, filling.score, True, tokens=filling.tokens, logp=filling.logp)
        else:
            o.echo(filling.text)
    watch.finish()
