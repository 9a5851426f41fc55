"""A disk that fails at any write leaves the old file or the new one."""

from __future__ import annotations

import builtins
import errno
import io
import os
from pathlib import Path

import pytest
from cli_support import build_translator

from anyorder.models.folder import ModelFolder
from tests.fuzz.faults import Disk


def test_a_model_that_is_saved_again_stays_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ModelFolder(build_translator(tmp_path / "tiny"))
    model, tokenizer, before = folder.model(), folder.tokenizer(), {p: p.read_bytes() for p in folder.path.iterdir()}
    struck = 0
    for at in range(1, 20):
        disk = Disk(tmp_path, at, errno.EIO)
        with monkeypatch.context() as here:
            here.setattr(io, "open", disk._open)
            here.setattr(builtins, "open", disk._open)
            here.setattr(os, "fsync", disk._fsync)
            try:
                folder.save(model, tokenizer=tokenizer, lengths={}, story={"x": 1})
            except OSError:
                struck += 1
        again = ModelFolder(folder.path)
        again.model(), again.tokenizer()
        assert not [p for p in again.path.iterdir() if p not in before and p.name != "training.json"]
    assert struck >= 4  # tokenizer, description, lengths, story
