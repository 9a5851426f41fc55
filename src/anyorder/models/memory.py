"""Keys and values that are kept: of an encoded source for a decoder, of its first columns for a causal one.

Those of all layers are one tensor, so that rows join and leave by one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of each layer, (N, H, S, D/H) each."""
        return _layers(self.whole)

    def take(self, rows: Tensor) -> Memory:
        """These rows."""
        return Memory(self.whole.index_select(0, rows), None if self.mask is None else self.mask[rows])

    def only(self, rows: Tensor) -> Memory:
        """As `take`, in place."""
        return Memory(stay(self.whole, rows), None if self.mask is None else self.mask[rows])

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

    def only(self, rows: Tensor) -> Cache:
        """As `take`, in place."""
        return Cache(stay(self.whole, rows))

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

    @cached_property
    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of each layer, (N, H, L, D/H) each."""
        return _layers(self.whole)

    def put(self, layer: int, columns: Tensor | slice, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (N, H, C, D/H) of `columns`, the same in all rows or each row's own (N, C), are kept.

        What is kept of this layer comes back, up to the last of the columns.
        """
        end = columns.stop if isinstance(columns, slice) else None
        for i, new in enumerate((k, v)):
            if isinstance(columns, slice):
                self._half(layer, i)[:, :, columns] = new
            else:
                self._half(layer, i).scatter_(2, columns[:, None, :, None].expand(new.shape), new)
        return self._half(layer, 0)[:, :, :end], self._half(layer, 1)[:, :, :end]

    def _half(self, layer: int, i: int) -> Tensor:
        """Keys (0) or values (1) of a layer; a gradient does not go through a view made before the last change."""
        return self.whole[:, layer, i] if torch.is_grad_enabled() else self.layers[layer][i]


def stay(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows] of a tensor that is not used otherwise any more: what stays in its place is not copied."""
    moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
    if len(moved):
        x.index_copy_(0, moved, x.index_select(0, rows[moved]))
    return x[: len(rows)]


def _layers(whole: Tensor) -> list[tuple[Tensor, Tensor]]:
    """(N, layers, 2, …) → keys and values of each layer, (N, …) each."""
    return [(whole[:, i, 0], whole[:, i, 1]) for i in range(whole.shape[1])]
