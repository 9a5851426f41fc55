"""Diffusion LMs against their own full forward pass, LLaDA-like and Dream-like; guidance against its formula."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor, nn

from anyorder import recipes
from anyorder.core import begin, decode
from anyorder.core.model import Model, NoContext
from anyorder.errors import ModelError
from anyorder.models.diffusion_lm import DiffusionLM, Guided, load_diffusion_lm
from anyorder.models.table import Table

PAD, MASK, WORDS = 0, 3, 40
LENGTHS = (12, 9, 7)
SMALL: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "pad_token_id": PAD,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Nested(nn.Module):
    """LLaDA's own layout: the output matrix deep inside, the mask one value per key."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
        parts = {"wte": nn.Embedding(WORDS, 16), "blocks": nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)}
        self.inner = nn.ModuleDict(
            {"transformer": nn.ModuleDict({**parts, "ff_out": nn.Linear(16, WORDS, bias=False)})}
        )
        self.config = SimpleNamespace(max_sequence_length=20)

    def get_output_embeddings(self) -> nn.Module:
        return self.inner["transformer"]["ff_out"]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        parts = self.inner["transformer"]
        places = torch.arange(input_ids.shape[1])[:, None] / torch.arange(1, 17)
        states = parts["blocks"](parts["wte"](input_ids) + places.sin(), src_key_padding_mask=attention_mask == 0)
        return SimpleNamespace(logits=parts["ff_out"](states))


class Paired(hf.Qwen2ForCausalLM):
    """Dream's calling convention: the attention mask is (N, 1, L, L)."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **rest: Any) -> Any:
        assert attention_mask.dtype == torch.bool
        assert attention_mask.shape == (len(input_ids), 1, input_ids.shape[1], input_ids.shape[1])
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, **rest)


def tiny(name: str, **changes: Any) -> Any:
    torch.manual_seed(0)
    sizes = SMALL | {"is_causal": False} | changes
    if name == "nested":
        model: nn.Module = Nested()
    elif name == "llama":
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**sizes))
    else:
        kind = {"qwen2": hf.Qwen2ForCausalLM, "paired": Paired}[name]
        model = kind(hf.Qwen2Config(**sizes, tie_word_embeddings=name == "qwen2"))
    for parameter in model.requires_grad_(False).parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.3 if parameter.dim() > 1 else 0.1)
    return model.eval()


def canvas() -> Tensor:
    tokens = torch.randint(4, WORDS, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(1))
    tokens[:, 3:6] = MASK
    for row, length in enumerate(LENGTHS):
        tokens[row, length:] = PAD
    return tokens


def own_logits(model: Any, row: Tensor, pairs: bool) -> Tensor:
    """The model's own logits of one row without padding: (L,) → (L, V)."""
    shape = (1, 1, len(row), len(row)) if pairs else (1, len(row))
    mask = torch.ones(shape, dtype=torch.bool if pairs else torch.long)
    logits: Tensor = model(input_ids=row[None], attention_mask=mask).logits
    return logits[0]


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("name", ["llama", "qwen2", "paired", "nested"])
def test_halves_equal_the_whole(name: str, shifted: bool) -> None:
    model, tokens, pairs = tiny(name), canvas(), name == "paired"
    ours = DiffusionLM(model, MASK, PAD, shifted=shifted, pairs=pairs)
    assert isinstance(ours, Model)
    hidden = ours.hidden(ours.encode(), tokens)
    for row, length in enumerate(LENGTHS):
        raw = own_logits(model, tokens[row, :length], pairs)
        expected = torch.stack([raw[max(i - 1, 0)] for i in range(length)]) if shifted else raw
        found = ours.logits(hidden[row, :length])
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
        assert torch.equal(found.argmax(-1), expected.argmax(-1))
        assert raw.std(0).mean() > 0.05


def test_the_wrapped_model_is_left_as_it_was() -> None:
    model = tiny("nested")
    before = dict(model.named_modules())
    ours = DiffusionLM(model, MASK, PAD)
    assert dict(model.named_modules()) == before
    assert ours.head.weight is model.get_output_embeddings().weight
    total = sum(parameter.numel() for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in ours.parameters()) == total


def test_models_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ModelError, match=r"looks to the left only.*is_causal"):
        DiffusionLM(tiny("llama", is_causal=True), MASK, PAD)
    with pytest.raises(ModelError, match="no output matrix"):
        DiffusionLM(nn.Linear(2, 2), MASK, PAD)
    capped = hf.Gemma2ForCausalLM(hf.Gemma2Config(**SMALL, head_dim=4, is_causal=False)).requires_grad_(False).eval()
    capped.lm_head.weight.mul_(200)
    with pytest.raises(ModelError, match="after the output matrix"):
        DiffusionLM(capped, MASK, PAD)
    broken = tiny("llama")
    broken.lm_head.weight[5] = torch.nan
    with pytest.raises(ModelError, match="NaN"):
        DiffusionLM(broken, MASK, PAD)
    ours = DiffusionLM(tiny("llama"), MASK, PAD)
    with pytest.raises(ModelError, match=r"21 tokens .* at most 20"):
        ours.hidden(NoContext(), torch.full((1, 21), 7))
    with pytest.raises(ModelError, match="no source side"):
        ours.encode([[1]])


