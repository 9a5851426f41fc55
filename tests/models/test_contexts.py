"""Contexts that join: rows of different inputs and ages in one batch give what they give alone, on every model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers as hf
from support import joining
from torch import Tensor

from anyorder import recipes
from anyorder.core import Decoder, NoContext, Running, State, Symbols, beam, begin, decode
from anyorder.errors import ModelError
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive, CausalContext
from anyorder.models.block_cache import BlockCached
from anyorder.models.cmlm import ConditionalMasked
from anyorder.models.diffusion_lm import DiffusionLM, Guided
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.pretrained import PretrainedLM
from anyorder.models.transformer import Transformer
from anyorder.models.translation import Source, SpecialIds
from anyorder.native import Stack

KINDS = [MaskedTranslation, ConditionalMasked, Autoregressive, PretrainedLM]
SIZES = [(5, 7), (9, 4), (2, 11), (6, 6)]  # source and canvas
PAD, MASK, WORDS = 2, 4, 40


def make(kind: type) -> Any:
    torch.manual_seed(0)
    model = (
        kind(Architecture(WORDS, 16, 2, 4, 32, positions=24), SpecialIds(), ("de", "en")).eval().requires_grad_(False)
    )
    for p in model.parameters():  # a fresh model is close to symmetric: make differences visible
        p.add_(torch.randn_like(p) * 0.2)
    return model


def check(model: Any, alone: list[tuple[Any, State]], decoder: Decoder) -> None:
    decoder = replace(decoder, symbols=Symbols(ban=(0, PAD, 3)))
    ends = joining(model, [(context.take(torch.tensor([0])), state) for context, state in alone], decoder)
    for (context, state), end in zip(alone, ends, strict=True):
        one = decode(model, context, state, decoder)
        assert torch.equal(end.tokens[0, : one.tokens.shape[1]], one.tokens[0])
        torch.testing.assert_close(end.score, one.score, atol=1e-3, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_our_models(kind: type) -> None:
    model, words = make(kind), torch.Generator().manual_seed(1)
    alone = []
    for s, t in SIZES:
        source = torch.randint(5, WORDS, (1, s), generator=words)
        if kind is PretrainedLM:
            context, tokens = model.encode(torch.tensor([s % 2])), torch.cat([source, torch.full((1, t), MASK)], 1)
        else:
            context, tokens = model.encode(Source(source, s % 2, 1 - s % 2)), torch.full((1, t), MASK)
        alone.append((context, begin(tokens, MASK, PAD, seed=torch.tensor([s]))))
    causal = kind is Autoregressive
    for decoder in (
        [recipes.autoregressive(11, 1)] if causal else [recipes.easy_first, recipes.annealed(4), recipes.llada(3, 4)]
    ):
        check(model, alone, decoder)


def columns_run(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Rows and columns of every pass of the model's decoder from now on."""
    ran: list[tuple[int, ...]] = []
    run, one = Transformer.forward, Stack.column

    def counted(self: Transformer, tokens: Tensor, *rest: Any, **named: Any) -> Tensor:
        if self is model.decoder:
            ran.append(tuple(tokens.shape))
        return run(self, tokens, *rest, **named)

    def counted_column(self: Stack, x: Tensor, *rest: Any) -> Tensor:
        ran.append((len(x), 1))
        return one(self, x, *rest)

    monkeypatch.setattr(Transformer, "forward", counted)
    monkeypatch.setattr(Stack, "column", counted_column)
    return ran


def test_a_row_that_joins_makes_no_other_run_its_beginning_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(Autoregressive)
    ran = columns_run(model, monkeypatch)
    running = Running(model, recipes.autoregressive(11, 1))
    for sources in ([[7, 8, 9]], [[5, 6]], [[9, 9, 9, 9]]):
        context = model.encode(Source(torch.tensor(sources), 0, 1))
        running.join(context, begin(torch.full((1, 11), MASK), MASK, PAD))
        running.step()
        running.step()
    assert ran == [(1, 1), (1, 1), (2, 1), (2, 1), (3, 1), (3, 1)]


