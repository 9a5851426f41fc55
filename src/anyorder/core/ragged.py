"""Ragged rows: tensors of different widths as one batch, what is shorter filled up at its end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def widened(x: Tensor, sizes: Sequence[int], fill: float = 0.0) -> Tensor:
    """x (n, …) with `fill` after its end in every dimension but the first, up to `sizes`."""
    missing = [size - have for size, have in zip(sizes, x.shape[1:], strict=True)]
    if not any(missing):
        return x
    return F.pad(x, [n for m in reversed(missing) for n in (0, m)], value=fill)


def used(real: Tensor) -> int:
    """Columns up to the last that is real in some row; `real` is (n, width) bool."""
    columns: list[bool] = real.any(0).tolist()
    return max((c + 1 for c, some in enumerate(columns) if some), default=1)


def joined(parts: Sequence[Tensor], fill: float = 0.0) -> Tensor:
    """The rows of several tensors (n, …), one after the other; all dimensions but the first are the widest's."""
    sizes = [max(each) for each in zip(*(x.shape[1:] for x in parts), strict=True)]
    return torch.cat([widened(x, sizes, fill) for x in parts])
