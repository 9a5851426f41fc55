"""Keys and values that are kept: of an encoded source for a decoder, of its first columns for a causal one.

Those of all layers are one tensor, (layers, 2, N, H, columns, D/H), so that rows join and leave by one copy, and a
layer's own are whole matrices, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from anyorder.core.ragged import joined, used

ROWS = 2  # the dimension of rows


@dataclass
class Memory:
    """Keys and values of the source, which the decoder's layers attend to, and which of the S columns are real."""

    whole: Tensor  # (layers, 2, N, H, S, D/H)
    mask: Tensor | None  # (N, 1, 1, S) bool
    source: Tensor  # (N,) int64: the same in rows that attend to the same
    spare: int = 0  # free rows behind the rows of `whole`; joining rows reuse them

    @cached_property
    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of each layer, (N, H, S, D/H) each."""
        return _layers(self.whole)

    @cached_property
    def real(self) -> Tensor | None:
        """Which columns are real, (N, S) bool; None where all are."""
        return None if self.mask is None else self.mask[:, 0, 0].contiguous()

    def take(self, rows: Tensor) -> Memory:
        """These rows. Hypotheses that take each other's places attend to what they attended to: nothing is copied."""
        source = self.source[rows]
        if torch.equal(source, self.source):
            return Memory(self.whole, self.mask, source)
        return Memory(self.whole.index_select(ROWS, rows), None if self.mask is None else self.mask[rows], source)

    def only(self, rows: Tensor) -> Memory:
        """As `take`, in place."""
        left = self.spare + self.whole.shape[ROWS] - len(rows)
        mask = None if self.mask is None else self.mask[rows]
        return Memory(stay(self.whole, rows, ROWS), mask, self.source[rows], left)

    @property
    def width(self) -> int:
        """Columns, with padding."""
        return self.whole.shape[4]

    def trim(self) -> Memory:
        """Without the columns that are padding in every row."""
        if self.mask is None:
            return self
        width = used(self.mask[:, 0, 0])
        return Memory(self.whole[..., :width, :], self.mask[..., :width], self.source, self.spare)

    def join(self, *others: Memory) -> Memory:
        """These rows, then the others'; the padding of shorter ones is not seen."""
        all_ = (self, *others)
        masks = [
            m.whole.new_ones(m.whole.shape[ROWS], 1, 1, m.width, dtype=torch.bool) if m.mask is None else m.mask
            for m in all_
        ]
        mask = joined(masks)
        whole, left = _joined(self.whole, self.spare, [m.whole for m in others])
        source, first = [], 0
        for m in all_:
            source.append(m.source + first)
            first += int(m.source.max()) + 1 if len(m.source) else 0
        return Memory(whole, None if bool(mask.all()) else mask, torch.cat(source), left)


@dataclass
class Cache:
    """Keys and values of a causal decoder's columns. Rows may be at any column."""

    whole: Tensor  # (layers, 2, N, H, L, D/H)
    spare: int = 0  # free rows behind the rows of `whole`

    def take(self, rows: Tensor) -> Cache:
        """These rows."""
        return Cache(self.whole.index_select(ROWS, rows))

    def only(self, rows: Tensor) -> Cache:
        """As `take`, in place."""
        return Cache(stay(self.whole, rows, ROWS), self.spare + self.whole.shape[ROWS] - len(rows))

    def join(self, *others: Cache) -> Cache:
        """These rows, then the others'."""
        return Cache(*_joined(self.whole, self.spare, [c.whole for c in others]))

    def nothing(self, rows: int) -> Cache:
        """That many rows of which no column is known."""
        layers, pair, _, heads, _, width = self.whole.shape
        return Cache(self.whole.new_zeros(layers, pair, rows, heads, 0, width))

    def widened(self, width: int) -> Cache:
        """Room for that many columns."""
        return Cache(*_joined(self.whole, self.spare, [], width))

    def trim(self, width: int) -> Cache:
        """The first that many columns."""
        return Cache(self.whole[..., :width, :], self.spare)

    @cached_property
    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of each layer, (N, H, L, D/H) each."""
        return _layers(self.whole)

    def put(self, layer: int, columns: Tensor | slice, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (N, H, C, D/H) of `columns`, the same in all rows or each row's own (N, C), are kept.

        Returns all kept keys and values of this layer, up to the last of the columns.
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
        return self.whole[layer, i] if torch.is_grad_enabled() else self.layers[layer][i]


def stay(x: Tensor, rows: Tensor, dim: int = 0) -> Tensor:
    """x[rows] of a tensor that nothing else uses: rows that stay in their place are not copied."""
    moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
    if len(moved):
        x.index_copy_(dim, moved, x.index_select(dim, rows[moved]))
    return x.narrow(dim, 0, len(rows))


def _layers(whole: Tensor) -> list[tuple[Tensor, Tensor]]:
    """(layers, 2, …) → keys and values of each layer."""
    return [(k, v) for k, v in whole.unbind()]


def _joined(whole: Tensor, spare: int, others: Sequence[Tensor], width: int = 0) -> tuple[Tensor, int]:
    """The rows of several, one after the other, as many columns as the widest has; and how many rows are spare then.

    Joining rows are written into free rows, if there are enough. Old numbers further to the right stay there: columns
    that are not real are never read.
    """
    layers, pair, n, heads, columns, size = whole.shape
    width, more = max(columns, width, *(x.shape[4] for x in others)), sum(x.shape[ROWS] for x in others)
    if more > spare or not spare or width * size > whole.stride(3):
        return _copied((whole, *others), width), 0
    room = whole.as_strided((layers, pair, n + more, heads, width, size), whole.stride(), whole.storage_offset())
    with torch.inference_mode(whole.is_inference()):
        for x in others:
            room[:, :, n : n + x.shape[ROWS], :, : x.shape[4]] = x
            n += x.shape[ROWS]
    return room, spare - more


def _copied(parts: Sequence[Tensor], width: int) -> Tensor:
    """The rows of several, one after the other, each copied once into its place; so many columns."""
    layers, pair, _, heads, _, size = parts[0].shape
    rows = [whole.shape[ROWS] for whole in parts]
    out = parts[0].new_empty(layers, pair, sum(rows), heads, width, size)
    for whole, here in zip(parts, torch.split(out, rows, ROWS), strict=True):
        here[..., : whole.shape[4], :] = whole
        here[..., whole.shape[4] :, :] = 0
    return out
