"""XLM checkpoints: the forward pass against a plain re-implementation, and every kind of broken file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.errors import ModelError
from anyorder.models.translation import Source
from anyorder.models.xlm import load_xlm, read_xlm

REFERENCE = Path(__file__).parents[1] / "parity" / "records" / "xlm-de-en.pth"
WORDS, DIM, LAYERS, HEADS, FFN, POSITIONS = 30, 12, 2, 3, 20, 16


def checkpoint() -> dict[str, Any]:
    """A small random checkpoint in XLM's layout."""
    rng = torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {"position_embeddings": (POSITIONS, DIM), "lang_embeddings": (2, DIM)}
    for i in range(LAYERS):
        shapes |= {f"attentions.{i}.{part}_lin": (DIM, DIM) for part in ("q", "k", "v", "out")}
        shapes |= {f"ffns.{i}.lin1": (FFN, DIM), f"ffns.{i}.lin2": (DIM, FFN)}
    model = {f"{name}.weight": 0.5 * torch.randn(shape, generator=rng) for name, shape in shapes.items()}
    linear = {name: shape[0] for name, shape in shapes.items() if "embeddings" not in name}
    model |= {f"{name}.bias": 0.1 * torch.randn(rows, generator=rng) for name, rows in linear.items()}
    for norm in ("layer_norm_emb", *(f"layer_norm{n}.{i}" for n in (1, 2) for i in range(LAYERS))):
        model[f"{norm}.weight"] = 1 + 0.1 * torch.randn(DIM, generator=rng)
        model[f"{norm}.bias"] = 0.1 * torch.randn(DIM, generator=rng)
    model["embeddings.weight"] = model["pred_layer.proj.weight"] = torch.randn(WORDS, DIM, generator=rng)
    model["pred_layer.proj.bias"] = torch.randn(WORDS, generator=rng)
    words = ["<s>", "</s>", "<pad>", "<unk>", "<special0>", "<special1>", *(f"w{i}" for i in range(WORDS - 6))]
    params = {"n_langs": 2, "id2lang": {0: "de", 1: "en"}, "emb_dim": DIM, "n_heads": HEADS, "n_layers": LAYERS}
    params |= {"n_words": WORDS, "gelu_activation": True, "share_inout_emb": True, "asm": False}
    params |= {"bos_index": 0, "eos_index": 1, "pad_index": 2, "unk_index": 3, "mask_index": 5}
    dictionary = {"dico_id2word": dict(enumerate(words)), "dico_word2id": {w: i for i, w in enumerate(words)}}
    return {"model": model, "params": params, **dictionary, "dico_counts": dict.fromkeys(words, 0)}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    torch.save(checkpoint(), tmp_path / "small.pth")
    return tmp_path / "small.pth"


def xlm(w: dict[str, Tensor], heads: int, tokens: Tensor, positions: Tensor, languages: Tensor) -> Tensor:
    """XLM's forward pass for one sentence without padding: (L,) → (L, D)."""

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = w["embeddings.weight"][tokens] + w["position_embeddings.weight"][positions]
    x = norm(x + w["lang_embeddings.weight"][languages], "layer_norm_emb")
    for i in range(sum(name.endswith("q_lin.weight") for name in w)):
        q, k, v = (linear(x, f"attentions.{i}.{part}_lin").unflatten(-1, (heads, -1)) for part in "qkv")
        mixed = []
        for h in range(heads):
            attention = (q[:, h] / math.sqrt(q.shape[-1]) @ k[:, h].T).softmax(-1)
            mixed.append(attention @ v[:, h])
        x = norm(x + linear(torch.cat(mixed, -1), f"attentions.{i}.out_lin"), f"layer_norm1.{i}")
        inner = linear(x, f"ffns.{i}.lin1")
        inner = 0.5 * inner * (1 + torch.erf(inner / math.sqrt(2)))
        x = norm(x + linear(inner, f"ffns.{i}.lin2"), f"layer_norm2.{i}")
    return x


