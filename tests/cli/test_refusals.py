"""What makes no sense, or would never end, is refused with a sentence, before anything begins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import Run

import anyorder

PLANS = [
    (["--temperature", "nan"], "temperature must be at least 0, and finite"),
    (["--steps", "1.5"], "steps is a whole number"),
    (["--steps", str(2**63)], "steps must be at most"),
    (["--count", "fixed(1.5)"], "  fixed(1.5)\n        ^"),
    (["--count", "threshold(inf)"], "  threshold(inf)\n            ^"),
    (["--count", "kl-stable(1, x)"], "  kl-stable(1, x)\n               ^"),
    (["--among", "block(1.5)"], "  block(1.5)\n        ^"),
    (["--order", "mask-predict(4, 5)"], "  mask-predict(4, 5)\n                  ^"),
    (["--order", "(" * 500 + "logp" + ")" * 500], "nested 50 deep"),
    (["--order", "1e999*logp"], "too large"),
    (["--seed", str(2**70)], "seed must be at most"),
    (["--nbest", "-1"], "nbest must be at least 1"),
    (["--beam", "1000000"], "--most-passes"),
    (["--order", "refinement(1e9)"], "8,000,000,000 passes"),
    (["--order", "gibbs(1e8)"], "--most-passes"),
    (["--polish", "1000000", "--rescore", "pll"], "--most-passes"),
    (["--order", "uniform", "--rescore", "marginal", "--samples", "1000000"], "--most-passes"),
    (["--draft"], "no autoregressive model that could write a draft"),
    (["--beside", "de-en-ar"], "--rescore ar and both"),
    (["--beam", "3000", "--most-passes", "10000000", "--most-memory", "0.01"], "--most-memory"),
]


@pytest.mark.parametrize(("options", "says"), PLANS, ids=lambda x: str(x)[:40])
def test_plans(run: Run, model_folder: Path, options: list[str], says: str) -> None:
    done = run("translate", "Ein Hund.", "--to", "en", "-m", model_folder, *options)
    assert done.code == 2 and says in done.err and not done.out and len(done.err) < 600


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ("de-en-ar", "another vocabulary"),
        ("de-en", "no autoregressive translation model"),
        ("nobody", "there is no model 'nobody'"),
    ],
)
def test_a_model_that_cannot_rescore(run: Run, model_folder: Path, beside: str, says: str) -> None:
    done = run("translate", "Ein Hund.", "--to", "en", "-m", model_folder, "--rescore", "ar", "--beside", beside)
    assert done.code == 1 and says in done.err and not done.out


def test_an_option_raises_the_limit(run: Run, model_folder: Path) -> None:
    asked = ["translate", "Ein Hund.", "--to", "en", "-m", model_folder, "--order", "gibbs(20)"]
    assert run(*asked, "--most-passes", "30").code == 2
    assert run(*asked, "--most-passes", "3000").code == 0


@pytest.mark.parametrize("command", [["bench", "--data"], ["train"]], ids=str)
def test_threads_have_an_end(run: Run, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "some").write_text("Ein Hund.\n")
    done = run(*command, tmp_path / "some", "--threads", str(2**40))
    assert done.code == 2 and "1024" in done.err


def test_lengths_are_tried_once_each(model_folder: Path) -> None:
    model = anyorder.load(model_folder, kind="translation")
    (found,) = model.candidates(["Ein Hund."], "en", plan=anyorder.Plan.of(lengths=5000, steps=1))
    lengths = [len(some[0].ids) for some in found]
    assert len(lengths) == len(set(lengths)) <= model.generator("en").room and min(lengths) >= 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["infill", "a {}", "--length", "1-1000000"], "--most-passes"),
        (["infill", "{} " * 8], "--most-passes"),
        (["generate", "-n", "1000000"], "--most-passes"),
        (["fill", "a [MASK]", "-n", "1000000"], "--most-passes"),
        (["generate", "--length", "3", "--top-p", "nan"], "top_p"),
    ],
)
def test_language_models(run: Run, bert_folder: Path, arguments: list[str], says: str) -> None:
    done = run(*arguments, "-m", bert_folder)
    assert done.code == 2 and says in done.err


def test_options_of_a_program(model_folder: Path) -> None:
    assert anyorder.Plan.of(count=2).decoder().coordinates.count.name == "fixed(2)"
    for wrong in ({"order_temperature": float("nan")}, {"steps": 1.5}, {"beam": 1.5}, {"top_k": True}, {"order": 3}):
        with pytest.raises(anyorder.PlanError):
            anyorder.Plan.of(**wrong)
    with pytest.raises(anyorder.ModelError, match="kind is one of"):
        anyorder.load(model_folder, kind="x", foo=1)  # type: ignore[call-overload]
    ar = anyorder.load(f"{model_folder}-ar", kind="translation")
    with pytest.raises(anyorder.PlanError, match="order could have no effect"):
        ar.translate("Ein Hund.", to="en", order="easy-first")


def test_nothing_has_no_score(run: Run, model_folder: Path, bert_folder: Path) -> None:
    done = run("score", "x", "", "--to", "en", "-m", model_folder)
    assert done.code == 1 and "empty" in done.err and not done.out
    assert run("score", "", "-m", bert_folder).code == 1
    done = run("score", "Ein Hund.", "A dog.", "--to", "en", "-m", model_folder, "--tokens")
    total, *each = [float(line.split("\t")[0]) for line in done.lines]
    assert done.code == 0 and len(each) > 1 and total == pytest.approx(sum(each), abs=1e-2)


def test_one_bad_text_loses_no_other(run: Run, model_folder: Path, bert_folder: Path) -> None:
    done = run("translate", "Ein Hund.", "ein\udcffes", "Ein Garten.", "--to", "en", "-m", model_folder)
    lines = done.out.split("\n")
    assert done.code == 1 and "text 2: character 4" in done.err and lines[0] and not lines[1] and lines[2]
    for command in (["fill", "\udcff [MASK]"], ["infill", "\udcff {}"], ["score", "\udcff"], ["generate", "\udcff"]):
        done = run(*command, "-m", bert_folder)
        assert done.code == 1 and "no character" in done.err


DAMAGE = [
    ("tokenizer.json", b"{", "damaged"),
    ("tokenizer.json", b"[" * 100_000, "nested"),
    ("lengths.json", b'{"de-en": {"1000000000": {"1": 1}}}', "damaged"),
    ("lengths.json", b"[]", "damaged"),
    ("config.json", b"[" * 100_000, "not JSON"),
    ("model.safetensors", b"x" * 40, "damaged"),
]


@pytest.mark.parametrize(("name", "content", "says"), DAMAGE, ids=lambda x: str(x)[:20])
def test_damaged_folders(run: Run, model_folder: Path, tmp_path: Path, name: str, content: bytes, says: str) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    (tmp_path / "model" / name).write_bytes(content)
    done = run("translate", "Ein Hund.", "--to", "en", "-m", tmp_path / "model")
    assert done.code == 1 and says in done.err and name in done.err


def test_a_description_larger_than_its_weights(run: Run, model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    config = json.loads((model_folder / "config.json").read_text())
    config["architecture"]["layers"] = 1_000_000
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    done = run("translate", "Ein Hund.", "--to", "en", "-m", tmp_path / "model")
    assert done.code == 1 and "1,000,000 layers" in done.err


def test_a_foreign_vocabulary(run: Run, model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    path = tmp_path / "model" / "tokenizer.json"
    data = json.loads(path.read_text())
    words = data["model"]["vocab"]
    a, b = [word for word, i in words.items() if i > 290][:2]
    words[a], words[b] = words[b], words[a]
    path.write_text(json.dumps(data))
    done = run("translate", "Ein Hund.", "--to", "en", "-m", tmp_path / "model")
    assert done.code == 1 and "not this model's vocabulary" in done.err


def test_an_old_bert_is_told_what_to_add(run: Run, bert_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(bert_folder, tmp_path / "old")
    config = json.loads((bert_folder / "config.json").read_text())
    del config["model_type"]
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    done = run("fill", "a [MASK]", "-m", tmp_path / "old")
    assert done.code == 1 and '"model_type": "bert"' in done.err
    done = run("fill", "the [MASK]", "-m", bert_folder, "-n", "1")
    assert done.code == 0 and not done.err  # and no bars


def test_streams_that_are_closed_or_narrow(model_folder: Path) -> None:
    translate = f"translate 'Ein Hund.' --to en -m {model_folder}"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "1"}
    for line, code in ((f"{translate} <&-", 0), ("models >&-", 1), (f"{translate} >/dev/full", 1)):
        command = f"{sys.executable} -m anyorder {line}"
        done = subprocess.run(command, shell=True, capture_output=True, env=environment)
        assert done.returncode == code and b"Traceback" not in done.stderr and (not code or done.stderr.strip())
