"""Block caches: exact for block-causal models, Fast-dLLM's approximation for bidirectional ones, and what they save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from anyorder import recipes
from anyorder.core import Decoder, Symbols, begin, decode
from anyorder.core.model import Model, NoContext
from anyorder.errors import ModelError
from anyorder.models.block_cache import BlockCached
from anyorder.models.diffusion_lm import DiffusionLM

PAD, MASK, WORDS = 0, 3, 40
ROWS = ((5, 12), (2, 14), (9, 8), (1, 6))  # length of the prompt (masks alone would tie), length of the answer
KINDS = ("prefix", "dual")


class SelfMasked(hf.LlamaForCausalLM):
    """A model that is block-causal by its own code, whatever mask it is given: blocks of 4."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Any = None, **rest: Any) -> Any:
        own = torch.arange(input_ids.shape[1])[None] if position_ids is None else position_ids
        mask = attention_mask
        if mask.dim() == 2:
            mask = torch.zeros(len(mask), 1, 1, mask.shape[1]).masked_fill(mask[:, None, None] == 0, -1e30)
        later = torch.arange(mask.shape[-1]) // 4 > own[:, None, :, None] // 4
        return super().forward(
            input_ids=input_ids, attention_mask=mask.masked_fill(later, -1e30), position_ids=own, **rest
        )


