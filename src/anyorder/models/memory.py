"""Keys and values that are kept: of an encoded source for a decoder, of its first columns for a causal one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from anyorder.core.ragged import joined, used, widened


@dataclass
class Memory:
    """What a decoder attends to: a pair of keys and values (N, H, S, D/H) per layer, and which of the S are real."""

    layers: list[tuple[Tensor, Tensor]]
    mask: Tensor | None  # (N, 1, 1, S) bool

    def take(self, rows: Tensor) -> Memory:
        """These rows."""
        mask = None if self.mask is None else self.mask[rows]
        return Memory([(k[rows], v[rows]) for k, v in self.layers], mask)

    @property
    def width(self) -> int:
        """Columns, with padding."""
        return self.layers[0][0].shape[2]

    def trim(self) -> Memory:
        """Without the columns that are padding in every row."""
        if self.mask is None:
            return self
        width = used(self.mask[:, 0, 0])
        return Memory([(k[:, :, :width], v[:, :, :width]) for k, v in self.layers], self.mask[..., :width])

    def join(self, *others: Memory) -> Memory:
        """These rows, then the others'; the padding of shorter ones is not seen."""
        all_ = (self, *others)
        keys = [m.layers[0][0] for m in all_]
        masks = [
            k.new_ones(len(k), 1, 1, k.shape[2]).bool() if m.mask is None else m.mask
            for k, m in zip(keys, all_, strict=True)
        ]
        mask = joined(masks)
        return Memory(join_layers([m.layers for m in all_]), None if bool(mask.all()) else mask)


@dataclass
class Cache:
    """Keys and values of a causal decoder's columns, one pair (N, H, L, D/H) per layer. Rows may be at any column."""

    layers: list[tuple[Tensor, Tensor]]

    def take(self, rows: Tensor) -> Cache:
        """These rows."""
        return Cache([(k[rows], v[rows]) for k, v in self.layers])

    def join(self, *others: Cache) -> Cache:
        """These rows, then the others'."""
        return Cache(join_layers([c.layers for c in (self, *others)]))

    def nothing(self, rows: int) -> Cache:
        """That many rows of which no column is known."""
        return Cache([(_none(k, rows), _none(v, rows)) for k, v in self.layers])

    def widened(self, width: int) -> Cache:
        """Room for that many columns."""
        return Cache([(_wide(k, width), _wide(v, width)) for k, v in self.layers])

    def put(self, layer: int, columns: Tensor, k: Tensor, v: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Keys and values (N, H, C, D/H) of `columns`, (C,) or each row its own (N, C); those of the first `end`."""
        for whole, new in zip(self.layers[layer], (k, v), strict=True):
            if columns.dim() == 1:
                whole.index_copy_(2, columns, new)
            else:
                whole.scatter_(2, columns[:, None, :, None].expand(new.shape), new)
        keys, values = self.layers[layer]
        return keys[:, :, :end], values[:, :, :end]


def _none(x: Tensor, rows: int) -> Tensor:
    return x.new_zeros(rows, x.shape[1], 0, x.shape[3])


def _wide(x: Tensor, width: int) -> Tensor:
    return widened(x, (x.shape[1], width, x.shape[3]))


def join_layers(parts: Sequence[list[tuple[Tensor, Tensor]]]) -> list[tuple[Tensor, Tensor]]:
    """Keys and values (n, H, S, D/H) of several batches as one, layer by layer."""
    return [(joined([k for k, _ in each]), joined([v for _, v in each])) for each in zip(*parts, strict=True)]
