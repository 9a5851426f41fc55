"""`anyorder fill`: fill every mask of a text jointly, with a masked language model."""

from __future__ import annotations

from typing import Annotated

import typer

from anyorder.cli import _options as o


def fill(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts with [MASK] or <mask>. [default: lines of standard input]"),
    ] = None,
    model: o.LanguageModel = ...,  # type: ignore[assignment]
    n: Annotated[int, typer.Option("--nbest", "-n", min=1, help="Fillings per text.", rich_help_panel=o.SHOW)] = 5,
    order: o.Order = "negent",
    count: o.CountOption = None,
    steps: o.Steps = None,
    conditionals: o.Conditionals = o.Conditional.visible,
    beam: Annotated[
        int | None, typer.Option(help="K, hypotheses kept. [default: max(n, 8)]", rich_help_panel=o.PLAN)
    ] = None,
    positions: o.Positions = 1,
    temperature: o.Temperature = 0.0,
    seed: o.Seed = 0,
    most_passes: o.MostPasses = 100_000,
    most_memory: o.MostMemory = 2.0,
    diffusion: o.Diffusion = False,
    as_json: o.Json = False,
    show: o.Show = False,
    trace: o.TraceFile = None,
    view: o.View = False,
) -> None:
    """Fill all masks of a text together, the likeliest fillings first.

    Each line is a joint probability and the text. --show, --trace and --view follow the greedy filling.

    Example: anyorder fill "The [MASK] [MASK] sat on the [MASK]." -m bert-base-uncased
    """
    from anyorder.cli._show import Watch
    from anyorder.cli._stream import texts_or_lines

    width = max(n, 8) if beam is None else beam
    writing = {
        "order": order, "count": count, "steps": o.steps_of(steps), "conditionals": conditionals.value,
        "temperature": temperature, "seed": seed, "most_passes": most_passes, "most_memory": most_memory,
    }  # fmt: skip
    o.make_plan(beam=width, positions=positions, **writing)
    writer, watch = o.open_writer(model, diffusion), Watch(show, trace, view)
    for line in texts_or_lines(text):
        if not line.strip() and not text:
            continue
        if watch.wanted:
            watch(writer.trace(line, **writing))
            watch.commit()
        for filling in writer.fill(line, n, beam=width, positions=positions, **writing):
            o.say(filling.text, filling.probability, as_json, tokens=filling.tokens, logp=filling.logp, source=line)
    watch.finish()
