"""`anyorder models`: what is shipped."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from anyorder.models.folder import ModelFolder


def models(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per line.")] = False,
) -> None:
    """List the models inside this package, with what they were measured to do.

    Example: anyorder models
    """
    from anyorder.models import catalog
    from anyorder.models.folder import LEARNED, ModelFolder

    found = [describe(ModelFolder(catalog.SHIPPED / name)) for name in catalog.shipped()]
    if as_json:
        for model in found:
            typer.echo(json.dumps(model, ensure_ascii=False))
        return
    if not found:
        typer.echo("No model is shipped with this installation. Train one: anyorder train configs/de-en.toml")
    for model in found:
        typer.echo(f"{model['name']}\t{model['kind']}, {' '.join(model['languages'])}, {model['megabytes']} MB")
        for order in LEARNED:
            if model[order]:
                typer.echo(f"\t--order {order}: {', '.join(model[order])}")
        for score in model["scores"]:
            typer.echo("\t" + ", ".join(f"{key} {value}".strip() for key, value in score.items()))


def describe(folder: ModelFolder) -> dict[str, Any]:
    """A model folder in a few facts; its scores are the first table of its card."""
    from anyorder.models.folder import LEARNED

    config = folder.config or {}
    return {
        "name": folder.name,
        "kind": config.get("kind"),
        "languages": config.get("languages", []),
        "megabytes": folder.megabytes,
        **{order: folder.directions(order) for order in LEARNED},
        "scores": _first_table(folder.card),
    }


def _first_table(page: str) -> list[dict[str, str]]:
    """The rows of the first Markdown table, by column."""
    lines = itertools.dropwhile(lambda line: not line.startswith("|"), page.splitlines())
    table = list(itertools.takewhile(lambda line: line.startswith("|"), lines))
    head, *rows = [[cell.strip(" *`") for cell in line.strip().strip("|").split("|")] for line in table] or [[]]
    return [dict(zip(head, row, strict=False)) for row in rows[1:]]
