"""Rows of ids as tensors, and batches of like rows under a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from anyorder.core.noise import combine, mix

TOKEN_BUDGET = 1024  # canvas tokens (source and padding included) in one forward pass: what caches hold
CACHED = 16  # tokens that cost as much as one that is run, where a cache has them: a pass runs one column of each row
SIDES = 2  # large batches come in multiples of this, so that as many cores have as much to do …
FEW = 32  # … but for so few rows, which one core does in little more time than half of them
ALIKE = 0.75  # of the longest: the shortest source that is encoded with it
WINDOW = 512  # inputs whose encoded sources are held at once

Progress = Callable[[int], None]  # called with the number of inputs finished


def silent(done: int) -> None:
    """No progress is shown."""


def seeds(seed: int, ids: Sequence[Sequence[int]]) -> Tensor:
    """A seed per row (N,) from the row's own content, so that a row draws the same numbers in any batch."""
    tokens = padded(ids, -1)
    codes = mix(tokens + (torch.arange(tokens.shape[1]) << 32)).masked_fill(tokens < 0, 0)
    return combine(codes.sum(-1), seed)


def padded(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Rows of ids, filled up with `pad_id` to the longest (at least one column): (N, longest) int64."""
    width = max(1, max((len(r) for r in rows), default=1))
    ids = [[*row, *[pad_id] * (width - len(row))] for row in rows]
    return torch.tensor(ids, dtype=torch.int64).view(len(rows), width)


def batches(
    sizes: Sequence[int],
    budget: int = TOKEN_BUDGET,
    copies: int = 1,
    steps: Sequence[int] | None = None,
    alike: float = 0.0,
    most: int | None = None,
) -> list[list[int]]:
    """Indices in batches of like rows, each at most `budget` tokens with padding (one row at least), longest first.

    `sizes` are tokens per row; `copies` is how many hypotheses each row becomes; rows that take the same number of
    `steps` come together, so that they end together. A row shorter than `alike` times the batch's longest begins a
    batch of its own, as does one beyond the `most` that a batch may have.
    """
    order = sorted(range(len(sizes)), key=lambda i: (steps[i] if steps else 0, sizes[i], i), reverse=True)
    out: list[list[int]] = []
    widest = 0
    for i in order:
        widest = max(widest, sizes[i])
        full = not out or widest * copies * (len(out[-1]) + 1) > budget or len(out[-1]) == most
        if full or sizes[i] < alike * widest:
            out.append([])
            widest = sizes[i]
        out[-1].append(i)
    return out


def evenly(sizes: Sequence[int], budget: int, copies: int = 1) -> list[list[int]]:
    """`batches` of even size, whose number is a multiple of `SIDES` where there are enough rows."""
    whole = batches(sizes, budget, copies)
    if len(sizes) <= FEW:
        return whole
    most = -(-len(sizes) // (-(-len(whole) // SIDES) * SIDES))
    return batches(sizes, budget, copies, most=most)


def windows(sizes: Sequence[int]) -> Iterator[list[list[int]]]:
    """Inputs by their sizes: like ones together, to be encoded together; some hundred of them at a time."""
    order = sorted(range(len(sizes)), key=lambda i: sizes[i], reverse=True)
    each = -(-len(order) // -(-len(order) // WINDOW)) if order else 1  # windows are of one size
    for start in range(0, len(order), each):
        window = order[start : start + each]
        yield [[window[i] for i in part] for part in batches([sizes[i] for i in window], alike=ALIKE)]
