"""DiffusionGemma: the canvases, accepted sets and stops of transformers' own generate, with our rows' draws in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import anyorder
from anyorder import recipes
from anyorder.core import begin, decode, unroll
from anyorder.core.noise import PAINT, SYMBOL, uniform
from anyorder.models.diffusion_gemma import DiffusionGemma
from anyorder.text.language_model import LanguageModel

WORDS, CANVAS, STEPS, CONFIDENT = 24, 8, 10, 0.15
PROMPTS = torch.tensor([[2, 5 + k, 9 + k, 7 - k] for k in range(6)])


def tiny(sharp: float = 12.0) -> Any:
    """Random weights, so scaled that several positions are accepted in a step, and some rows stop early."""
    torch.manual_seed(3)
    text = {
        "vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "head_dim": 8,
        "num_attention_heads": 2, "num_key_value_heads": 1, "num_experts": 4, "top_k_experts": 2,
        "moe_intermediate_size": 12, "sliding_window": 6, "global_head_dim": 8, "pad_token_id": 0, "eos_token_id": 1,
        "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 64,
    }  # fmt: skip
    vision = {"model_type": "gemma4_vision", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
              "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8}  # fmt: skip
    config = hf.DiffusionGemmaConfig(text_config=text, vision_config=vision, canvas_length=CANVAS)
    model = hf.DiffusionGemmaForBlockDiffusion(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.normal_(0, 0.2)
        if "embed_tokens" in name or "lm_head" in name:
            weight.normal_(0, sharp / 16**0.5)
    return model


class Draws:
    """Stands in for torch.randint and torch.multinomial: hands out the draws of our rows, step by step."""

    def __init__(self, seeds: Tensor, start: int) -> None:
        self.seeds, self.columns, self.painted, self.drawn = seeds[:, None], torch.arange(start, start + CANVAS), 0, 0

    def randint(self, low: int, high: int, size: tuple[int, ...], device: Any = None) -> Tensor:
        u = uniform(self.seeds, self.painted, self.columns, PAINT)
        self.painted += 1
        return (u * high).long()

    def multinomial(self, probs: Tensor, num_samples: int) -> Tensor:
        u = uniform(self.seeds, self.drawn, self.columns, SYMBOL).reshape(-1)
        self.drawn += 1
        cdf = probs.double().cumsum(-1)
        return torch.searchsorted(cdf, (u * cdf[:, -1])[:, None], right=True)


def theirs(model: Any, prompts: Tensor, seeds: Tensor, canvases: int, watch: list[Any], patch: Any) -> Tensor:
    """transformers' own generate; `watch` gets the accepted positions and the finished rows of every step."""
    from transformers.models.diffusion_gemma import generation_diffusion_gemma as own

    draws = iter([Draws(seeds, prompts.shape[1] + k * CANVAS) for k in range(canvases)])
    now: list[Draws] = []
    accept, prepare = own.EntropyBoundSampler.accept_canvas, model._prepare_denoiser_inputs
    step = model._denoising_step

    def begun(**how: Any) -> Any:
        now[:] = [next(draws)]
        return prepare(**how)

    def accepted(self: Any, *given: Any) -> Tensor:
        out = accept(self, *given)
        watch.append([self.accepted_token_mask.clone()])
        return out

    def stepped(**how: Any) -> Any:
        before = how["finished_denoising"].clone()
        out = step(**how)
        watch[-1] += [before, out[1].clone()]
        return out

    patch.setattr(own.torch, "randint", lambda **how: now[0].randint(**how))
    patch.setattr(own.torch, "multinomial", lambda p, num_samples: now[0].multinomial(p, num_samples))
    patch.setattr(own.EntropyBoundSampler, "accept_canvas", accepted)
    patch.setattr(model, "_prepare_denoiser_inputs", begun)
    patch.setattr(model, "_denoising_step", stepped)
    out = model.generate(
        prompts, max_new_tokens=canvases * CANVAS, max_denoising_steps=STEPS, confidence_threshold=CONFIDENT,
        eos_token_id=None, pad_token_id=None, max_length=None,
    )  # fmt: skip
    patch.undo()
    return out.sequences if hasattr(out, "sequences") else out


