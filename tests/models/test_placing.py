"""Models go where they are told, in the format they are told: from Python, the command line, for every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cli_support import build_bert, build_diffusion
from elsewhere import DEVICE, elsewhere

import anyorder
from anyorder.cli import main
from anyorder.errors import AnyorderError, ModelError
from anyorder.models import placing
from anyorder.options import Loading

TEXT = "the [MASK] sat on the [MASK] ."
BUILDERS = {"masked": build_bert, "diffusion": build_diffusion}


@pytest.fixture(scope="module", params=BUILDERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return BUILDERS[request.param](tmp_path_factory.mktemp("models") / "model")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "auto"])
def test_parameters_are_in_the_format_that_was_asked_for(folder: Path, dtype: Any) -> None:
    writer: Any = anyorder.load(folder, dtype=dtype, device="cpu")
    wanted = torch.float32 if dtype == "auto" else placing.FORMATS[dtype]
    assert {p.dtype for p in writer.model.parameters()} == {wanted}
    assert len(writer.fill(TEXT, n=2)) == 2 and writer.score("the cat sat").total < 0


@pytest.mark.parametrize(
    ("loading", "message"),
    [
        ({"device": "gpu"}, "no device 'gpu': it is cpu, cuda"),
        ({"device": "meta"}, "no device 'meta'"),
        ({"device": "cpu:3"}, "no device 'cpu:3': this machine has 1 of cpu"),
        ({"device": "cpu", "device_map": "auto"}, "leave device out"),
        ({"dtype": "float64"}, "dtype is one of float32"),
        ({"dtype": torch.float16}, "dtype is one of float32"),
    ],
)
def test_places_that_are_none_are_refused(folder: Path, loading: dict[str, Any], message: str) -> None:
    with pytest.raises(AnyorderError, match=message):
        anyorder.load(folder, **loading)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there_is_refused(folder: Path) -> None:
    for name in ("cuda", "cuda:1", "mps", "xpu"):
        with pytest.raises(ModelError, match=f"there is no device '{name}' on this machine .*; there is cpu"):
            anyorder.load(folder, device=name)
        with pytest.raises(ModelError, match=f"there is no device '{name}'"):
            anyorder.load("de-en", device=name)
    assert placing.found("auto").type == "cpu"


def test_a_model_of_ours_in_half_precision(tmp_path: Path) -> None:
    texts = ["Ein Hund läuft am Strand."]
    whole = anyorder.load("de-en").translate(texts, to="en", order="easy-first")
    for dtype in ("bfloat16", "float32", "auto"):
        half: Any = anyorder.load("de-en", dtype=dtype, device="cpu")  # type: ignore[arg-type]
        assert {p.dtype for p in half.model.parameters()} == {torch.bfloat16 if dtype == "bfloat16" else torch.float32}
        assert half.translate(texts, to="en", order="easy-first")[0].text == whole[0].text
    with pytest.raises(ModelError, match="int8 is for float32 on the CPU"):
        anyorder.load("de-en", dtype="bfloat16", int8=True)
    with pytest.raises(ModelError, match="no use for device_map: anyorder's own models are small"):
        anyorder.load("de-en", device_map="auto")


def test_to_moves_a_model_with_what_belongs_to_it(folder: Path) -> None:
    writer: Any = anyorder.load(folder)
    translator = anyorder.load("de-en-masked")
    filled = [f.ids for f in writer.fill(TEXT, n=2)]
    said = translator.translate("Ein Hund läuft.", to="en", order="learned", rescore="ar").text
    with elsewhere():
        assert [f.ids for f in writer.to(DEVICE).fill(TEXT, n=2)] == filled
        assert {p.device for p in writer.model.parameters()} == {DEVICE}
        moved = translator.to(DEVICE)
        assert moved.translate("Ein Hund läuft.", to="en", order="learned", rescore="ar").text == said
    with pytest.raises(ModelError, match="no device 'nowhere'"):
        writer.to("nowhere")


def test_over_the_cpu_and_the_disk(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    for name, build in BUILDERS.items():
        folder = build(tmp_path / name)
        plain: Any = anyorder.load(folder)
        spread: Any = anyorder.load(folder, device_map="auto")
        assert [f.ids for f in spread.fill(TEXT, n=2)] == [f.ids for f in plain.fill(TEXT, n=2)]


def test_the_command_line_has_them_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {"device", "dtype", "device_map", "revision", "token"} <= Loading.known().keys()
    command = ["fill", TEXT, "-m", str(build_bert(tmp_path / "bert")), "--dtype", "bfloat16", "-n", "1"]
    with pytest.raises(SystemExit):
        main([*command, "--device", "cpu", "--json"])
    assert json.loads(capsys.readouterr().out)["text"].startswith("the ")
    if not torch.cuda.is_available():
        with pytest.raises(SystemExit, match="1"):
            main([*command, "--device", "cuda"])
        assert "there is no device 'cuda'" in capsys.readouterr().err


MEASURE = """
import re, sys, threading, time
import torch, transformers
import anyorder, anyorder.models.masked_lm, transformers.models.bert.modeling_bert
torch.randn(8, 8) @ torch.randn(8, 8)
def private():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
peak, stop = [0], threading.Event()
def watch():
    while not stop.is_set():
        peak[0] = max(peak[0], private()); time.sleep(0.001)
before = private(); threading.Thread(target=watch, daemon=True).start()
model = anyorder.load(sys.argv[1], dtype=sys.argv[2], device="cpu").model
stop.set()
sizes = [p.numel() * p.element_size() for p in model.parameters()]
print(max(peak[0], private()) - before, sum(sizes), max(sizes))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read as Linux tells it")
def test_weights_are_read_tensor_by_tensor(tmp_path: Path) -> None:
    """Private memory while loading is at most 1.1 times the weights and one tensor."""
    import transformers as hf

    folder = build_bert(tmp_path / "bert")
    config = hf.BertConfig(
        vocab_size=17, hidden_size=1024, num_hidden_layers=4, num_attention_heads=4, intermediate_size=4096
    )
    hf.BertForMaskedLM(config).save_pretrained(folder)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, folder, "bfloat16"], capture_output=True, text=True, check=True
    )
    most, weights, largest = map(int, done.stdout.split()[-3:])
    assert weights > 8e7 and most <= 1.1 * weights + largest + 4e7  # and what Python itself takes meanwhile
