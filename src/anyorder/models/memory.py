"""Keys and values that are kept: of an encoded source for a decoder, of its first columns for a causal one.

Those of all layers are one tensor, so that rows join and leave by one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.core.ragged import joined, used, widened


@dataclass
class Memory:
    """What a decoder attends to: keys and values of its layers, and which of the S columns are real."""

    whole: Tensor  # (N, layers, 2, H, S, D/H)
    mask: Tensor | None  # (N, 1, 1, S) bool

    @classmethod
    def of(cls, layers: Sequence[tuple[Tensor, Tensor]], mask: Tensor | None) -> Memory:
        """From a pair of keys and values (N, H, S, D/H) per layer."""
        return cls(torch.stack([torch.stack(pair, 1) for pair in layers], 1), mask)

    def layer(self, i: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, (N, H, S, D/H) each."""
        return self.whole[:, i, 0], self.whole[:, i, 1]

    def take(self, rows: Tensor) -> Memory:
        """These rows."""
        return Memory(self.whole.index_select(0, rows), None if self.mask is None else self.mask[rows])

    @property
    def width(self) -> int:
        """Columns, with padding."""
        return self.whole.shape[4]

    def trim(self) -> Memory:
        """Without the columns that are padding in every row."""
        if self.mask is None:
            return self
        width = used(self.mask[:, 0, 0])
        return Memory(self.whole[..., :width, :], self.mask[..., :width])

    def join(self, *others: Memory) -> Memory:
        """These rows, then the others'; the padding of shorter ones is not seen."""
        all_ = (self, *others)
        masks = [
            m.whole.new_ones(len(m.whole), 1, 1, m.width, dtype=torch.bool) if m.mask is None else m.mask for m in all_
        ]
        mask = joined(masks)
        return Memory(joined([m.whole for m in all_]), None if bool(mask.all()) else mask)


@dataclass
class Cache:
    """Keys and values of a causal decoder's columns. Rows may be at any column."""

    whole: Tensor  # (N, layers, 2, H, L, D/H)

    def take(self, rows: Tensor) -> Cache:
        """These rows."""
        return Cache(self.whole.index_select(0, rows))

    def join(self, *others: Cache) -> Cache:
        """These rows, then the others'."""
        return Cache(joined([c.whole for c in (self, *others)]))

    def nothing(self, rows: int) -> Cache:
        """That many rows of which no column is known."""
        return Cache(self.whole.new_zeros(rows, *self.whole.shape[1:4], 0, self.whole.shape[5]))

    def widened(self, width: int) -> Cache:
        """Room for that many columns."""
        return Cache(widened(self.whole, (*self.whole.shape[1:4], width, self.whole.shape[5])))

    def trim(self, width: int) -> Cache:
        """The first that many columns."""
        return Cache(self.whole[..., :width, :])

    def put(self, layer: int, columns: Tensor, k: Tensor, v: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Keys and values (N, H, C, D/H) of `columns`, (C,) or each row its own (N, C); those of the first `end`."""
        for half, new in enumerate((k, v)):
            kept = self.whole[:, layer, half]
            if columns.dim() == 1:
                kept.index_copy_(2, columns, new)
            else:
                kept.scatter_(2, columns[:, None, :, None].expand(new.shape), new)
        return self.whole[:, layer, 0, :, :end], self.whole[:, layer, 1, :, :end]
