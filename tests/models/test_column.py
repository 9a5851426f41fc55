"""A further column, in few operations, is the column that the whole decoder computes."""

from __future__ import annotations

import copy

import pytest
import torch

from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
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
    run = Autoregressive._column
    monkeypatch.setattr(Autoregressive, "_column", lambda *a: ran.append(len(a[3])) or run(*a))
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
