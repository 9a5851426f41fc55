"""Tokenised text in memory, and batches of it: bucketed by length under a token budget, the same for a same seed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, end to end."""

    flat: Tensor  # (Σ lengths,) int32
    starts: Tensor  # (N,) int64
    lengths: Tensor  # (N,) int64

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        flat, lengths = array("i"), array("q")
        for row in rows:
            flat.extend(row)
            lengths.append(len(row))
        flat.append(0)  # one spare, so that any index may be read
        length = torch.tensor(lengths, dtype=torch.int64)
        return cls(torch.frombuffer(flat, dtype=torch.int32), length.cumsum(0) - length, length)

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of several, one after the other."""
        ends = torch.tensor([0, *(len(p.flat) for p in parts)]).cumsum(0)
        starts = torch.cat([p.starts + end for p, end in zip(parts, ends[:-1], strict=True)])
        return cls(torch.cat([p.flat for p in parts]), starts, torch.cat([p.lengths for p in parts]))

    def __len__(self) -> int:
        return len(self.lengths)

    def some(self, rows: Tensor) -> Ragged:
        """These rows (N',) only; what they hold is not copied."""
        return Ragged(self.flat, self.starts[rows], self.lengths[rows])

    def row(self, i: int) -> list[int]:
        start = int(self.starts[i])
        rows: list[int] = self.flat[start : start + int(self.lengths[i])].tolist()
        return rows

    def padded(self, rows: Tensor, pad: int) -> tuple[Tensor, Tensor]:
        """Rows (B,) → tokens (B, W) int64 with `pad` after each end, and lengths (B,)."""
        lengths = self.lengths[rows]
        columns = torch.arange(int(lengths.max()) if len(lengths) else 0)
        index = (self.starts[rows, None] + columns).clamp_(max=len(self.flat) - 1)
        return torch.where(columns < lengths[:, None], self.flat[index].long(), pad), lengths


def batches(
    sizes: Tensor,  # (N,) the tokens that example i costs
    keys: Tensor,  # (N,) int64: examples are bucketed by this
    budget: int,  # tokens a batch, padding included
    generator: torch.Generator,
    sentences: int | None = None,  # at most so many examples a batch
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
        cuts = batches(sizes, keys, budget, torch.Generator().manual_seed(seed * 1_000_003 + epoch), sentences)
        for i in range(first, len(cuts)):
            yield epoch, i, cuts[i]
        epoch, first = epoch + 1, 0
