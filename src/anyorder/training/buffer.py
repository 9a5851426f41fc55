"""Time steps as tensors: inputs, decisions and rewards of a policy; as a batch, and in a buffer of the latest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from anyorder.models.policy import Inputs


class Moments(NamedTuple):
    """B time steps (s_t, a_t), candidates padded to M."""

    inputs: Inputs
    chosen: Tensor  # (B, M) bool: the candidates that were written
    teacher: Tensor  # (B, M) bool: positions that a teacher would write; none where it has no opinion
    logp: Tensor  # (B,) log π(a_t|s_t) as it was
    value: Tensor  # (B,) V(s_t) as it was
    advantage: Tensor  # (B,)
    returns: Tensor  # (B,)

    @property
    def size(self) -> int:
        """How many time steps."""
        return len(self.logp)

    def take(self, rows: Tensor | slice) -> Moments:
        """These time steps."""
        return Moments(Inputs(*(f[rows] for f in self.inputs)), *(f[rows] for f in self[1:]))


def stack(parts: Sequence[Moments]) -> Moments:
    """Time steps of several parts, candidates padded to the widest."""
    width = max(p.chosen.shape[1] for p in parts)

    def cat(fields: Iterable[Tensor], wide: bool) -> Tensor:
        if wide:
            fields = [pad(f, (*[0, 0] * (f.dim() - 2), 0, width - f.shape[1])) for f in fields]
        return torch.cat(list(fields))

    seen = zip(*(p.inputs for p in parts), strict=True)
    rest = zip(*(p[1:] for p in parts), strict=True)
    inputs = Inputs(*(cat(f, wide=k < 4) for k, f in enumerate(seen)))  # hidden … place are (B, M …)
    return Moments(inputs, *(cat(f, wide=k < 2) for k, f in enumerate(rest)))  # and so are chosen and teacher


class Buffer:
    """FIFO of time steps: the oldest leave when it is full. Size 0 keeps the last addition only."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.parts: deque[Moments] = deque()

    def __len__(self) -> int:
        return sum(part.size for part in self.parts)

    def add(self, parts: Sequence[Moments]) -> None:
        """Put time steps in; the oldest leave when it is full."""
        if not self.size:
            self.parts.clear()
        self.parts.extend(parts)
        over = len(self) - self.size if self.size else 0
        while over > 0:
            oldest = self.parts.popleft()
            if oldest.size > over:
                self.parts.appendleft(oldest.take(slice(over, None)))
            over -= oldest.size

    def sample(self, count: int, generator: torch.Generator) -> Moments:
        """`count` time steps, uniformly, without repeats (all of them, where there are fewer)."""
        chosen = torch.randperm(len(self), generator=generator)[:count].sort().values
        parts, start = [], 0
        for part in self.parts:
            rows = chosen[(chosen >= start) & (chosen < start + part.size)] - start
            parts += [part.take(rows)] if len(rows) else []
            start += part.size
        return stack(parts)
