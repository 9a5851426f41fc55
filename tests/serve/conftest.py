"""A real server on a loopback port, with small models: a translator, autoregressive ones beside and within, a BERT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cli_support import build_bert, build_grown, build_translator

import anyorder
from anyorder.serve.app import create
from anyorder.serve.limits import Limits
from anyorder.serve.run import Background
from anyorder.serve.server import Settings


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    build_translator(folder / "tiny")
    build_bert(folder / "bert")
    build_grown(folder / "grown")
    return {name: anyorder.load(folder / name) for name in ("tiny", "bert", "tiny-ar", "grown")}


@pytest.fixture(scope="session")
def app(models: dict[str, Any]) -> Any:
    return create(models, Settings(Limits(queue=1000, sentences=200)))


@pytest.fixture(scope="session")
def url(app: Any) -> Iterator[str]:
    with Background(app) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60) as one:
        yield one


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small translator in it, for servers in processes of their own."""
    return build_translator(tmp_path_factory.mktemp("served") / "tiny").parent
