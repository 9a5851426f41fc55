"""How weights lie in memory changes nothing but rounding."""

from __future__ import annotations

import copy

import pytest
import torch

from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.cmlm import ConditionalMasked
from anyorder.models.layout import as_read
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source, SpecialIds
from anyorder.native import using

KINDS = [Autoregressive, ConditionalMasked, MaskedTranslation]


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_without_kernels_is_the_same_function(kind: type) -> None:
    torch.manual_seed(0)
    plain = kind(Architecture(40, 16, 2, 2, 24), SpecialIds(), ("de", "en")).eval().requires_grad_(False)
    with using(None):
        other = as_read(copy.deepcopy(plain))
    source, tokens = Source(torch.randint(5, 40, (3, 6)), 0, 1), torch.randint(5, 40, (3, 7))
    expected, found = (m.hidden(m.encode(source), tokens) for m in (plain, other))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(other.logits(found[0]), plain.logits(expected[0]))
    linear = [m for m in other.modules() if isinstance(m, torch.nn.Linear)]
    assert linear and all(m.weight.t().is_contiguous() for m in linear)
