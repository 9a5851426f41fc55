"""`anyorder train`: a configuration file → trained models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli._guard import FOLDER, READ


def train(
    config: Annotated[Path, typer.Argument(help="A TOML file; see configs/."), READ],
    out: Annotated[
        Path | None, typer.Option(help="Where models, checkpoints and logs go. [runs/<name>]"), FOLDER
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The folder that the configuration's data paths start from."), FOLDER
    ] = None,
    stage: Annotated[str | None, typer.Option(help="Only this stage.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads of each process.")] = None,
) -> None:
    """Train what CONFIG says: vocabulary, pretraining, masked translation, its autoregressive baseline.

    Run the same command again to go on where it stopped. On several GPUs or machines:
    accelerate launch -m anyorder train CONFIG

    Example: anyorder train configs/copy-task.toml
    """
    import torch

    from anyorder.training.config import load_config
    from anyorder.training.learn_order import policy_config, train_policy
    from anyorder.training.run import train as run

    if threads:
        torch.set_num_threads(threads)
    if policy := policy_config(config, data):
        typer.echo(str(train_policy(policy, out or Path("runs") / policy.name)))
        return
    settings = load_config(config)
    if data is not None:
        settings = replace(settings, data=replace(settings.data, root=str(data)))
    for folder in run(settings, out or Path("runs") / settings.name, stage):
        typer.echo(str(folder))
