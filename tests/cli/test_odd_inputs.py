"""Inputs that are not what they should be: descriptions of something else, damaged gzip, files without end."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_support import Run


@pytest.mark.parametrize(("name", "value"), [("kind", {}), ("languages", [None, []]), ("architecture", [])])
def test_a_description_of_something_else(run: Run, model_folder: Path, tmp_path: Path, name: str, value: Any) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    config = json.loads((model_folder / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, name: value}))
    done = run("translate", "Ein Hund.", "--to", "en", "-m", tmp_path / "model")
    assert done.code == 1 and ("does not describe" in done.err or "unknown kind" in done.err)


def test_a_test_set_whose_gzip_is_damaged(run: Run, model_folder: Path, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"Ein Hund.\nZwei Kinder.\n" * 20, mtime=0))
    packed[12:20] = b"\xff" * 8
    (tmp_path / "a.gz").write_bytes(packed)
    both = ["--source", tmp_path / "a.gz", "--reference", tmp_path / "a.gz"]
    done = run("evaluate", *both, "-m", model_folder)
    assert done.code == 1 and "a.gz cannot be read" in done.err
    done = run("map", "translate", tmp_path / "a.gz", tmp_path / "new", "--to", "en", "-m", model_folder)
    assert done.code == 1 and "a.gz cannot be read" in done.err


@pytest.mark.parametrize("command", [["view"], ["train"], ["map", "translate"], ["convert"]], ids=lambda c: c[0])
def test_an_input_without_end(run: Run, tmp_path: Path, command: list[str]) -> None:
    done = run(*command, "/dev/zero", *([] if command[0] in ("view", "train") else [tmp_path / "new"]))
    assert done.code == 1 and "without end" in done.err and not (tmp_path / "new").exists()


def test_a_line_without_end_is_no_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from anyorder.traces import reading, trace

    monkeypatch.setattr(reading, "LONGEST", 100)
    (tmp_path / "t.jsonl").write_text("\n" + "x" * 200)
    with pytest.raises(trace.TraceError, match="line 2: longer than 100"):
        reading.read(tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    "change", [{"written": 10**9}, {"sizes": [1, 2], "written": ["a", "b"]}, {"sizes": {}}, {"lines": 1.5}]
)
def test_a_record_with_something_else_in_it(
    run: Run, model_folder: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    """What was done is found to be done, done again, or refused: never a mistake of ours, never another output."""
    (tmp_path / "a").write_text("Ein Hund.\n\nZwei.\n")
    fast = ["-t", "en", "-m", model_folder, "--steps", "1", "--lengths", "1"]
    line = ["translate", *fast, "-i", tmp_path / "a", "-o", tmp_path / "b"]
    assert run(*line).code == 0
    whole, record = (tmp_path / "b").read_bytes(), tmp_path / "b.resume"
    head, block, _ = record.read_text().split("\n")
    record.write_text(f"{head}\n{json.dumps({**json.loads(block), **change})}\n")
    done = run(*line, "--resume")
    assert done.code in (0, 1) and (tmp_path / "b").read_bytes() == whole and (done.code == 0 or "damaged" in done.err)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--findings", "--limit", "200"), "--limit is of the tables"),
        (("--findings", "--others", "val"), "--others is of the tables"),
        (("--findings", "--tuned", "tuned.json"), "--tuned is of the tables"),
        (("--quick", "--headline", "200"), "--quick is a hundred sentences"),
    ],
)
def test_a_report_refuses_what_it_would_not_heed(run: Run, tmp_path: Path, given: tuple[str, ...], said: str) -> None:
    done = run("reproduce", "--data", tmp_path, "--output", tmp_path / "out", *given)
    assert done.code == 2 and said in done.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"de-en": 3}', '{"de-en": "sideways"}', "\udcff"])
def test_tuned_orders_that_are_something_else(run: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "tuned.json").write_text(content, encoding="utf-8", errors="surrogateescape")
    done = run("reproduce", "--data", tmp_path, "--output", tmp_path / "out", "--tuned", tmp_path / "tuned.json")
    assert done.code == 1 and "tuned.json is not what" in done.err and not (tmp_path / "out").exists()
