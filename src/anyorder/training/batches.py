"""Batches of tokenised text: bucketed by length under a token budget, the same for a same seed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def one_epoch(
    sizes: Tensor,  # (N,) the tokens that example i costs
    keys: Tensor,  # (N,) int64: examples are bucketed by this
    budget: int,  # tokens per batch, padding included
    generator: torch.Generator,
    sentences: int | None = None,  # at most that many examples per batch
) -> list[Tensor]:
    """One epoch: every example once, like keys together, in batches of at most `budget` tokens, shuffled."""
    order = torch.randperm(len(sizes), generator=generator)
    order = order[torch.sort(keys[order], stable=True).indices]
    cost = sizes[order].tolist()
    cuts, start, widest = [], 0, 0
    for i, size in enumerate(cost):
        widest = max(widest, size)
        if i > start and (widest * (i - start + 1) > budget or (sentences and i - start >= sentences)):
            cuts.append(order[start:i])
            start, widest = i, size
    if cost:
        cuts.append(order[start:])
    shuffle = torch.randperm(len(cuts), generator=generator).tolist()
    return [cuts[i] for i in shuffle]


def epochs(
    sizes: Tensor, keys: Tensor, budget: int, seed: int, start: tuple[int, int] = (0, 0), sentences: int | None = None
) -> Iterator[tuple[int, int, Tensor]]:
    """Endless (epoch, batch index, rows), from `start` on: the whole order follows from `seed` alone."""
    if not len(sizes):
        raise ValueError("there is nothing to train on: no example is left")
    epoch, first = start
    while True:
        cuts = one_epoch(sizes, keys, budget, torch.Generator().manual_seed(seed * 1_000_003 + epoch), sentences)
        for i in range(first, len(cuts)):
            yield epoch, i, cuts[i]
        epoch, first = epoch + 1, 0
