"""torch.compile must not make a graph for each size of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anyorder.models.architecture import Architecture
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source, SpecialIds


def test_one_graph_for_all_sizes() -> None:
    """Two in all: one for every position of the target, one for some of them."""
    graphs: list[object] = []

    def keep(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch.manual_seed(0)
    model = MaskedTranslation(Architecture(50, 16, 2, 4, 32), SpecialIds(), ("de", "en")).eval()
    torch.compiler.reset()
    model.transformer.compile(dynamic=True, backend=keep)
    with torch.inference_mode():
        for rows, source, target in ((3, 9, 8), (4, 12, 11), (5, 7, 6), (2, 20, 15), (6, 8, 13)):
            context = model.encode(Source(torch.randint(5, 50, (rows, source)), 0, 1))
            tokens = torch.full((rows, target), model.mask_id)
            tokens[:, ::2] = 9
            model.hidden(context, tokens)
            n, i = (tokens == model.mask_id).nonzero(as_tuple=True)
            model.hidden_at(context, tokens, n, i)
    assert len(graphs) == 2
