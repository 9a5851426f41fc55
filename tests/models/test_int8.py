"""int8 is close to float32, and only asked-for positions are computed in it too."""

from __future__ import annotations

import pytest
import torch

from anyorder.models import int8
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.int8 import quantise, to_int8
from anyorder.models.layout import as_read
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source, SpecialIds


@pytest.mark.parametrize("tiles", [True, False])
@pytest.mark.parametrize("kind", [MaskedTranslation, Autoregressive])
def test_int8_is_close(kind: type, tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiles and not int8.tiles_work():
        pytest.skip("this machine announces matrix tiles and ends the process that uses them")
    monkeypatch.setattr(int8, "tiles_work", lambda: tiles)
    torch.manual_seed(0)
    model = kind(Architecture(200, 32, 2, 4, 64), SpecialIds(), ("de", "en")).eval()
    rounded = to_int8(model)
    source, tokens = torch.randint(5, 200, (4, 6)), torch.randint(5, 200, (4, 7))
    with torch.inference_mode():
        exact = model.logits(model.hidden(model.encode(Source(source, 0, 1)), tokens))
        close = rounded.logits(rounded.hidden(rounded.encode(Source(source, 0, 1)), tokens))
    error = (exact - close).abs().max()
    assert 0 < error < 0.15 * exact.std()  # it is another arithmetic, and a close one


def test_int8_reads_some_positions_only() -> None:
    torch.manual_seed(0)
    model = to_int8(MaskedTranslation(Architecture(200, 32, 2, 4, 64), SpecialIds(), ("de", "en")))
    source, tokens = torch.randint(5, 200, (3, 6)), torch.full((3, 7), 4)
    n, i = torch.tensor([0, 0, 2]), torch.tensor([1, 4, 6])
    with torch.inference_mode():
        context = model.encode(Source(source, 0, 1))
        some, whole = model.hidden_at(context, tokens, n, i), model.hidden(context, tokens)[n, i]
    torch.testing.assert_close(some, whole, atol=0.05, rtol=0.05)  # another batch is rounded with another scale


def test_a_large_product_does_not_end_the_process() -> None:
    """oneDNN takes tiles for it where the processor claims to have them: on some virtual machines it has none."""
    linear, rows = torch.nn.Linear(256, 1024), torch.randn(30, 256)
    with torch.inference_mode():
        torch.testing.assert_close(quantise(linear)(rows), linear(rows), atol=0.1, rtol=0.1)


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
