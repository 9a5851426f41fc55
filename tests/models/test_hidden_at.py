"""`hidden_at` computes the states that were asked for, and only saves work: they equal those of `hidden`."""

from __future__ import annotations

import pytest
import torch

from anyorder.models.architecture import Architecture
from anyorder.models.cmlm import ConditionalMasked
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source, SpecialIds


@pytest.mark.parametrize(
    ("kind", "forwards"), [(MaskedTranslation, False), (ConditionalMasked, False), (ConditionalMasked, True)]
)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_hidden_at_is_hidden(kind: type, forwards: bool, norm: str) -> None:
    torch.manual_seed(0)
    model = kind(Architecture(50, 16, 3, 4, 32, norm=norm, forwards=forwards), SpecialIds(), ("de", "en")).eval()
    source = torch.randint(5, 50, (3, 6))
    source[1, 4:] = model.pad_id
    tokens = torch.full((3, 7), model.mask_id)
    tokens[0, 2], tokens[2, 5:] = 9, model.pad_id
    at = torch.zeros(3, 7, dtype=torch.bool)
    at[0, [0, 2, 6]] = at[2, 3] = True  # three in one row, none in another, one in the last
    n, i = at.nonzero(as_tuple=True)
    with torch.inference_mode():
        context = model.encode(Source(source, 0, 1))
        torch.testing.assert_close(model.hidden_at(context, tokens, n, i), model.hidden(context, tokens)[n, i])
        if kind is MaskedTranslation:  # whose `hidden` leaves out the source in the last layer
            whole = model.states(context, tokens)[:, 9:16]
            torch.testing.assert_close(model.hidden(context, tokens), whole)
