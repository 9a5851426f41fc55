"""`anyorder generate`: write texts with a masked or diffusion language model."""

from __future__ import annotations

from typing import Annotated

import typer

from anyorder.cli import _options as o


def generate(
    prompt: Annotated[str, typer.Argument(help="What the text begins with.")] = "",
    model: o.LanguageModel = ...,  # type: ignore[assignment]
    length: Annotated[int, typer.Option(min=1, help="Tokens to write.")] = 20,
    n: Annotated[int, typer.Option("--number", "-n", min=1, help="Texts to write.")] = 1,
    order: o.Order = "uniform",
    count: o.CountOption = None,
    steps: o.Steps = None,
    among: o.Among = None,
    conditionals: o.Conditionals = o.Conditional.visible,
    temperature: o.Temperature = 1.0,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    seed: o.Seed = 0,
    most_passes: o.MostPasses = 100_000,
    most_memory: o.MostMemory = 2.0,
    diffusion: o.Diffusion = False,
    as_json: o.Json = False,
) -> None:
    """Write texts: sampled, in random order, unless other options are given.

    Example: anyorder generate "Once upon a time" -m bert-base-uncased --length 12 -n 3 --top-p 0.9 --seed 7
    """
    options = {
        "order": order, "count": count, "steps": o.steps_of(steps), "among": among, "conditionals": conditionals.value,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed,
        "most_passes": most_passes, "most_memory": most_memory,
    }  # fmt: skip
    o.make_plan(**options)
    writer = o.open_writer(model, diffusion)
    for filling in writer.generate(length, n, prompt, **options):
        if as_json:
            o.say(filling.text, filling.score, True, tokens=filling.tokens, logp=filling.logp)
        else:
            o.echo(filling.text)
