"""`anyorder evaluate`: a line in is a line out, and what can not be scored is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from cli_support import Run

SOURCE = ["Ein Hund läuft am Strand.", "", "xyz " * 100, "Zwei Kinder spielen.", "für", "Ein Garten."]
REFERENCE = ["A dog runs on the beach.", "", "long", "Two children play.", "for", "A garden."]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    source, reference = tmp_path / "a.de", tmp_path / "a.en.gz"
    lines = [line.encode("latin1" if line == "für" else "utf8") for line in SOURCE]
    source.write_bytes(b"".join(line + b"\n" for line in lines))
    reference.write_bytes(gzip.compress("".join(line + "\n" for line in REFERENCE).encode()))
    return source, reference


def test_lines_stay_in_place(run: Run, model_folder: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    common = ["evaluate", "-m", model_folder, "--source", files[0], "--reference", files[1], "--steps", "2"]
    done = run(*common, "-o", tmp_path / "out", "--json")
    counts = json.loads(done.lines[-1])
    assert done.code == 1 and "line 3: " in done.err and "line 5: byte 2 of the line is not UTF-8" in done.err
    assert [counts[name] for name in ("lines", "sentences", "blank", "failed")] == [6, 3, 1, 2]
    written = (tmp_path / "out").read_text().split("\n")
    assert len(written) == 7 and [bool(line) for line in written[:6]] == [True, False, False, True, False, True]
    done = run(*common)
    assert done.code == 1 and "3 sentences, of 6 lines: 1 blank, 2 failed" in done.out
    kept = [i for i in range(6) if i not in (1, 2, 4)]
    for path, lines in zip((tmp_path / "b.de", tmp_path / "b.en"), (SOURCE, REFERENCE), strict=True):
        path.write_text("".join(lines[i] + "\n" for i in kept))
    alone = run("evaluate", "-m", model_folder, "--source", tmp_path / "b.de", "--reference", tmp_path / "b.en",
                "--steps", "2", "--json")  # fmt: skip
    scores = json.loads(alone.lines[-1])
    assert alone.code == 0 and (scores["bleu"], scores["chrf"]) == (counts["bleu"], counts["chrf"])


def test_mistakes(run: Run, model_folder: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    blank = tmp_path / "blank"
    blank.write_text("\n" * 6)
    common = ["evaluate", "-m", model_folder]
    for source, reference, says in (
        (empty, empty, "is empty"),
        (blank, files[1], "can be scored"),
        (files[0], empty, "not aligned: 6 lines and 0"),
        (tmp_path / "none", empty, "does not exist"),
    ):
        done = run(*common, "--source", source, "--reference", reference)
        assert done.code == 1 and says in done.err and "Traceback" not in done.err
    assert run(*common, "--source", files[0]).code == 2
    assert run(*common, "--source", files[0], "--reference", files[1], "--limit", "-1").code == 2
    (tmp_path / "cut.gz").write_bytes(files[1].read_bytes()[:-9])
    done = run(*common, "--source", tmp_path / "cut.gz", "--reference", files[1])
    assert done.code == 1 and "cut.gz cannot be read" in done.err
    done = run("bench", "-m", model_folder, "--data", empty)
    assert done.code == 1 and "nothing to measure" in done.err