def test_step_by_step_as_transformers_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    ours, prompts, seeds = DiffusionGemma(model), PROMPTS, torch.arange(7, 7 + len(PROMPTS))
    watch: list[Any] = []
    expected = theirs(model, prompts, seeds, 2, watch, monkeypatch)
    decoder = recipes.diffusion_gemma(STEPS, 0.1, confident=CONFIDENT)
    given, at, several, early = prompts, 0, 0, 0
    for _ in range(2):
        masks = torch.full((len(prompts), CANVAS), ours.mask_id)
        state = begin(torch.cat([given, masks], 1), ours.mask_id, ours.pad_id, seed=seeds)
        tokens = state.tokens.clone()
        for taken in unroll(ours, ours.encode(None), state, decoder):
            accepted, finished, argmax = watch[at]
            assert torch.equal((~finished).nonzero()[:, 0], taken.rows.sort().values), "rows stop when theirs do"
            for n, row in enumerate(taken.rows.tolist()):
                z, over = taken.z[n, -CANVAS:], int(taken.state.budget[n]) == int(taken.state.step[n])
                if over:  # the last pass's best, everywhere
                    assert torch.equal(taken.state.tokens[n, -CANVAS:], argmax[row])
                    early += int(taken.state.step[n]) < STEPS
                else:
                    assert torch.equal(z, accepted[row])
                    several += int(z.sum()) > 1
                tokens[row] = taken.state.tokens[n]
            at += 1
        while at < len(watch) and bool(watch[at][1].all()):
            at += 1
        given = tokens
    assert torch.equal(given, expected)
    assert several > 5 and early > 1, (several, early)


@pytest.fixture(scope="module")
def ours() -> DiffusionGemma:
    return DiffusionGemma(tiny())


@pytest.mark.parametrize("name", ["easy-first", "llada", "mask-predict", "diffusion-gemma", "wino", "annealed"])
def test_every_order_runs_and_rows_do_not_mix(ours: DiffusionGemma, name: str) -> None:
    decoder = recipes.every(4, 3)[name]
    rows = [[2, 5], [2, 9, 4, 4], [2, 5]]
    tokens = torch.full((3, 10), ours.pad_id)
    for n, (row, length) in enumerate(zip(rows, (6, 5, 6), strict=True)):
        tokens[n, : len(row) + length] = torch.tensor(row + [ours.mask_id] * length)
    seeds = torch.tensor([1, 2, 3])
    state = begin(tokens, ours.mask_id, ours.pad_id, seed=seeds)
    together = decode(ours, ours.encode(None), state, decoder).tokens
    assert not (together == ours.mask_id).any()
    for n in range(3):
        alone = decode(ours, ours.encode(None), state.take(torch.tensor([n])).trim(), decoder).tokens[0]
        assert torch.equal(together[n, : len(alone)], alone)
    assert torch.equal(together[:, :2], tokens[:, :2])


def test_no_prompt_and_no_state_are_refused(ours: DiffusionGemma) -> None:
    tokens = torch.full((1, 4), ours.mask_id)
    with pytest.raises(anyorder.core.ModelError, match="begin with a symbol"):
        decode(ours, ours.encode(None), begin(tokens, ours.mask_id, ours.pad_id), recipes.easy_first)
    with pytest.raises(anyorder.core.ModelError, match="let the engine tell"):
        ours.hidden(ours.encode(None), tokens)


def save(folder: Path) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = ["<pad>", "<eos>", "<bos>", "<turn|>", *(f"▁w{i}" for i in range(WORDS - 4))]
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>",
        additional_special_tokens=["<turn|>"],
        chat_template="{{ bos_token }}{% for m in messages %} {{ m['content'] }}{% endfor %}",
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    model = tiny()
    model.generation_config.max_denoising_steps = 6
    model.save_pretrained(folder)
    return folder


def test_a_folder_is_known_and_length_is_rounded_up_to_canvases(tmp_path: Path) -> None:
    writer = anyorder.load(save(tmp_path / "gemma"))
    assert isinstance(writer, LanguageModel) and isinstance(writer.model, DiffusionGemma)
    ask = [{"role": "user", "content": "w3 w4"}]
    (one,) = writer.generate(ask, length=3)
    assert len(one.ids) == CANVAS and one.ids == writer.generate(ask)[0].ids
    (two,) = writer.generate(ask, max_new_tokens=CANVAS + 1)
    assert two.ids[:CANVAS] == one.ids and len(two.ids) in (CANVAS, 2 * CANVAS)
    (other,) = writer.generate(ask, length=CANVAS, order="confidence", temperature=0.0)
    assert len(other.ids) == CANVAS
