"""Texts of one source scored as a tree of prefixes: as each alone, at fewer columns."""

from __future__ import annotations

import pytest
import torch

from anyorder.core import begin, token_scores
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.layout import as_read
from anyorder.models.prefix_tree import Tree, log_probs
from anyorder.models.translation import Source, SpecialIds

TEXTS = [[[7, 8, 9, 1], [7, 8, 1], [7, 9, 9, 9, 1], [7, 8, 9, 1]], [[12, 1]], [[5, 6, 1], [6, 1]]]


@pytest.mark.parametrize("laid", [False, True])
def test_texts_in_a_tree_have_the_scores_they_have_alone(laid: bool) -> None:
    torch.manual_seed(0)
    model = Autoregressive(Architecture(40, 16, 2, 2, 32, positions=16), SpecialIds(), ("de", "en"))
    model = model.eval().requires_grad_(False)
    model = as_read(model) if laid else model
    sources = torch.tensor([[9, 8, 7], [10, 2, 2], [11, 12, 2]])
    trees = [Tree.of(some, 1) for some in TEXTS]
    assert [len(tree.symbols) for tree in trees] == [7, 2, 4]
    with torch.inference_mode():
        found = log_probs(model, model.encode(Source(sources, 0, 1)), trees, TEXTS)
    for n, (some, mine) in enumerate(zip(TEXTS, found, strict=True)):
        source = sources[n : n + 1][:, sources[n] != 2]
        for text, values in zip(some, mine, strict=True):
            tokens = torch.tensor([text])
            state = begin(tokens, 4, 2, open=torch.ones_like(tokens, dtype=torch.bool))
            alone = token_scores(model, model.encode(Source(source, 0, 1)), state, masked=False)
            torch.testing.assert_close(values, alone[0], rtol=1e-4, atol=1e-4)
