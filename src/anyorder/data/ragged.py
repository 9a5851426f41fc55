"""Tokenised text in memory: rows of different lengths, end to end."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
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
        """Rows of ids, one after the other."""
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
        """The ids of row i."""
        start = int(self.starts[i])
        rows: list[int] = self.flat[start : start + int(self.lengths[i])].tolist()
        return rows

    def padded(self, rows: Tensor, pad: int) -> tuple[Tensor, Tensor]:
        """Rows (B,) → tokens (B, W) int64 with `pad` after each end, and lengths (B,)."""
        lengths = self.lengths[rows]
        columns = torch.arange(int(lengths.max()) if len(lengths) else 0)
        index = (self.starts[rows, None] + columns).clamp_(max=len(self.flat) - 1)
        return torch.where(columns < lengths[:, None], self.flat[index].long(), pad), lengths