def test_a_beam_runs_each_column_of_its_hypotheses_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, words = make(Autoregressive), torch.Generator().manual_seed(4)
    context = model.encode(Source(torch.randint(5, WORDS, (3, 6), generator=words), 0, 1))
    state = begin(torch.full((3, 11), MASK), MASK, PAD)
    decoder = replace(recipes.autoregressive(11, 1), symbols=Symbols(ban=(0, PAD, 3)))
    ran = columns_run(model, monkeypatch)
    found = beam(model, context, state, decoder, 4)
    assert {columns for _, columns in ran} == {1}
    assert sum(rows for rows, _ in ran) == found.cost.canvases < 12 * 11  # hypotheses that have ended are not run

    def forgetful(self: CausalContext, rows: Tensor) -> CausalContext:
        return CausalContext(self.memory.take(rows), self.target_lang[rows])

    monkeypatch.setattr(CausalContext, "take", forgetful)
    again = beam(model, replace(context, seen=None), state, decoder, 4)
    assert max(columns for _, columns in ran) > 1
    assert torch.equal(again.tokens, found.tokens)
    torch.testing.assert_close(again.score, found.score)


def test_hypotheses_of_one_source_share_what_they_attend_to() -> None:
    model, words = make(Autoregressive), torch.Generator().manual_seed(5)
    memory = model.encode(Source(torch.randint(5, WORDS, (2, 6), generator=words), 0, 1)).memory
    beams = memory.take(torch.tensor([0, 0, 1, 1]))
    assert beams.take(torch.tensor([1, 0, 2, 2])).whole is beams.whole
    assert torch.equal(beams.take(torch.tensor([2, 0, 1, 3])).whole, memory.take(torch.tensor([1, 0, 0, 1])).whole)
    both = memory.join(memory)  # sources of one batch are not those of another, whatever their numbers were
    assert both.source.unique().tolist() == [0, 1, 2, 3]
    assert torch.equal(both.take(torch.tensor([2, 3, 0, 1])).whole, torch.cat([memory.whole, memory.whole], 2))


@pytest.mark.parametrize("kind", [MaskedTranslation, ConditionalMasked, Autoregressive])
def test_the_columns_of_a_long_source_leave_with_it(kind: type) -> None:
    model, decoder = make(kind), recipes.autoregressive(9, 1) if kind is Autoregressive else recipes.easy_first
    running = Running(model, decoder)
    for size in (3, 15):
        context = model.encode(Source(torch.full((1, size), 7), 0, 1))
        running.join(context, begin(torch.full((1, 9), MASK), MASK, PAD))
    wide = running.context.width
    running.step()
    running.only(torch.tensor([0]))
    assert wide == 17 and running.context.width == 5
    running.step()


def test_targets_that_end_differently_cannot_share_a_batch() -> None:
    for kind in (MaskedTranslation, ConditionalMasked):
        a, b = (make(kind).encode(Source(torch.tensor([[7, 8]]), 0, 1, close=close)) for close in (True, False))
        with pytest.raises(ValueError, match="cannot share a batch"):
            a.join(b)


# ---------------------------------------------------------------- diffusion language models


def tiny() -> Any:
    torch.manual_seed(0)
    model = hf.LlamaForCausalLM(
        hf.LlamaConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24,
            max_position_embeddings=40, is_causal=False, pad_token_id=PAD, bos_token_id=0, eos_token_id=1,
            vocab_size=WORDS,
        )
    )  # fmt: skip
    for parameter in model.requires_grad_(False).parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.3 if parameter.dim() > 1 else 0.1)
    return model.eval()


def canvases() -> list[Tensor]:
    words = torch.Generator().manual_seed(3)
    prompts = [torch.randint(5, WORDS, (1, s), generator=words) for s, _ in SIZES]
    return [torch.cat([p, torch.full((1, t), MASK)], 1) for p, (_, t) in zip(prompts, SIZES, strict=True)]


@pytest.mark.parametrize("kind", ["prefix", "dual"])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("shifted", [True, False])
def test_block_caches_are_kept(kind: Any, exact: bool, shifted: bool) -> None:
    """Of an approximate cache what was kept decides the result: it must be the row's own, whenever others come."""
    plain = DiffusionLM(tiny(), MASK, PAD, shifted=shifted, block=4 if exact else None)
    model = BlockCached(plain, 4, kind, approximate=not exact)
    alone = [(model.encode(), begin(tokens, MASK, PAD)) for tokens in canvases()]
    for decoder in (recipes.llada(3, 4), recipes.fast_dllm(0.25, 4)):
        check(model, alone, decoder)


