"""`anyorder infill`: write what is missing in gaps of unknown length, with a masked language model."""

from __future__ import annotations

from typing import Annotated

import typer

from anyorder.cli import _options as o


def infill(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts with {} for each gap. [default: lines of standard input]"),
    ] = None,
    model: o.LanguageModel = ...,  # type: ignore[assignment]
    length: Annotated[str, typer.Option(help="Tokens a gap, a number or a range.", rich_help_panel=o.PLAN)] = "1-5",
    n: Annotated[int, typer.Option("--nbest", "-n", min=1, help="Fillings per text.", rich_help_panel=o.SHOW)] = 3,
    order: o.Order = "negent",
    count: o.CountOption = None,
    steps: o.Steps = None,
    conditionals: o.Conditionals = o.Conditional.visible,
    beam: o.Beam = 4,
    temperature: o.Temperature = 0.0,
    seed: o.Seed = 0,
    most_passes: o.MostPasses = 100_000,
    most_memory: o.MostMemory = 2.0,
    diffusion: o.Diffusion = False,
    as_json: o.Json = False,
) -> None:
    """Fill gaps of unknown length; every length is tried, the best chosen by score.

    Each line is the mean log-probability of the whole text's tokens, which lengths are compared by, and the text.

    Example: anyorder infill "Yesterday {} in the park." -m bert-base-uncased --length 2-6
    """
    from anyorder.cli._stream import texts_or_lines

    options = {
        "order": order, "count": count, "steps": o.steps_of(steps), "conditionals": conditionals.value, "beam": beam,
        "temperature": temperature, "seed": seed, "most_passes": most_passes, "most_memory": most_memory,
    }  # fmt: skip
    o.make_plan(**options)
    lengths = o.lengths_of(length)
    writer = o.open_writer(model, diffusion)
    for line in texts_or_lines(text):
        if not line.strip() and not text:
            continue
        for filling in writer.infill(line, lengths, n, **options):
            o.say(filling.text, filling.score, as_json, tokens=filling.tokens, logp=filling.logp, source=line)