def compare(path: Path, heads: int, sources: list[list[int]], targets: list[list[int]]) -> None:
    """Our batch with padding against the plain pass on each sentence, in both directions."""
    weights = torch.load(path, weights_only=True)["model"]
    model = load_xlm(path)

    def batch(rows: list[list[int]]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, model.pad_id)

    for source_lang, target_lang in ((0, 1), (1, 0)):
        context = model.encode(Source(batch(sources), source_lang, target_lang))
        states = model.hidden(context, batch(targets))
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            tokens = torch.tensor([1, *source, 1, 1, *target, 1])
            positions = torch.tensor([*range(len(source) + 2), *range(len(target) + 2)])
            languages = torch.tensor([source_lang] * (len(source) + 2) + [target_lang] * (len(target) + 2))
            expected = xlm(weights, heads, tokens, positions, languages)[len(source) + 3 : -1]
            torch.testing.assert_close(states[row, : len(target)], expected, atol=1e-4, rtol=0)
            logits = expected @ weights["pred_layer.proj.weight"].T + weights["pred_layer.proj.bias"]
            found = model.logits(states[row, : len(target)])
            torch.testing.assert_close(found, logits, atol=1e-3, rtol=0)
            assert torch.equal(found.argmax(-1), logits.argmax(-1))


def test_hidden_states_of_a_small_model(small: Path) -> None:
    compare(small, HEADS, [[7, 8, 9, 10], [11, 12]], [[5, 20, 5], [5, 5, 21, 22, 5]])


def test_hidden_states_of_the_reference_model() -> None:
    rng = torch.Generator().manual_seed(3)
    rows = [torch.randint(14, 7000, (n,), generator=rng).tolist() for n in (12, 5, 9)]
    compare(REFERENCE, 4, rows, [[5] * 9, [77, 5, 5, 900], [5, 23, 5, 5, 42, 1000, 5]])


def test_what_is_read(small: Path) -> None:
    read = read_xlm(small)
    assert read.languages == ("de", "en")
    assert (read.architecture.ffn, read.architecture.positions, read.special.mask) == (FFN, POSITIONS, 5)
    assert read.words[5:7] == ("<special1>", "w0")


def test_weights_of_distributed_training_and_half_precision(tmp_path: Path) -> None:
    data = checkpoint()
    data["model"] = {f"module.{name}": tensor.half() for name, tensor in data["model"].items()}
    torch.save(data, tmp_path / "half.pth")
    assert load_xlm(tmp_path / "half.pth").transformer.embeddings.weight.dtype == torch.float32


