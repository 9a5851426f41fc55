"""The published folders' records come out; other sizes and settings of the same form, built here, too."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import anyorder
from anyorder.errors import ModelError

from .__main__ import HERE, main
from .replay import Record, load, read, replay

QUICK = 3  # of each method; `python -m tests.published` replays everything


@pytest.fixture(scope="module", params=["llada", "dream"])
def folder(request: pytest.FixtureRequest) -> Path:
    return HERE / str(request.param)


def _kinds(records: list[Record]) -> list[Record]:
    kept: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        kept.setdefault((r["what"], r.get("method"), "threshold" in r), []).append(r)
    return [r for some in kept.values() for r in some[:QUICK]]


def test_records(folder: Path) -> None:
    writer, records = load(folder), _kinds(read(folder))
    assert {r["what"] for r in records} == {"logits", "tokenise", "chat", "generate"}
    assert {r["line"]: wrong for r in records if (wrong := replay(writer, r))} == {}


def test_the_runner(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It counts what holds, shows what does not, and says so by its status."""
    copy = _copy(folder, tmp_path / "copy")
    records = _kinds(read(folder))
    lines = [json.dumps({k: v for k, v in r.items() if k != "line"}) for r in records]
    (copy / "golden.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert main([str(copy)]) == 0
    wrong = {**json.loads(lines[-1]), "tokens": [1] * len(records[-1]["tokens"])}
    (copy / "golden.jsonl").write_text("\n".join([*lines[:-1], json.dumps(wrong)]), encoding="utf-8")
    assert main([str(copy)]) == 1
    assert f"line {len(lines)}: generate" in capsys.readouterr().out
    (copy / "golden.jsonl").unlink()
    assert main([str(copy)]) == 1


def _copy(folder: Path, to: Path, **changes: Any) -> Path:
    """The same files, other fields in config.json; a field that is ... is taken out."""
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | changes
    config = {k: v for k, v in config.items() if v is not ...}
    (to / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return to


def _logits(folder: Path, tokens: torch.Tensor) -> torch.Tensor:
    """What the model itself says, at each column."""
    model = anyorder.load(folder).model
    with torch.inference_mode():
        return model.logits(model._run(model.body, tokens))


TOKENS = torch.arange(40, 58)[None]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("llada", {"alibi": True}, "alibi = True"),
        ("llada", {"rope": False}, "rope = False"),
        ("llada", {"block_type": "sequential"}, "block_type = 'sequential'"),
        ("llada", {"block_type": ...}, "block_type = 'sequential'"),  # what its absence means
        ("llada", {"layer_norm_type": "gemma_rms"}, "layer_norm_type = 'gemma_rms'"),
        ("llada", {"activation_type": "swiglu"}, "activation_type = 'swiglu'"),
        ("llada", {"attention_layer_norm": True}, "attention_layer_norm = True"),
        ("llada", {"input_emb_norm": True}, "input_emb_norm = True"),
        ("llada", {"bias_for_layer_norm": True}, "bias_for_layer_norm"),
        ("llada", {"multi_query_attention": True}, "contradict"),
        ("llada", {"clip_qkv": 8.0}, "clip_qkv = 8.0"),
        ("llada", {"quantization_config": {"bits": 4}}, "quantization_config"),
        ("llada", {"d_model": ...}, "no d_model"),
        ("llada", {"d_model": "wide"}, "positive number"),
        ("llada", {"include_qkv_bias": True}, "k_proj.bias"),
        ("llada", {"include_bias": True}, "bias"),
        ("llada", {"n_layers": 4}, "layers.3"),
        ("llada", {"n_layers": 2}, "layers.2"),
        ("llada", {"mlp_hidden_size": 100}, "cannot load LLaDA"),
        ("llada", {"architectures": ["LLaDAMoEModelLM"]}, "LLaDAMoEModelLM is not supported"),
        ("llada", {"mask_token_id": ...}, "no mask_token_id"),
        ("llada", {"mask_token_id": 400}, "mask_token_id"),
        ("dream", {"use_sliding_window": True}, "use_sliding_window = True"),
        ("dream", {"rope_scaling_factor": 2.0}, "rope_scaling_factor"),
        ("dream", {"architectures": ["DreamBig"]}, "DreamBig is not supported"),
        ("dream", {"vocab_size": 300}, "cannot load Dream|belong"),
    ],
)
def test_a_field_is_obeyed_or_refused_by_name(name: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        anyorder.load(_copy(HERE / name, tmp_path / "folder", **changes))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llada", {"rope_theta": 100.0}),
        ("llada", {"rms_norm_eps": 0.5}),
        ("llada", {"activation_type": "gelu"}),
        ("llada", {"scale_logits": True}),
        ("dream", {"rope_theta": 100.0}),
        ("dream", {"rms_norm_eps": 0.5}),
        ("dream", {"hidden_act": "gelu"}),
        ("dream", {"rope_scaling": {"type": "linear", "factor": 2.0}}),
    ],
)
def test_a_field_that_counts_changes_the_result(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    before, after = _logits(HERE / name, TOKENS), _logits(_copy(HERE / name, tmp_path / "folder", **changes), TOKENS)
    if "scale_logits" in changes:
        torch.testing.assert_close(after, before / math.sqrt(64))
    else:
        assert (before - after).abs().max() > 0.01


def _write(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor], shards: int = 1) -> Path:
    """A LLaDA folder of another form, with the small one's tokenizer; in several files with an index, if asked."""
    made = _copy(HERE / "llada", folder, **config)
    (made / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {f"model-{k + 1:05}-of-{shards:05}.safetensors": names[k::shards] for k in range(shards)}
    for file, some in parts.items():
        save_file({n: tensors[n].contiguous() for n in some}, made / file)
    index = {"metadata": {}, "weight_map": {n: file for file, some in parts.items() for n in some}}
    (made / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return made


OTHER = {"d_model": 48, "n_heads": 6, "n_kv_heads": 2, "n_layers": 2, "mlp_hidden_size": 72, "embedding_size": 340}
SHAPES = {"q_proj": (48, 48), "k_proj": (16, 48), "v_proj": (16, 48), "attn_out": (48, 48)}
SHAPES |= {"ff_proj": (72, 48), "up_proj": (72, 48), "ff_out": (48, 72)}


def _random(biases: tuple[str, ...] = (), tied: bool = False) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw) * 0.2

    out = {"wte.weight": some(340, 48), "ln_f.weight": 1 + some(48)} | (
        {} if tied else {"ff_out.weight": some(340, 48)}
    )
    if "head" in biases:
        out["ff_out.bias"] = some(340)
    for k in range(2):
        out |= {f"blocks.{k}.{n}.weight": 1 + some(48) for n in ("attn_norm", "ff_norm")}
        out |= {f"blocks.{k}.{n}.weight": some(*shape) for n, shape in SHAPES.items()}
        out |= {f"blocks.{k}.{n}.bias": some(SHAPES[n][0]) for n in biases if n != "head"}
    return {f"model.transformer.{n}": t for n, t in out.items()}


def _plain(
    tensors: dict[str, torch.Tensor], tokens: torch.Tensor, tied: bool = False, scale: float = 1.0
) -> torch.Tensor:
    """Its forward pass in plain words: every position sees every other, two query heads share a key."""
    t = {n.removeprefix("model.transformer."): v for n, v in tensors.items()}

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ t[f"{name}.weight"].T + t.get(f"{name}.bias", torch.tensor(0.0))

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * t[f"{name}.weight"]

    def turned(x: torch.Tensor) -> torch.Tensor:  # (H, L, 8)
        angle = torch.arange(x.shape[1])[:, None] / 500_000.0 ** (torch.arange(0, 8, 2) / 8)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    x = t["wte.weight"][tokens]  # (L, D)
    for k in range(2):
        h = norm(f"blocks.{k}.attn_norm", x)
        q, key, v = (linear(f"blocks.{k}.{n}_proj", h).view(len(h), -1, 8).transpose(0, 1) for n in "qkv")
        key, v = (y.repeat_interleave(3, 0) for y in (turned(key), v))
        p = (turned(q) @ key.transpose(1, 2) / math.sqrt(8)).softmax(-1)
        x = x + linear(f"blocks.{k}.attn_out", (p @ v).transpose(0, 1).reshape(len(h), -1))
        h = norm(f"blocks.{k}.ff_norm", x)
        gate = torch.nn.functional.silu(linear(f"blocks.{k}.ff_proj", h)) * linear(f"blocks.{k}.up_proj", h)
        x = x + linear(f"blocks.{k}.ff_out", gate)
    x = norm("ln_f", x)
    return scale * (x @ t["wte.weight"].T if tied else linear("ff_out", x))


@pytest.mark.parametrize(
    ("config", "biases", "scale"),
    [
        ({}, (), 1.0),
        ({"include_qkv_bias": True}, ("q_proj", "k_proj", "v_proj"), 1.0),
        ({"include_bias": True, "bias_for_layer_norm": False}, (*SHAPES, "head"), 1.0),
        ({"weight_tying": True}, (), 1.0),
        ({"weight_tying": True, "scale_logits": True}, (), 48**-0.5),
        ({"include_bias": True, "scale_logits": True}, (*SHAPES, "head"), 48**-0.5),
    ],
)
def test_other_forms_against_the_forward_pass_in_plain_words(
    config: dict[str, Any], biases: tuple[str, ...], scale: float, tmp_path: Path
) -> None:
    tied = bool(config.get("weight_tying"))
    tensors = _random(biases, tied)
    folder = _write(tmp_path / "folder", OTHER | config, tensors, shards=3)
    expected = _plain(tensors, TOKENS[0], tied, scale)
    torch.testing.assert_close(_logits(folder, TOKENS)[0], expected, atol=1e-4, rtol=1e-4)


def test_a_dream_with_tied_embeddings_and_other_sizes(tmp_path: Path) -> None:
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 30}
    config = hf.Qwen2Config(vocab_size=330, num_hidden_layers=2, tie_word_embeddings=True, is_causal=False, **sizes)
    torch.manual_seed(0)
    model = hf.Qwen2ForCausalLM(config).eval()
    folder = _copy(HERE / "dream", tmp_path / "folder", vocab_size=330, num_hidden_layers=2, tie_word_embeddings=True,
                   rope_theta=10_000.0, **sizes)  # fmt: skip
    save_file(
        {n: t.contiguous() for n, t in model.state_dict().items() if n != "lm_head.weight"},
        folder / "model.safetensors",
    )
    with torch.inference_mode():
        torch.testing.assert_close(_logits(folder, TOKENS), model(input_ids=TOKENS).logits)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = _copy(HERE / "dream", tmp_path / "folder")
    (folder / "merges.txt").unlink()
    with pytest.raises(ModelError, match=r"tokenizer\.json, or vocab\.json and merges\.txt"):
        anyorder.load(folder)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    folder = _copy(HERE / "llada", tmp_path / "folder")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.transformer.ln_f.weight"][0] = torch.nan
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelError, match="NaN"):
        anyorder.load(folder)
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelError, match="cannot load LLaDA"):
        anyorder.load(folder)
