"""Block diffusion LMs from folders in their published form, against plain loops over transformers' own classes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import save_file
from torch import Tensor

import anyorder
from anyorder.errors import ModelError
from anyorder.text.language_model import LanguageModel

from .__main__ import HERE

SIZES: dict[str, Any] = {
    "vocab_size": 336, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 96, "tie_word_embeddings": False,
}  # fmt: skip
MASK = 324
FORMS: dict[str, tuple[Any, dict[str, Any], dict[str, str]]] = {
    "sdar": (hf.Qwen3ForCausalLM, {"architectures": ["SDARForCausalLM"], "block_size": 4}, {}),
    "Fast_dLLM_Qwen": (
        hf.Qwen2ForCausalLM, {"architectures": ["Fast_dLLM_QwenForCausalLM"], "bd_size": 8, "head_dim": ...}, {}
    ),
    "nemotron_labs_diffusion": (
        hf.Ministral3ForCausalLM,
        {
            "architectures": ["NemotronLabsDiffusionModel"], "block_size": 8,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1,
                                "original_max_position_embeddings": 16},
        },
        {"model.": "encoder.", "lm_head.": "diffusion_head."},
    ),
}  # fmt: skip


def build(folder: Path, kind: str) -> tuple[Path, Any, int]:
    """A folder of random weights in the published form, the class that computes it, and the size of its blocks."""
    base, more, names = FORMS[kind]
    config = {k: v for k, v in {**SIZES, **more, "model_type": kind, "mask_token_id": MASK}.items() if v is not ...}
    shutil.copytree(HERE / "dream", folder)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    own = {k: v for k, v in config.items() if k in SIZES or k == "rope_parameters"}
    torch.manual_seed(0)
    model = base(base.config_class(**own)).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.normal_(1.0 if weight.dim() == 1 else 0.0, 0.25)
    tensors = {}
    for name, tensor in model.state_dict().items():
        start = next((s for s in names if name.startswith(s)), "")
        tensors[names.get(start, "") + name[len(start) :]] = tensor.contiguous()
    save_file(tensors, folder / "model.safetensors")
    return folder, model, int(config.get("block_size", config.get("bd_size", 0)))


def logits(model: Any, tokens: list[int], block: int) -> Tensor:
    """(L, V): each column sees its own block of columns and those before it."""
    column = torch.arange(len(tokens))
    seen = column[None, :] // block <= column[:, None] // block
    mask = torch.zeros(1, 1, *seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    out: Tensor = model(input_ids=torch.tensor([tokens]), attention_mask=mask).logits[0]
    return out


def sure(row: Tensor) -> tuple[float, int]:
    """The best symbol that is no mask, and its probability among those."""
    p, token = row.index_fill(0, torch.tensor([MASK]), -torch.inf).softmax(-1).max(-1)
    return float(p), int(token)


def sdar(model: Any, prompt: list[int], length: int, block: int) -> list[int]:
    y = prompt + [MASK] * length
    for start in range(0, len(y), block):
        here = [i for i in range(start, min(start + block, len(y))) if y[i] == MASK]
        for _ in range(len(here)):  # four steps a block: one symbol each
            x = logits(model, y, block)
            best = max((i for i in here if y[i] == MASK), key=lambda i: sure(x[i])[0])
            y[best] = sure(x[best])[1]
    return y[len(prompt) :]


def fast_dllm(model: Any, prompt: list[int], length: int, block: int, small: int, bar: float) -> list[int]:
    y = prompt + [MASK] * length
    for start in range(0, len(y), small):
        if start % block == 0 and y[start] == MASK:  # from the end of the block before
            y[start] = sure(logits(model, y[:start], block)[-1])[1]
        here = range(start, min(start + small, len(y)))
        while left := [i for i in here if y[i] == MASK]:
            x = logits(model, y, block)
            p = {i: sure(x[i - 1]) for i in left}
            chosen = [i for i in left if p[i][0] >= bar] or [max(left, key=lambda i: p[i][0])]
            for i in chosen:
                y[i] = p[i][1]
    return y[len(prompt) :]


@pytest.fixture(scope="module", params=list(FORMS))
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, LanguageModel, Any, int]:
    folder, model, block = build(tmp_path_factory.mktemp("blocks") / request.param, request.param)
    writer = anyorder.load(folder)
    assert isinstance(writer, LanguageModel)
    return request.param, writer, model, block


def test_the_forward_pass(made: tuple[str, LanguageModel, Any, int]) -> None:
    _, writer, model, block = made
    assert writer.model.block == block and writer.model.mask_id == MASK
    tokens = [40, 41, MASK, 43, 44, MASK, MASK, 47, 48, MASK, 50, 51, 52, 53, 54, 55, 56, 57, MASK]
    found = writer.model.logits(writer.model._run(writer.model.body, torch.tensor([tokens]))[0])
    torch.testing.assert_close(found, logits(model, tokens, block), atol=1e-4, rtol=1e-4)


def test_generate_against_a_plain_loop(made: tuple[str, LanguageModel, Any, int]) -> None:
    kind, writer, model, block = made
    for prompt in ("Ein Junge mit einem", "Ball"):
        ids = writer.tokenizer.encode(prompt, add_special_tokens=False)
        if kind == "sdar":
            (found,) = writer.generate(prompt, length=18)
            assert list(found.ids) == sdar(model, ids, 18, block)
        if kind == "Fast_dLLM_Qwen":
            for bar in (0.9, 0.05):
                how: dict[str, Any] = {
                    "order": "confidence",
                    "count": f"threshold({bar})",
                    "among": f"aligned(4, {block})",
                }
                (found,) = writer.generate(prompt, length=18, **how)
                assert list(found.ids) == fast_dllm(model, ids, 18, block, 4, bar)
        if kind != "nemotron_labs_diffusion":
            before = writer.generate(prompt, length=18)[0].ids
            for cache in ("prefix", "dual"):  # exact
                assert writer.generate(prompt, length=18, cache=cache)[0].ids == before  # type: ignore[arg-type]


def test_the_authors_blocks_are_the_default(tmp_path: Path) -> None:
    shutil.copytree(HERE / "dream", folder := tmp_path / "folder")
    config = {**SIZES, "model_type": "llada2_moe"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match="LLaDA 2 is a mixture of experts"):
        anyorder.load(folder)
