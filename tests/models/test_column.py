"""A further column, in few operations, is the column that the whole decoder computes."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.column import Column, by_products, fused
from anyorder.models.layers import gelu
from anyorder.models.memory import unseen
from anyorder.models.translation import Source, SpecialIds

PAD, MASK = 2, 4


def make(norm: str, act: str) -> Autoregressive:
    torch.manual_seed(0)
    architecture = Architecture(30, 16, 2, 4, 24, positions=24, norm=norm, gelu=act)
    return Autoregressive(architecture, SpecialIds(0, 1, PAD, 3, MASK), ("de", "en")).double().eval()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("act", ["erf", "tanh"])
@pytest.mark.parametrize("lengths", [[5], [5, 5, 5], [5, 2, 7], [5, 5, 5, 5, 5], [1, 6, 3, 3, 7, 2]])
@torch.inference_mode()
def test_states_are_those_of_one_pass(norm: str, act: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = make(norm, act), len(lengths)
    sources = torch.full((rows, 6), PAD)
    for n in range(rows):  # sources of different lengths where there are several rows
        sources[n, : 6 - n % 3] = torch.randint(5, 30, (6 - n % 3,))
    target = torch.randint(5, 30, (rows, 8))
    ran: list[int] = []
    run = Column.__call__
    monkeypatch.setattr(Column, "__call__", lambda self, x, *rest: ran.append(len(x)) or run(self, x, *rest))
    context = model.encode(Source(sources, 0, 1))
    for behind in (2, 1, 0):  # each step one symbol more, each row as far as it is
        tokens = torch.full_like(target, MASK)
        for n, length in enumerate(lengths):
            tokens[n, : max(0, length - behind)] = target[n, : max(0, length - behind)]
        found = model.hidden(context, tokens)
    assert rows in ran
    whole = model.states(model.encode(Source(sources, 0, 1)), target)
    for n, length in enumerate(lengths):
        torch.testing.assert_close(found[n, : length + 1], whole[n, : length + 1])


@torch.inference_mode()
def test_a_copy_and_changed_weights_are_looked_up_anew() -> None:
    model = make("post", "erf")
    source, tokens = Source(torch.tensor([[7, 8]]), 0, 1), torch.full((1, 4), MASK)
    before = model.hidden(model.encode(source), tokens)
    other = copy.deepcopy(model)
    for linear in [m for m in other.modules() if isinstance(m, torch.nn.Linear)]:
        linear.weight.data = linear.weight * 2
    assert not torch.equal(other.hidden(other.encode(source), tokens), before)
    assert torch.equal(model.hidden(model.encode(source), tokens), before)
    model.load_state_dict(other.state_dict())
    torch.testing.assert_close(
        model.hidden(model.encode(source), tokens), other.hidden(other.encode(source), tokens), rtol=0, atol=0
    )


@pytest.mark.parametrize("masked", [False, True])
def test_attention_by_products_is_attention(masked: bool) -> None:
    torch.manual_seed(0)
    q, whole = torch.randn(20, 12), torch.randn(3, 2, 20, 2, 9, 6)
    k, v = whole[1][..., :7, :].unbind()  # as a cache gives them: the first columns of what there is room for
    seen = torch.arange(7) < torch.randint(1, 8, (20, 1)) if masked else None
    added = None if seen is None else unseen(seen, whole)
    flat = [x.reshape(1, 40, 7, 6) for x in (k, v)]
    mask = None if seen is None else seen[:, None, None]
    expected = F.scaled_dot_product_attention(q.view(20, 2, 1, 6), k, v, attn_mask=mask)
    torch.testing.assert_close(by_products(40, 6)(q, *flat, added), expected.view(20, 12))
    if not masked:
        torch.testing.assert_close(fused(40, 6)(q, *flat, None), expected.view(20, 12))


@torch.inference_mode()
def test_gelu_of_few_numbers_is_that_of_many() -> None:
    few = torch.linspace(-8, 8, 1000)
    many = few.repeat(40)
    torch.testing.assert_close(gelu(few, "none"), gelu(many, "none")[:1000], rtol=0, atol=1e-6)
    torch.testing.assert_close(gelu(few, "tanh"), gelu(many, "tanh")[:1000], rtol=0, atol=1e-6)
