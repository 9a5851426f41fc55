"""The autoregressive model within a conditional masked one: behind a beginning they are one model, elsewhere not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.cmlm import ConditionalMasked, sight
from anyorder.models.translation import Source, SpecialIds

SIZES = Architecture(40, 16, 3, 4, 32, positions=20)
PAD, MASK = SpecialIds().pad, SpecialIds().mask


def models() -> tuple[ConditionalMasked, Autoregressive]:
    torch.manual_seed(0)
    causal = Autoregressive(SIZES, SpecialIds(), ("de", "en")).eval().requires_grad_(False)
    for p in causal.parameters():  # a fresh model is close to symmetric: make differences visible
        p.add_(torch.randn_like(p) * 0.2)
    grown = ConditionalMasked(replace(SIZES, forwards=True), SpecialIds(), ("de", "en")).eval().requires_grad_(False)
    grown.start_from(causal.encoder, causal.decoder)
    return grown, causal


def texts() -> tuple[Source, Tensor]:
    source, target = torch.randint(5, 40, (3, 6)), torch.randint(5, 40, (3, 8))
    source[1, 4:], target[2, 5:] = PAD, PAD
    return Source(source, 0, 1, close=False), target


def test_behind_a_beginning_it_is_the_autoregressive_model() -> None:
    grown, causal = models()
    source, target = texts()
    expected = causal.states(causal.encode(source), target)  # (N, L, D)
    context = grown.encode(source)
    for i in range(8):
        tokens = torch.where((torch.arange(8) >= i) & target.ne(PAD), MASK, target)
        here = target[:, i].ne(PAD)
        torch.testing.assert_close(grown.hidden(context, tokens)[here, i], expected[here, i])
    torch.testing.assert_close(grown.forwards.states(grown.forwards.encode(source), target), expected)


@pytest.mark.parametrize("change", ["a symbol after the next", "the end"])
def test_elsewhere_it_sees_what_is_on_the_right(change: str) -> None:
    grown, _ = models()
    source, target = texts()
    tokens = torch.where((torch.arange(8) >= 3) & target.ne(PAD), MASK, target)
    context, more = grown.encode(source), tokens.clone()
    before = grown.hidden(context, tokens)[:, 3]
    if change == "the end":
        context = replace(context, close=True)
    else:
        more[:, 4] = 7
    assert (grown.hidden(context, more)[:, 3] - before).abs().amax(1).min() > 1e-3


def test_what_a_column_sees() -> None:
    tokens = torch.tensor([[1, 8, MASK, 9, 7, PAD]])  # </s> a _ b c, one column of padding
    seen = sight(tokens, tokens.ne(PAD), MASK)[0, 0].int().tolist()
    assert seen[0] == [1, 0, 0, 0, 0, 0]  # the next one is written: what is on its left
    assert seen[1] == [1, 1, 0, 1, 1, 0]  # the masked symbol is read off it: all that is written
    assert seen[2] == [1, 1, 1, 1, 1, 0]  # a masked column sees all
    assert seen[3] == [1, 1, 0, 1, 0, 0]
    assert seen[4] == [1, 1, 0, 1, 1, 0]


def test_its_weights_are_the_same_ones() -> None:
    grown, _ = models()
    names = set(grown.state_dict())
    assert grown.forwards is grown.forwards and set(grown.state_dict()) == names  # nothing is saved twice
    mine: Any = grown.forwards.decoder.embeddings.weight
    assert mine is grown.decoder.embeddings.weight


def test_a_model_without_it_contains_none() -> None:
    plain = ConditionalMasked(SIZES, SpecialIds(), ("de", "en"))
    assert plain.forwards is None and plain.order == "left2right"
