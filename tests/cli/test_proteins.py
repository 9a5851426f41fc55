"""effects and design on the command line: tables in and out, resuming, refusals with the row, pages."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import get_args

import pytest
from cli_support import Run, build_esm

from anyorder.cli.effects import Convention
from anyorder.text.effects import CONVENTIONS

WILD = "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ"
ROWS = [("A4G", "0.5"), ("A4G:K8R", "0.1"), ("Q9E", "1.5"), ("S13V", "2"), ("R10A", "-1"), ("A4A", "")]


@pytest.fixture(scope="module")
def esm(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_esm(tmp_path_factory.mktemp("models") / "esm", 200))


def table(folder: Path, rows: list[tuple[str, str]] = ROWS) -> str:
    path = folder / "variants.csv"
    cells = "".join(f'{n},{m},{d},"x, {n}"\n' for n, (m, d) in enumerate(rows))
    path.write_text(f"id,mutant,DMS_score,note\n{cells}")
    return str(path)


def test_a_table_keeps_its_columns_and_gains_scores(run: Run, esm: str, tmp_path: Path) -> None:
    out = tmp_path / "scored.csv"
    fasta = tmp_path / "wt.fasta"
    fasta.write_text(f">p some name\n{WILD[:20]}\n{WILD[20:]}*\n")
    done = run("effects", str(fasta), table(tmp_path), "-m", esm, "-m", esm, "-o", str(out))
    assert done.code == 0, done.err
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [r["mutant"] for r in rows] == [m for m, _ in ROWS] and rows[1]["note"] == "x, 1"
    assert rows[0]["score"] == rows[0]["score_1"] == rows[0]["score_2"] and float(rows[5]["score"]) == 0
    summary = json.loads((tmp_path / "scored.csv.summary.json").read_text())
    assert summary["formula"] == CONVENTIONS["masked-marginals"].formula
    assert sorted(get_args(Convention)) == sorted(CONVENTIONS)
    assert summary["variants"] == 5 and f"Spearman {summary['spearman']:.4f}" in done.err


def test_a_run_that_was_stopped_goes_on(run: Run, esm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import anyorder.text.effects

    monkeypatch.setattr(anyorder.text.effects, "AT_ONCE", 2)
    whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
    variants = table(tmp_path)
    assert run("effects", WILD, variants, "-m", esm, "-o", str(whole)).code == 0
    assert run("effects", WILD, variants, "-m", esm, "-o", str(out)).code == 0
    out.write_bytes(out.read_bytes()[:150])
    done = run("effects", WILD, variants, "-m", esm, "-o", str(out), "--resume")
    assert done.code == 0 and out.read_text() == whole.read_text(), done.err
    other = run("effects", WILD, variants, "-m", esm, "-o", str(out), "--resume", "--by", "pll")
    assert other.code == 1 and "of another run: by was" in other.err


@pytest.mark.parametrize(
    ("rows", "says"),
    [([("A4G", ""), ("K4G", "")], "row 3: K4G: position 4 of the wild type is A"), ([("A4U", "")], "does not know U")],
)
def test_nothing_is_half_written(run: Run, esm: str, tmp_path: Path, rows: list[tuple[str, str]], says: str) -> None:
    out = tmp_path / "out.csv"
    done = run("effects", WILD, table(tmp_path, rows), "-m", esm, "-o", str(out))
    assert done.code == 1 and says in done.err and not out.exists()


def test_a_scan_is_a_matrix_and_a_picture(run: Run, esm: str, tmp_path: Path) -> None:
    out, picture = tmp_path / "scan.csv", tmp_path / "scan.svg"
    args = ("effects", WILD, "--scan", "--positions", "13-15", "-m", esm, "--offset", "11")
    assert run(*args, "-o", str(out), "--picture", str(picture)).code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [(r["position"], r["wild_type"]) for r in rows] == [("13", "T"), ("14", "A"), ("15", "Y")]
    assert len(rows[0]) == 22 and float(rows[0]["T"]) == 0 and picture.read_bytes().startswith(b"<?xml")


def test_designs_as_fasta_table_and_page(run: Run, esm: str, tmp_path: Path) -> None:
    args = ("design", WILD, "-m", esm, "--redesign", "4-9", "-n", "3", "--ban", "C", "--no-pll")
    out, page = tmp_path / "d.csv", tmp_path / "d.html"
    assert run(*args, "-o", str(out), "--page", str(page)).code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert len(rows) == 3 and all(r["sequence"].startswith("MKT") and "C" not in r["sequence"][3:9] for r in rows)
    fasta = run(*args).out.splitlines()
    assert [line for line in fasta if not line.startswith(">")] == [r["sequence"] for r in rows]
    assert page.read_text().count("<tr>") == 5
    chain = run(*args, "--num-iters", "3", "--num-positions", "2")
    assert chain.code == 0 and chain.out.count(">") == 3


def test_usage(run: Run, esm: str) -> None:
    assert "or --scan" in run("effects", WILD, "-m", esm).err
    assert "add --num-iters" in run("design", WILD, "-m", esm, "--redesign", "3", "--in-order").err
    assert run("effects", WILD * 12, "--scan", "--positions", "2", "-m", esm, "--by", "wt-marginals").code == 0
    assert "there is no file wt.fasta" in run("effects", "wt.fasta", "--scan", "-m", esm).err


def test_no_output_is_the_input(run: Run, esm: str, tmp_path: Path) -> None:
    fasta = tmp_path / "wt.fasta"
    fasta.write_text(f">p\n{WILD}\n")
    for args in (("design", str(fasta), "--redesign", "4-9"), ("effects", str(fasta), table(tmp_path))):
        done = run(*args, "-m", esm, "-o", str(fasta))
        assert done.code != 0 and "same file" in done.err and fasta.read_text() == f">p\n{WILD}\n"


def test_a_measured_value_that_is_no_number_stops_before_anything_is_written(
    run: Run, esm: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    done = run("effects", WILD, table(tmp_path, [("A4G", "1"), ("A4V", "abc")]), "-m", esm, "-o", str(out))
    assert done.code == 1 and "'abc' is no number" in done.err and not out.exists()