def tiny(kind: type = hf.LlamaForCausalLM, config: type = hf.LlamaConfig, **changes: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    names = {"pad_token_id": PAD, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": WORDS}
    more = {"intermediate_size": 24, "max_position_embeddings": 40, "is_causal": False}
    model = kind(config(**(sizes | names | more | changes)))
    for parameter in model.requires_grad_(False).parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.3 if parameter.dim() > 1 else 0.1)
    return model.eval()


def canvas(rows: tuple[tuple[int, int], ...] = ROWS) -> Tensor:
    width = max(map(sum, rows))
    tokens = torch.randint(4, WORDS, (len(rows), width), generator=torch.Generator().manual_seed(1))
    for row, (prompt, answer) in enumerate(rows):
        tokens[row, prompt : prompt + answer] = MASK
        tokens[row, prompt + answer :] = PAD
    return tokens


def run(model: Model, tokens: Tensor, decoder: Decoder) -> Any:
    decoder = replace(decoder, symbols=Symbols(ban=(PAD,)))
    return decode(model, model.encode(None), begin(tokens, MASK, PAD), decoder)


def computed(model: Any) -> list[int]:
    """Filled with the number of tokens of every pass through the embeddings from here on."""
    passes: list[int] = []
    model.get_input_embeddings().register_forward_pre_hook(lambda _, inputs: passes.append(inputs[0].numel()))
    return passes


DECODERS = {
    "llada": recipes.llada(3, 4),
    "fast-dllm": recipes.fast_dllm(0.3, 4),
    "other blocks": recipes.fast_dllm(0.3, 6),  # not those of the cache
    "revisits": recipes.mask_predict(4),
}
BLOCK_CAUSAL: dict[str, Callable[[], DiffusionLM]] = {
    "llama": lambda: DiffusionLM(tiny(), MASK, PAD, block=4),
    "shifted": lambda: DiffusionLM(tiny(), MASK, PAD, shifted=True, block=4),
    "qwen2": lambda: DiffusionLM(tiny(hf.Qwen2ForCausalLM, hf.Qwen2Config, is_causal=True), MASK, PAD, block=2),
    "eager": lambda: DiffusionLM(tiny(attn_implementation="eager"), MASK, PAD, block=4),
    "by itself": lambda: DiffusionLM(tiny(SelfMasked), MASK, PAD),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BLOCK_CAUSAL)
def test_exact_for_block_causal_models(name: str, kind: Any) -> None:
    plain, tokens = BLOCK_CAUSAL[name](), canvas()
    cached = BlockCached(plain, 4, kind)
    assert isinstance(cached, Model) and cached.exact
    for decoder in DECODERS.values():
        expected, found = run(plain, tokens, decoder), run(cached, tokens, decoder)
        assert torch.equal(found.tokens, expected.tokens)
        torch.testing.assert_close(found.score, expected.score, atol=1e-3, rtol=0)
        assert found.cost == expected.cost


@pytest.mark.parametrize("kind", KINDS)
def test_states_stay_exact_under_any_change(kind: Any) -> None:
    plain = DiffusionLM(tiny(), MASK, PAD, shifted=True, block=4)
    cached, tokens, random = BlockCached(plain, 8, kind), canvas(), torch.Generator().manual_seed(2)
    context = cached.encode()
    for turn in range(12):
        rows = torch.randint(len(tokens), (4,), generator=random)
        tokens, context = tokens[rows].clone(), context.take(rows)
        change = (torch.rand(tokens.shape, generator=random) < 0.1) & (tokens != PAD)
        tokens[change] = torch.randint(3, WORDS, (int(change.sum()),), generator=random)
        at = (torch.rand(tokens.shape, generator=random) < 0.1) & (tokens != PAD)
        n, i = at.nonzero(as_tuple=True)
        expected = plain.hidden(NoContext(), tokens)
        torch.testing.assert_close(cached.hidden_at(context, tokens, n, i), expected[n, i], atol=1e-4, rtol=0)
        if turn % 3 == 0:
            real = tokens != PAD
            torch.testing.assert_close(cached.hidden(context, tokens)[real], expected[real], atol=1e-4, rtol=0)


def test_block_causal_attention_sees_its_block_and_those_before() -> None:
    model, tokens = DiffusionLM(tiny(), MASK, PAD, block=4), canvas(((0, 12),))
    before = model.hidden(NoContext(), tokens)[0]
    for column in range(12):
        other = tokens.clone()
        other[0, column] = 7
        changed = (model.hidden(NoContext(), other)[0] - before).abs().amax(-1) > 1e-6
        assert changed.tolist() == [i // 4 >= column // 4 for i in range(12)]
    with pytest.raises(ValueError, match="at least 2 columns, got 1"):
        DiffusionLM(tiny(), MASK, PAD, block=1)


def fast_dllm_loop(
    model: Any, tokens: Tensor, size: int, threshold: float, kind: str | None, shift: int
) -> tuple[list[int], float]:
    """Fast-dLLM for one row with a prompt in front, on the model itself: no engine, transformers' own cache."""
    y, start, total = tokens.clone(), int((tokens == MASK).nonzero()[0]), 0.0
    for s in range(start, len(y), size):
        e, cache = min(s + size, len(y)), hf.DynamicCache()
        a = s - shift  # the first column whose logits are needed
        output = model(input_ids=y[None], past_key_values=cache, use_cache=True).logits[0, a : e - shift]
        keep = [*range(a)] + ([*range(e, len(y))] if kind == "dual" else [])
        layers: list[Any] = cache.layers
        kept = [(layer.keys[:, :, keep], layer.values[:, :, keep]) for layer in layers]
        while True:
            output[:, [MASK, PAD]] = -torch.inf
            p, best = output.softmax(-1).max(-1)
            p[y[s:e] != MASK] = -1
            for i in {int(p.argmax()), *(p >= threshold).nonzero()[:, 0].tolist()}:
                y[s + i], total = best[i], total + float(p[i].log())
            if not (y[s:e] == MASK).any():
                break
            if kind is None:
                output = model(input_ids=y[None]).logits[0, a : e - shift]
                continue
            cache, end = hf.DynamicCache(), e if kind == "dual" else len(y)
            for layer, (k, v) in enumerate(kept):
                if keep:
                    cache.update(k, v, layer)
            mask = torch.ones(1, len(keep) + end - a, dtype=torch.long)
            places = torch.arange(a, end)[None]
            options = {"attention_mask": mask, "position_ids": places, "past_key_values": cache}
            output = model(input_ids=y[None, a:end], **options).logits[0, : e - s]
    return y.tolist(), total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shifted", [False, True])
def test_approximation_is_fast_dllms(kind: Any, shifted: bool) -> None:
    model, tokens = tiny(), canvas()
    cached = BlockCached(DiffusionLM(model, MASK, PAD, shifted=shifted), 4, kind, approximate=True)
    assert not cached.exact
    differs = 0
    for threshold, decoder in ((0.3, recipes.fast_dllm(0.3, 4)), (2.0, recipes.llada(4, 4))):
        found = run(cached, tokens, decoder)
        for row, (prompt, answer) in enumerate(ROWS):
            only = tokens[row, : prompt + answer]
            expected, total = fast_dllm_loop(model, only, 4, threshold, kind, int(shifted))
            assert found.tokens[row, : len(only)].tolist() == expected
            assert float(found.score[row]) == pytest.approx(total, abs=1e-3)
            assert (found.tokens[row, len(only) :] == PAD).all()
            differs += abs(fast_dllm_loop(model, only, 4, threshold, None, int(shifted))[1] - total) > 0.01
    assert differs >= 4  # it is an approximation, and this would notice if nothing were kept


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shifted", [False, True])
def test_approximation_whatever_the_batch(kind: Any, shifted: bool) -> None:
    cached = BlockCached(DiffusionLM(tiny(), MASK, PAD, shifted=shifted), 4, kind, approximate=True)
    tokens = canvas()
    tokens[0, 10], tokens[1, 15] = 8, 9  # fixed words inside: blocks count open positions
    for decoder in (recipes.llada(3, 4), recipes.fast_dllm(0.25, 4)):
        together = run(cached, tokens, decoder)
        for row, lengths in enumerate(ROWS):
            alone = run(cached, tokens[row : row + 1, : sum(lengths)], decoder)
            assert torch.equal(together.tokens[row, : sum(lengths)], alone.tokens[0])
            torch.testing.assert_close(together.score[row], alone.score[0], atol=1e-3, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_outside_the_block_is_a_full_pass(kind: Any) -> None:
    plain = DiffusionLM(tiny(), MASK, PAD)
    cached, tokens = BlockCached(plain, 4, kind, approximate=True), canvas(((4, 12), (4, 12)))
    context = cached.encode()
    cached.hidden(context, tokens)
    tokens[:, 5], tokens[1, 2] = 7, 11  # in the block; in the prompt of one row
    found, exact = cached.hidden(context, tokens), plain.hidden(NoContext(), tokens)
    torch.testing.assert_close(found[1], exact[1], atol=1e-4, rtol=0)
    assert (found[0] - exact[0]).abs().max() > 1e-3
    other = canvas(((2, 9), (3, 7)))  # another canvas in the same context
    real = other != PAD
    torch.testing.assert_close(cached.hidden(context, other)[real], plain.hidden(None, other)[real], atol=1e-4, rtol=0)


def test_taken_rows_keep_their_cache() -> None:
    model = tiny()
    cached, tokens = BlockCached(DiffusionLM(model, MASK, PAD), 4, "dual", approximate=True), canvas()
    context, rows = cached.encode(), torch.tensor([2, 0, 2])
    cached.hidden(context, tokens)
    passes, tokens = computed(model), tokens.clone()
    tokens[0, 6] = tokens[2, 10] = 7
    taken = cached.hidden(context.take(rows), tokens[rows])
    assert passes == [3 * 4]
    torch.testing.assert_close(taken, cached.hidden(context, tokens)[rows])
    assert passes[1:] == [4 * 4]


PROMPT, ANSWER, SIZE = 8, 16, 4


@pytest.mark.parametrize(
    ("block", "kind", "each"),
    [
        (None, "prefix", lambda s: [24] + [24 - s] * 3),  # all, then the block and what follows it
        (None, "dual", lambda s: [24] + [4] * 3),  # all, then the block
        (4, "prefix", lambda s: [24 if s == PROMPT else 24 - s + 4] + [24 - s] * 3),  # the block before is new too
        (4, "dual", lambda s: [12 if s == PROMPT else 8] + [4] * 3),
    ],
)
def test_tokens_computed(block: int | None, kind: Any, each: Callable[[int], list[int]]) -> None:
    """One symbol a step: 16 passes of 24 tokens without a cache."""
    model, tokens = tiny(), canvas(((PROMPT, ANSWER),))
    plain = DiffusionLM(model, MASK, PAD, block=block)
    cached, passes = BlockCached(plain, SIZE, kind, approximate=block is None), computed(model)
    run(plain, tokens, recipes.llada(SIZE, SIZE))
    assert passes == [PROMPT + ANSWER] * ANSWER
    passes.clear()
    run(cached, tokens, recipes.llada(SIZE, SIZE))
    assert passes == [n for s in range(PROMPT, PROMPT + ANSWER, SIZE) for n in each(s)]
    saved = (PROMPT + ANSWER) * ANSWER / sum(passes)
    print(f"\n{'block-causal' if block else 'bidirectional'}, {kind}: {saved:.2f} times fewer tokens")


def test_rows_in_different_blocks_do_not_widen_each_other() -> None:
    model, tokens = tiny(), canvas(((8, 16), (6, 18)))
    cached = BlockCached(DiffusionLM(model, MASK, PAD), 4, "dual", approximate=True)
    context, passes = cached.encode(), computed(model)
    cached.hidden(context, tokens)
    tokens[0, 8:11], tokens[1, 6:10] = 7, 7  # one stays in its block, the other moves on
    cached.hidden(context, tokens)
    tokens[0, 11], tokens[1, 10] = 7, 7  # and the other way round
    cached.hidden(context, tokens)
    assert passes == [2 * 24, 24, 4, 24, 4]


def test_what_does_not_fit_is_refused() -> None:
    plain = DiffusionLM(tiny(), MASK, PAD)
    with pytest.raises(ModelError, match=r"an approximation: say approximate=True"):
        BlockCached(plain, 4)
    for shifted in (False, True):
        with pytest.raises(ModelError, match="whose blocks fit into these"):
            BlockCached(DiffusionLM(tiny(), MASK, PAD, block=2, shifted=shifted), 5)
    with pytest.raises(ValueError, match="'prefix' or 'dual', not 'suffix'"):
        BlockCached(plain, 4, "suffix", approximate=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="whole number of at least 1"):
        BlockCached(plain, 0, approximate=True)
    cached = BlockCached(plain, 4, approximate=True)
    with pytest.raises(ModelError, match=r"41 tokens .* at most 40"):
        cached.hidden(cached.encode(), torch.full((1, 41), 7))
    with pytest.raises(ModelError, match="no source side"):
        cached.encode([[1]])

    near = tiny(hf.MistralForCausalLM, hf.MistralConfig, sliding_window=20)
    with pytest.raises(ModelError, match="sliding window of 20"):
        BlockCached(DiffusionLM(near, MASK, PAD), 4, approximate=True)
    with pytest.raises(ModelError, match="sliding window of 20"):
        DiffusionLM(near, MASK, PAD, block=4)

    class Forgetful(hf.LlamaForCausalLM):
        def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> Any:
            return super().forward(input_ids=input_ids, attention_mask=attention_mask)

    class Elsewhere(hf.LlamaForCausalLM):
        def forward(self, position_ids: Any = None, **rest: Any) -> Any:
            return super().forward(**rest, position_ids=torch.arange(rest["input_ids"].shape[1])[None])

    wrong: nn.Module
    for wrong, message in ((tiny(Forgetful), "takes no cache"), (tiny(Elsewhere), "states change")):
        with pytest.raises(ModelError, match=message):
            BlockCached(DiffusionLM(wrong, MASK, PAD), 4, approximate=True)
