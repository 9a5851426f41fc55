"""Keys and values that are kept: of an encoded source for a decoder, of its first columns for a causal one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from anyorder.core.ragged import joined, used


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
    """Keys and values of a causal decoder's first `filled` columns, one pair (N, H, L, D/H) per layer."""

    layers: list[tuple[Tensor, Tensor]]
    filled: int = 0

    def take(self, rows: Tensor) -> Cache:
        """These rows."""
        return Cache([(k[rows], v[rows]) for k, v in self.layers], self.filled)

    def join(self, *others: Cache) -> Cache:
        """These rows, then the others', with the columns that all of them have."""
        all_ = (self, *others)
        return Cache(join_layers([c.layers for c in all_]), min(c.filled for c in all_))


def join_layers(parts: Sequence[list[tuple[Tensor, Tensor]]]) -> list[tuple[Tensor, Tensor]]:
    """Keys and values (n, H, S, D/H) of several batches as one, layer by layer."""
    return [(joined([k for k, _ in each]), joined([v for _, v in each])) for each in zip(*parts, strict=True)]
