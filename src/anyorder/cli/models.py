"""`anyorder models`: what is shipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def models(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
) -> None:
    """List the models inside this package, with what they were measured to do.

    Example: anyorder models
    """
    from anyorder import catalog

    found = [describe(catalog.SHIPPED / name) for name in catalog.shipped()]
    if as_json:
        for model in found:
            typer.echo(json.dumps(model, ensure_ascii=False))
        return
    if not found:
        typer.echo("No model is shipped with this installation. Train one: anyorder train configs/de-en-small.toml")
    for model in found:
        typer.echo(f"{model['name']}\t{model['kind']}, {' '.join(model['languages'])}, {model['megabytes']} MB")
        if model["learned"]:
            typer.echo(f"\tlearned orders: {', '.join(model['learned'])}")
        for score in model["scores"]:
            typer.echo("\t" + ", ".join(f"{key} {value}" for key, value in score.items()))


def describe(folder: Path) -> dict[str, Any]:
    """A model folder in a few facts; scores.json, where there is one, holds a list of measurements."""
    from anyorder.catalog import our_config

    config = our_config(folder) or {}
    scores = folder / "scores.json"
    return {
        "name": folder.name,
        "kind": config.get("kind"),
        "languages": config.get("languages", []),
        "megabytes": round(sum(f.stat().st_size for f in folder.iterdir() if f.is_file()) / 1e6, 1),
        "learned": sorted(f.stem.removeprefix("policy-") for f in folder.glob("policy-*.safetensors")),
        "scores": json.loads(scores.read_text(encoding="utf-8")) if scores.exists() else [],
    }
