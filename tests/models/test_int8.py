"""int8 is close to float32, and only asked-for positions are computed in it too."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyorder.errors import ModelError
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.layout import as_read, to_int8
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source, SpecialIds
from anyorder.native import InPanels, InSteps, Stack, kernels, using

needs_kernels = pytest.mark.skipif(kernels() is None, reason="no kernels were compiled, or not for this machine")


def test_without_kernels_int8_is_refused() -> None:
    model = Autoregressive(Architecture(208, 32, 2, 4, 64), SpecialIds(), ("de", "en"))
    with using(None), pytest.raises(ModelError, match="leave int8 out"):
        to_int8(model)


@needs_kernels
@pytest.mark.parametrize("kind", [MaskedTranslation, Autoregressive])
def test_int8_is_close(kind: type) -> None:
    torch.manual_seed(0)
    model = kind(Architecture(200, 32, 2, 4, 64), SpecialIds(), ("de", "en")).eval()
    rounded = to_int8(model)
    source, tokens = torch.randint(5, 200, (4, 6)), torch.randint(5, 200, (4, 7))
    with torch.inference_mode():
        exact = model.logits(model.hidden(model.encode(Source(source, 0, 1)), tokens))
        close = rounded.logits(rounded.hidden(rounded.encode(Source(source, 0, 1)), tokens))
    error = (exact - close).abs().max()
    assert 0 < error < 0.15 * exact.std()  # it is another arithmetic, and a close one


@needs_kernels
def test_int8_reads_some_positions_only() -> None:
    torch.manual_seed(0)
    model = to_int8(MaskedTranslation(Architecture(208, 32, 2, 4, 64), SpecialIds(), ("de", "en")))
    source, tokens = torch.randint(5, 200, (3, 6)), torch.full((3, 7), 4)
    n, i = torch.tensor([0, 0, 2]), torch.tensor([1, 4, 6])
    with torch.inference_mode():
        context = model.encode(Source(source, 0, 1))
        some, whole = model.hidden_at(context, tokens, n, i), model.hidden(context, tokens)[n, i]
    torch.testing.assert_close(some, whole, atol=0.05, rtol=0.05)  # another batch is rounded with another scale


@needs_kernels
@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("laid", [False, True])
@torch.inference_mode()
def test_int8_goes_on_column_by_column(rows: int, laid: bool) -> None:
    torch.manual_seed(0)
    model = Autoregressive(Architecture(208, 32, 2, 4, 64), SpecialIds(), ("de", "en")).eval().requires_grad_(False)
    rounded = to_int8(as_read(model) if laid else model)
    source, target = Source(torch.randint(5, 200, (rows, 6)), 0, 1), torch.randint(5, 200, (rows, 5))
    context = rounded.encode(source)
    for known in range(5):
        tokens = torch.where(torch.arange(5) < known, target, rounded.mask_id)
        states = rounded.hidden(context, tokens)[:, known]
        exact = model.states(model.encode(source), target)[:, known]
        assert 0 < float((states - exact).abs().max()) < 0.15


def linear(inputs: int, outputs: int) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs).requires_grad_(False)


@needs_kernels
@pytest.mark.parametrize("rows", [1, 3, 4, 130])
@pytest.mark.parametrize("inputs", [8, 24, 520])
@torch.inference_mode()
def test_a_map_in_steps_is_the_product_of_whole_numbers(inputs: int, rows: int) -> None:
    plain = linear(inputs, 48)
    ours, x = InSteps.of(plain), torch.cat([torch.randn(rows, inputs), torch.zeros(1, inputs)])
    steps = x.abs().amax(1).clamp_min(1e-30).double() / 63, plain.weight.abs().amax(1).double() / 63
    qx, qw = (x / steps[0][:, None]).round(), (plain.weight / steps[1][:, None]).round()
    expected = (qx @ qw.T) * steps[0][:, None] * steps[1] + plain.bias
    torch.testing.assert_close(ours(x), expected.float(), rtol=1e-5, atol=1e-5)
    assert 0 < float((ours(x) - plain(x)).abs().max()) < 0.1
    assert torch.equal(ours(x)[-1], plain.bias)  # of nothing, the biases are left
    assert torch.equal(ours.part(x, 16, 32), ours(x)[:, 16:32])
    assert all(torch.equal(ours(x[r : r + 1])[0], ours(x)[r]) for r in range(rows + 1))  # alone or among others


@needs_kernels
@torch.inference_mode()
def test_what_is_no_number_is_seen_in_steps_too() -> None:
    ours, x = InSteps.of(linear(24, 32)), torch.randn(4, 24)
    x[1, 20], x[2, 3] = torch.nan, torch.inf
    assert ours(x).isfinite().all(1).tolist() == [True, False, False, True]


@needs_kernels
@pytest.mark.parametrize("kind", [MaskedTranslation, Autoregressive])
@torch.inference_mode()
def test_results_by_kernels_do_not_depend_on_the_batch(kind: type) -> None:
    torch.manual_seed(0)
    model = to_int8(kind(Architecture(208, 32, 2, 4, 64), SpecialIds(), ("de", "en")))
    source, tokens = torch.randint(5, 200, (5, 6)), torch.randint(5, 200, (5, 7))
    together = model.hidden(model.encode(Source(source, 0, 1)), tokens)
    for r in range(5):
        alone = model.hidden(model.encode(Source(source[r : r + 1], 0, 1)), tokens[r : r + 1])
        assert torch.equal(alone[0], together[r])


@needs_kernels
@torch.inference_mode()
def test_all_layers_in_one_call_are_the_layers_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = to_int8(Autoregressive(Architecture(208, 32, 2, 4, 64), SpecialIds(), ("de", "en")))
    kinds = {type(m) for m in model.modules() if isinstance(m, nn.Linear)}
    assert kinds == {InSteps, InPanels} and Stack.of(model.encoder) is not None  # the head is as it was
    source, tokens = Source(torch.randint(5, 200, (5, 6)), 0, 1), torch.randint(5, 200, (5, 7))
    whole = model.states(model.encode(source), tokens)
    monkeypatch.setattr(Stack, "of", lambda transformer: None)
    torch.testing.assert_close(model.states(model.encode(source), tokens), whole, atol=0.05, rtol=0.0)


@needs_kernels
@torch.inference_mode()
def test_sizes_that_are_not_for_whole_numbers_stay_as_they_are() -> None:
    torch.manual_seed(0)
    model = Autoregressive(Architecture(208, 32, 2, 4, 64), SpecialIds(), ("de", "en"))
    model.decoder.ffns[0].lin1.weight.data[3, 3] = torch.inf
    kept = to_int8(model).decoder.ffns
    assert [type(ffn.lin1) for ffn in kept] == [InPanels, InSteps]
