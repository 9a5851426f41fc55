"""`anyorder fill`, `infill`, `generate`, `score` on a masked LM, and `models`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from cli_support import Run

from anyorder.traces import reading


def test_fill(run: Run, bert_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    text = "the [MASK] <mask> on the mat ."
    done = run("fill", text, "-m", bert_folder, "-n", "4", "--json", "--trace", file)
    found = [json.loads(line) for line in done.lines]
    assert done.code == 0 and len(found) == 4 and len({f["text"] for f in found}) == 4
    assert all(f["score"] == pytest.approx(math.exp(f["logp"])) and len(f["tokens"]) == 2 for f in found)
    assert reading.read(file)[0].canvas.count(None) == 2
    plain = run("fill", "-m", bert_folder, "-n", "4", stdin=f"{text}\n\n".encode())
    assert [line.split("\t")[1] for line in plain.lines] == [f["text"] for f in found]


def test_infill(run: Run, bert_folder: Path) -> None:
    done = run("infill", "yesterday {} in the park .", "-m", bert_folder, "--length", "2-3", "-n", "9", "--json")
    found = [json.loads(line) for line in done.lines]
    assert done.code == 0 and {len(f["tokens"]) for f in found} <= {2, 3} and len(found) > 1
    assert [f["score"] for f in found] == sorted((f["score"] for f in found), reverse=True)
    assert run("infill", "a {} .", "-m", bert_folder, "--length", "3-2").code == 2
    missing = run("infill", "no gap .", "-m", bert_folder)
    assert missing.code == 1 and "{}" in missing.err


def test_generate(run: Run, bert_folder: Path) -> None:
    common = ["generate", "the cat", "-m", bert_folder, "--length", "5", "-n", "3", "--seed", "2"]
    done = run(*common)
    assert done.code == 0 and len(done.lines) == 3 and len(set(done.lines)) > 1
    assert all(line.startswith("the cat") and len(line.replace(".", " .").split()) == 7 for line in done.lines)
    assert run(*common).out == done.out != run(*common[:-1], "3").out
    assert run(*common, "--top-k", "1", "--order", "left2right").code == 0


def test_score(run: Run, bert_folder: Path, model_folder: Path) -> None:
    done = run("score", "the cat sat", "-m", bert_folder, "--tokens")
    total, *each = [float(line.split("\t")[0]) for line in done.lines]
    assert len(each) == 3 and total == pytest.approx(sum(each), abs=1e-3) and total < 0
    pair = run("score", "Ein Hund.", "A dog.", "--to", "en", "-m", model_folder)
    lines = run("score", "--to", "en", "-m", model_folder, stdin=b"Ein Hund.\tA dog.\n")
    assert pair.code == 0 and pair.out == lines.out and float(pair.out.split("\t")[0]) < 0
    assert run("score", "Ein Hund.", "--to", "en", "-m", model_folder).code == 2
    assert run("score", "Ein Hund.", "A dog.", "--to", "fr", "-m", model_folder).code == 2


def test_the_wrong_kind_of_model(run: Run, bert_folder: Path, model_folder: Path) -> None:
    wrong = run("fill", "a [MASK]", "-m", model_folder)
    assert wrong.code == 1 and "anyorder translate" in wrong.err
    wrong = run("translate", "Ein Hund.", "--to", "en", "-m", bert_folder)
    assert wrong.code == 1 and "not a translation model" in wrong.err
    no_mask = run("fill", "a cat", "-m", bert_folder)
    assert no_mask.code == 1 and "[MASK]" in no_mask.err
    assert run("fill", "a [MASK]", "-m", bert_folder, "--order", "negnet").code == 2


def test_models(run: Run, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.models.catalog.SHIPPED", model_folder.parent)
    card = "# Tiny\n\n| test | BLEU |\n|---|---:|\n| x | **1.5** |\n| y | 2 |\n\n| other | table |\n"
    (model_folder / "README.md").write_text(card)
    done = run("models")
    assert done.code == 0 and "tiny-ar" in done.out and "test x, BLEU 1.5" in done.out and "other" not in done.out
    found = {m["name"]: m for m in map(json.loads, run("models", "--json").lines)}
    assert found["tiny"]["languages"] == ["de", "en"] and found["tiny-ar"]["kind"] == "autoregressive"
    near = run("translate", "x", "--to", "en", "-m", "tinny")
    assert near.code == 1 and "did you mean 'tiny'" in near.err
    assert run("translate", "Ein Hund.", "--to", "en", "-m", "tiny").code == 0