def test_a_model_of_one_language_has_no_language_embeddings(tmp_path: Path) -> None:
    data = checkpoint()
    del data["model"]["lang_embeddings.weight"]
    data["params"] |= {"n_langs": 1, "id2lang": {0: "en"}}
    torch.save(data, tmp_path / "one.pth")
    assert (load_xlm(tmp_path / "one.pth").transformer.lang_embeddings.weight == 0).all()


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no model": (lambda d: d.pop("model"), r"has no 'model', only 'dico_counts', .*'params'"),
    "encoder-decoder": (lambda d: d.update(encoder=d.pop("model")), "encoder–decoder"),
    "no dictionary": (lambda d: d.pop("dico_id2word"), "has no 'dico_id2word'"),
    "params of another type": (lambda d: d.update(params=[1]), "'params' should be a dict, not a list"),
    "missing key": (lambda d: d["model"].pop("ffns.1.lin2.bias"), r"model lacks 'ffns\.1\.lin2\.bias'$"),
    "missing table": (lambda d: d["model"].pop("position_embeddings.weight"), "lacks 'position_embeddings.weight'"),
    "odd key": (lambda d: d["model"].update(extra=torch.zeros(1)), "has not: 'extra'"),
    "too many layers": (lambda d: d["params"].update(n_layers=1), "has not: 'attentions.1.k_lin.bias'.* more"),
    "too few layers": (lambda d: d["params"].update(n_layers=3), "lacks 'attentions.2.k_lin.bias'.* and 13 more"),
    "wrong size": (
        lambda d: d["model"].update({"layer_norm_emb.bias": torch.zeros(DIM + 1)}),
        r"'layer_norm_emb\.bias'\] is \(13,\), but params make it \(12,\)",
    ),
    "a scalar": (lambda d: d["model"].update({"ffns.0.lin1.weight": torch.tensor(1.0)}), r"is \(\), but params"),
    "not a tensor": (lambda d: d["model"].update(extra="text"), "should be a tensor of floats"),
    "integers": (lambda d: d["model"].update({"embeddings.weight": torch.ones(3).long()}), "tensor of floats"),
    "NaN": (lambda d: d["model"]["ffns.0.lin1.bias"].fill_(torch.nan), "has NaN or infinite"),
    "untied": (lambda d: d["model"].update({"pred_layer.proj.weight": torch.ones(WORDS, DIM)}), "embeddings differ"),
    "heads": (lambda d: d["params"].update(n_heads=5), "5 heads, which do not divide the width 12"),
    "no width": (lambda d: d["params"].pop("emb_dim"), r"params\['emb_dim'\] should be a whole number .* not None"),
    "width as text": (lambda d: d["params"].update(emb_dim="12"), "not '12'"),
    "adaptive softmax": (lambda d: d["params"].update(asm=True), "'asm'.*only False is supported"),
    "ReLU": (lambda d: d["params"].update(gelu_activation=False), "'gelu_activation'.*only True"),
    "mask beyond words": (lambda d: d["params"].update(mask_index=99), "'mask_index'.* is 99, beyond the 30 words"),
    "words": (lambda d: d["params"].update(n_words=31), "31 words, but the dictionary has 30"),
    "a hole": (lambda d: d["dico_id2word"].update({4: None}), "no word for id 4"),
    "disagreeing": (lambda d: d["dico_word2id"].update({"w0": 9}), "disagree: word 6 is 'w0'"),
    "languages": (lambda d: d["params"].update(id2lang={0: "de"}), r"should name languages 0 … 1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_contents(name: str, tmp_path: Path) -> None:
    breaking, message = BROKEN[name]
    data = checkpoint()
    breaking(data)
    torch.save(data, tmp_path / "broken.pth")
    with pytest.raises(ModelError, match=message) as caught:
        load_xlm(tmp_path / "broken.pth")
    assert "broken.pth" in str(caught.value)


@pytest.mark.parametrize("legacy", [False, True])
def test_truncated_files(legacy: bool, tmp_path: Path) -> None:
    path = tmp_path / "whole.pth"
    torch.save(checkpoint(), path, _use_new_zipfile_serialization=not legacy)
    load_xlm(path)
    whole = path.read_bytes()
    for kept in (0, 1, 100, len(whole) // 2, len(whole) - 10):
        path.write_bytes(whole[:kept])
        with pytest.raises(ModelError, match=r"whole\.pth: (truncated|not read)"):
            load_xlm(path)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        load_xlm(tmp_path / "absent.pth")
    with pytest.raises(ModelError, match="no such file"):
        load_xlm(tmp_path)
    (tmp_path / "text.pth").write_text("hello " * 100)
    with pytest.raises(ModelError, match=r"text\.pth"):
        load_xlm(tmp_path / "text.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ModelError, match="holds a list"):
        load_xlm(tmp_path / "list.pth")


class Bomb:
    """Unpickling this would create a folder."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("place", ["params", "model", "dico_counts"])
def test_a_pickle_bomb_is_not_run(place: str, tmp_path: Path) -> None:
    data = checkpoint()
    data[place]["bomb"] = Bomb(tmp_path / "exploded")
    torch.save(data, tmp_path / "bomb.pth")
    with pytest.raises(ModelError, match="nothing was run"):
        load_xlm(tmp_path / "bomb.pth")
    assert not (tmp_path / "exploded").exists()
