"""Several texts of one source through a causal model at once: what they begin with alike is run once.

The columns of a row are the nodes of the tree of prefixes of its texts. Each sees its ancestors, at its own depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.models.translation import check_length

ROWS = 256  # of logits that are held at once
NEVER = -1e30


class Tree(NamedTuple):
    """The prefixes of some texts; node 0 is the empty one."""

    symbols: list[int]  # that each node ends in; of node 0 any
    parents: list[int]
    depths: list[int]
    paths: list[list[int]]  # of each text: the node before each of its symbols

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], start: int) -> Tree:
        """The tree of these texts, whose last symbols have no node: nothing comes after them."""
        symbols, parents, depths, paths = [start], [0], [0], []
        known: dict[tuple[int, int], int] = {}
        for text in texts:
            node, path = 0, []
            for symbol in text:
                path.append(node)
                child = known.get((node, symbol))
                if child is None and len(path) < len(text):
                    child = known[node, symbol] = len(symbols)
                    symbols.append(symbol)
                    parents.append(node)
                    depths.append(len(path))
                node = node if child is None else child
            paths.append(path)
        return cls(symbols, parents, depths, paths)


def log_probs(
    model: Any, context: Any, trees: Sequence[Tree], texts: Sequence[Sequence[Sequence[int]]]
) -> list[list[Tensor]]:
    """log p of each symbol of each text, given those before it; one row of the context for each tree."""
    width, device = max(len(tree.symbols) for tree in trees), model.decoder.proj_bias.device
    check_length(1 + max(max(tree.depths) for tree in trees), model.architecture.positions, "a target")

    def rows(name: str) -> Tensor:
        each = [getattr(tree, name) for tree in trees]
        return torch.tensor([[*x, *[0] * (width - len(x))] for x in each], device=device)

    symbols, parents, depths = rows("symbols"), rows("parents"), rows("depths")  # (N, C) each
    sight = torch.eye(width, dtype=torch.bool, device=device).repeat(len(trees), 1, 1)  # (N, C, C)
    above = parents
    for _ in range(int(depths.max())):
        sight.scatter_(2, above[:, :, None], True)
        above = parents.gather(1, above)
    mask = sight[:, None]
    states: Tensor = model.decoder(symbols, depths, context.target_lang, mask, memory=context.memory)  # (N, C, D)
    sizes = [len(tree.symbols) for tree in trees]
    real = torch.arange(width, device=device) < torch.tensor(sizes, device=device)[:, None]
    hidden, first = states[real], [0, *torch.tensor(sizes).cumsum(0).tolist()]  # (M, D)
    node = [first[n] + k for n, tree in enumerate(trees) for path in tree.paths for k in path]
    said = [symbol for some in texts for text in some for symbol in text]
    values = _at(model, hidden, torch.tensor(node, device=device), torch.tensor(said, device=device)).cpu()
    each = iter(values.split([len(text) for some in texts for text in some]))  # type: ignore[no-untyped-call]
    return [[next(each) for _ in some] for some in texts]


def _at(model: Any, hidden: Tensor, row: Tensor, symbol: Tensor) -> Tensor:
    """log p of symbols (E,) in states `row` (E,) of hidden (M, D)."""
    known = model.best(hidden, symbol.new_zeros(0), NEVER)
    if known is not None:  # the sum over the vocabulary is known without its logits
        weight, bias = model.decoder.embeddings.weight, model.decoder.proj_bias
        value: Tensor = (hidden[row] * weight[symbol]).sum(1) + bias[symbol] - known.log_sum[row]
        return value
    out = hidden.new_empty(len(row))
    for start in range(0, len(hidden), ROWS):
        here = ((row >= start) & (row < start + ROWS)).nonzero()[:, 0]
        logp = torch.log_softmax(model.logits(hidden[start : start + ROWS]), 1)
        out[here] = logp[row[here] - start, symbol[here]]
    return out
