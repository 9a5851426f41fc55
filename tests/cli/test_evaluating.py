"""`anyorder evaluate`: a line in is a line out, and what can not be scored is said."""

from __future__ import annotations

import gzip
import json
import re
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


MINE = """
from anyorder.core import Decoder, Coordinates, Feature, negent
from anyorder.core.count import number

from_the_end = Feature("from-the-end", lambda state, view: state.place.float())
doubling = number("doubling", lambda state, size: 2**state.step)
decoder = Decoder(Coordinates(from_the_end, doubling))
nothing = 5
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE, "utf-8")
    return path


@pytest.fixture
def pair(tmp_path: Path) -> list[str | Path]:
    (tmp_path / "c.de").write_text("Ein Hund läuft am Strand.\nZwei Kinder spielen.\nEin Garten.\n", "utf-8")
    (tmp_path / "c.en").write_text("A dog runs on the beach.\nTwo children play.\nA garden.\n", "utf-8")
    return ["--source", tmp_path / "c.de", "--reference", tmp_path / "c.en"]


def test_systems_beside_each_other(
    run: Run, model_folder: Path, mine: Path, pair: list[str | Path], tmp_path: Path
) -> None:
    """An own order against shipped ones, the autoregressive model, a variant of itself, and a file of texts."""
    right = pair[3]
    common = ["evaluate", "-m", model_folder, *pair, "--order", f"{mine}:from_the_end", "--lengths", "1"]
    against = [f"{mine}:decoder", "right2left", f"{model_folder}-ar beam=2", "steps=2", right]
    asked = [*common, *(part for one in against for part in ("--against", one)), "--picture", tmp_path / "frontier.svg"]
    done = run(*asked, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.lines[-1])["systems"]
    assert [row["system"] for row in found] == ["mine.py:from_the_end", *map(str, against)]
    first, _, same, causal, two, file = found
    assert (same["bleu"], same["delta"], same["p"]) == (first["bleu"], 0.0, 1.0)  # the same order by another name
    assert same["passes"] == first["passes"] and two["passes"] == 2 and "passes" not in file and causal["passes"] > 0
    assert file["bleu"] == pytest.approx(100) and file["ter"] == 0 and file["chrf"] == pytest.approx(100)
    assert all(row["p_holm"] >= row["p"] for row in found[1:])
    shown = (tmp_path / "frontier.svg").read_text("utf-8")
    assert "mine.py:from_the_end" in shown and "steps=2" in shown and "c.en" not in shown
    table = run(*common, "--against", right)
    assert table.code == 0 and "| system | BLEU | chrF | TER | Δ BLEU | p | p (Holm) |" in table.out


def test_systems_that_make_no_sense(run: Run, model_folder: Path, mine: Path, pair: list[str | Path]) -> None:
    common = ["evaluate", "-m", model_folder, *pair, "--lengths", "1"]
    for said, message in (
        ("esay-first", r"did you mean 'easy-first'\?.* it is no file and no model either"),
        ("easy-first beem=4", "did you mean 'beam'"),
        ("easy-first beam=many", "beam is a whole number"),
        (f"{mine}:other", "mine.py has no 'other': its orders are decoder, from_the_end"),
        (f"{mine}:nothing", "is no order but a int"),
        (f"{mine.parent}/none.py:it", "none.py does not exist"),
        (mine, "has 8 lines, but there are 3 sources"),
    ):
        done = run(*common, "--against", said)
        assert done.code in (1, 2) and re.search(message, " ".join(done.err.split())), (said, done.err)
        assert "Traceback" not in done.err
    mine.write_text("1 / 0\n")
    done = run(*common, "--order", f"{mine}:decoder")
    assert done.code in (1, 2) and "cannot be run: ZeroDivisionError: division by zero" in done.err
    assert run(*common, "--picture", "a.svg").code == 2
