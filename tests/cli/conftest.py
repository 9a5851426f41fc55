"""The small models as fixtures, and the program run in this process."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from cli_support import Outcome, Run, build_bert, build_translator

from anyorder.cli import main


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_translator(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line; `stdin` is its standard input."""

    def go(*args: str | Path, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(a) for a in args])
        said = capsys.readouterr()
        return Outcome(int(stop.value.code or 0), said.out, said.err)

    return go