def test_load_from_a_folder(tmp_path: Path) -> None:
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<mask>": 3, **{f"w{i}": i + 4 for i in range(36)}}
    raw = Tokenizer(WordLevel(words, unk_token="<pad>"))
    specials = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
    hf.PreTrainedTokenizerFast(tokenizer_object=raw, **specials).save_pretrained(tmp_path)
    tiny("qwen2").save_pretrained(tmp_path)
    ours = load_diffusion_lm(tmp_path, shifted=True)
    assert (ours.mask_id, ours.pad_id, ours.special_ids) == (MASK, PAD, (0, 1, 3))  # </s> may be written
    expected = DiffusionLM(tiny("qwen2"), MASK, PAD, shifted=True).hidden(NoContext(), canvas())
    torch.testing.assert_close(ours.hidden(NoContext(), canvas()), expected)
    (tmp_path / "model.safetensors").write_bytes(b"short")
    with pytest.raises(ModelError, match="cannot load a diffusion LM"):
        load_diffusion_lm(tmp_path)


@pytest.mark.parametrize("shifted", [False, True])
def test_guidance_is_its_formula_row_by_row(shifted: bool) -> None:
    inner, tokens, scale = DiffusionLM(tiny("llama"), MASK, PAD, shifted=shifted), canvas(), 1.5
    prompt = torch.zeros(3, 10, dtype=torch.bool)  # narrower than the canvas
    prompt[0, :3], prompt[1, :2], prompt[2, 6:10] = True, True, True
    guided = Guided(inner, scale, prompt)
    assert isinstance(guided, Model)
    rows = torch.tensor([2, 0, 0, 1])
    hidden = guided.hidden(guided.encode().take(rows), tokens[rows])
    for place, row in enumerate(rows.tolist()):
        length = LENGTHS[row]
        bare = tokens[row : row + 1, :length].clone()
        bare[0, : min(10, length)][prompt[row, :length]] = MASK
        given = inner.logits(inner.hidden(NoContext(), tokens[row : row + 1, :length])[0])
        free = inner.logits(inner.hidden(NoContext(), bare)[0])
        expected = free + (scale + 1) * (given - free)
        torch.testing.assert_close(guided.logits(hidden[place, :length]), expected, atol=1e-4, rtol=0)
        assert (given - free).abs().max() > 0.01


def test_guidance_on_an_exact_joint() -> None:
    table = Table(3, 3, dtype=torch.float64)
    tokens = torch.tensor([[1, table.mask_id, table.mask_id], [2, 0, table.mask_id]])
    prompt = torch.tensor([True, False, False])
    plain = table.hidden(NoContext(), tokens)[:, 2].softmax(-1)
    marginal = table.hidden(NoContext(), torch.tensor([[3, 3, 3], [3, 0, 3]]))[:, 2].softmax(-1)
    for scale, expected in ((0.0, plain), (-1.0, marginal), (1.0, (plain**2 / marginal).nan_to_num(0))):
        guided = Guided(table, scale, prompt)
        found = guided.logits(guided.hidden(guided.encode(), tokens)[:, 2]).softmax(-1)
        torch.testing.assert_close(found, expected / expected.sum(-1, keepdim=True))
    with pytest.raises(ModelError, match="3 rows, the canvas 2"):
        Guided(table, 1.0, prompt.expand(3, 3)).hidden(Guided(table, 1.0, prompt.expand(3, 3)).encode(), tokens)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("guided", [False, True])
def test_decoders_run_on_it_whatever_the_batch(shifted: bool, guided: bool) -> None:
    tokens = canvas()
    tokens[0, 6:], tokens[1, 6:9] = MASK, MASK
    tokens[2, 3:7] = MASK
    prompt = torch.arange(12) < 3
    model: Any = DiffusionLM(tiny("llama"), MASK, PAD, shifted=shifted)
    model = Guided(model, 0.7, prompt) if guided else model
    for decoder in (recipes.easy_first, recipes.llada(4, 4)):
        together = decode(model, model.encode(), begin(tokens, MASK, PAD), decoder)
        for row, length in enumerate(LENGTHS):
            alone = decode(model, model.encode(), begin(tokens[row : row + 1, :length], MASK, PAD), decoder)
            assert torch.equal(together.tokens[row, :length], alone.tokens[0])
            torch.testing.assert_close(together.score[row], alone.score[0], atol=1e-3, rtol=0)
            assert (alone.tokens != MASK).all()
        assert torch.equal(together.tokens[:, :3], tokens[:, :3])
