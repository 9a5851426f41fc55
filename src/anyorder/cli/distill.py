"""`anyorder distill`: a model's translations of the training set become the targets of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli import _options as o
from anyorder.cli._guard import FOLDER, READ


def distill(
    config: Annotated[Path, typer.Argument(help="The TOML file whose training pairs are translated."), READ],
    model: Annotated[
        str, typer.Argument(help="The teacher: a model folder or a shipped model, often autoregressive."), FOLDER
    ],
    out: Annotated[Path, typer.Argument(help="The folder to write; name it as `target` of a stage."), FOLDER],
    data: Annotated[
        Path | None, typer.Option(help="The folder that the configuration's data paths start from."), FOLDER
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Beam size of an autoregressive teacher.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="At most that many sentences per direction.")] = None,
    monolingual: Annotated[bool, typer.Option(help="Translate the configuration's monolingual texts too.")] = False,
    best_of: Annotated[
        int, typer.Option(min=1, help="Of that many candidates the one nearest to people's translation, where known.")
    ] = 1,
    engine: Annotated[
        str, typer.Option(help="anyorder, or ctranslate2: faster beams of autoregressive teachers (extra: bench).")
    ] = "anyorder",
    ray: o.Ray = None,
) -> None:
    """Sequence-level distillation, the usual companion of constant-time decoding.

    Writes one TSV file a direction, source and the teacher's translation of it. It can be stopped and run again:
    finished parts are kept.
    Texts in one language alone can be sources as well (--monolingual): where pairs are few they add much.

    Example: anyorder distill configs/de-en.toml de-en-ar distilled --data data --beam 5
    """
    from anyorder.models.catalog import found
    from anyorder.pool import connected
    from anyorder.training.config import Distillation, load_config
    from anyorder.training.distill import distill as run

    settings = load_config(config)
    if data is not None:
        settings = replace(settings, data=replace(settings.data, root=str(data)))
    how = Distillation(model, beam, best_of, limit=limit or 0, monolingual=monolingual, engine=engine)
    with connected(ray=ray) as pool:
        paths = run(settings, found(model), out, how, pool)
    for path in paths:
        typer.echo(str(path))
