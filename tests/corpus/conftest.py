"""The small models, and jobs done in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_support import build_bert, build_translator

from anyorder.corpus.job import Job, Outcome
from anyorder.corpus.task import Task
from anyorder.pool import HERE


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `tiny`, which translates, and `bert`."""
    folder = tmp_path_factory.mktemp("models")
    build_translator(folder / "tiny")
    build_bert(folder / "bert")
    return folder


@pytest.fixture
def do(models: Path) -> Callable[..., Outcome]:
    """Do a task in this process."""

    def go(task: Task, place: object, output: Path, **settings: Any) -> Outcome:
        model = str(models / task.model) if task.model in ("tiny", "bert") else task.model
        return Job(dataclasses.replace(task, model=model), str(place), str(output), **settings).run(HERE)

    return go