def test_a_cache_that_is_joined_computes_no_more_than_the_newcomers() -> None:
    plain = DiffusionLM(tiny(), MASK, PAD, block=4)
    model, (a, b, *_) = BlockCached(plain, 4, "dual"), canvases()
    passes: list[int] = []
    plain.body.get_input_embeddings().register_forward_pre_hook(lambda _, inputs: passes.append(len(inputs[0])))
    context = model.encode()
    model.hidden(context, a)
    both = context.join(model.encode())
    passes.clear()
    model.hidden(both, torch.nn.functional.pad(torch.cat([a, torch.nn.functional.pad(b, (0, -1))]), (0, 1), value=PAD))
    assert passes == [1]
    with pytest.raises(ModelError, match="not the other way round"):
        model.encode().join(both)


def test_guidance_joins_where_each_row_has_its_prompt() -> None:
    inner, (a, b, *_) = DiffusionLM(tiny(), MASK, PAD), canvases()
    one, other = (Guided(inner, 0.7, (x != MASK)) for x in (a, b))
    with pytest.raises(ModelError, match="give \\(N, L\\)"):
        one.encode().join(other.encode())
    assert torch.equal(one.encode().join(one.encode()).prompt, one.prompt)
    contexts = [m.encode().take(torch.tensor([0])) for m in (one, other)]
    rows = [
        c.__class__(NoContext(), c.prompt.expand(2, -1)).join(c.__class__(NoContext(), c.prompt.expand(2, -1)))
        for c in contexts
    ]
    assert [len(c.prompt) for c in rows] == [4, 4]


def test_rows_that_leave_in_place_are_those_that_are_taken() -> None:
    model, words = make(Autoregressive), torch.Generator().manual_seed(2)
    context = model.encode(Source(torch.randint(5, WORDS, (5, 6), generator=words), 0, 1))
    tokens = torch.randint(5, WORDS, (5, 8), generator=words)
    tokens[:, 4:] = MASK
    with torch.inference_mode():
        model.hidden(context, tokens)  # fills the cache
        keep = torch.tensor([0, 4, 2])  # row 4 takes the place of row 1, row 3 leaves
        taken = model.hidden(context.take(keep), tokens[keep])
        again = context.only(keep)
        assert torch.equal(model.hidden(again, tokens[keep]), taken)
        tokens[keep, 4] = 7  # and the cache is still theirs
        fresh = model.encode(Source(torch.randint(5, WORDS, (5, 6), generator=torch.Generator().manual_seed(2)), 0, 1))
        torch.testing.assert_close(model.hidden(again, tokens[keep]), model.hidden(fresh.take(keep), tokens[keep]))


def test_a_context_of_which_all_rows_stay_is_still_the_others() -> None:
    model, words = make(Autoregressive), torch.Generator().manual_seed(6)
    context = model.encode(Source(torch.randint(5, WORDS, (4, 6), generator=words), 0, 1))
    before = context.memory.whole.clone()
    running = Running(model, recipes.autoregressive(9, 1))
    running.join(context, begin(torch.full((4, 9), MASK), MASK, PAD))
    for keep in ([0, 1, 2, 3], [0, 3]):  # nobody leaves, then row 3 takes the place of row 1
        running.only(torch.tensor(keep))
    assert torch.equal(running.context.memory.whole, before[:, :, [0, 3]])
    assert torch.equal(context.memory.whole, before)


def test_a_context_that_others_hold_is_left_as_it_is() -> None:
    model, words = make(Autoregressive), torch.Generator().manual_seed(3)
    context = model.encode(Source(torch.randint(5, WORDS, (4, 6), generator=words), 0, 1))
    before = context.memory.whole.clone()
    symbols = Symbols(ban=(0, PAD, 3))
    decoder = replace(recipes.autoregressive(0, 1), symbols=symbols)
    first = decode(model, context, begin(torch.full((4, 9), MASK), MASK, PAD), decoder)
    assert torch.equal(context.memory.whole, before)
    assert torch.equal(decode(model, context, begin(torch.full((4, 9), MASK), MASK, PAD), decoder).tokens, first.tokens)
