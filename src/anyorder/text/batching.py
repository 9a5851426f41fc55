"""From canvases to candidates: one call that decodes, searches and scores, in batches under a token budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Cost, Decoder, Model, State, beam, decode
from anyorder.core.noise import combine, mix

TOKEN_BUDGET = 1024  # canvas tokens (source and padding included) in one forward pass: what caches hold


@dataclass(frozen=True, eq=False)
class Found:
    """K hypotheses of each of N rows, best first by path score."""

    tokens: Tensor  # (N, K, L)
    logp: Tensor  # (N, K, L) log p of each symbol when it was written
    score: Tensor  # (N, K) log p(G|X)
    path: Tensor | None  # (N, K, T) the positions written, where a beam was searched
    gain: Tensor | None  # (N, K, T)
    symbol: Tensor | None  # (N, K, T)
    cost: Cost


def search(model: Model, context: Any, state: State, decoder: Decoder, K: int = 1, K1: int = 1) -> Found:
    """Greedy (or sampled) decoding for K = K′ = 1, else length-conditioned beam search."""
    if K == 1 and K1 == 1:
        r = decode(model, context, state, decoder)
        return Found(r.tokens[:, None], r.logp[:, None], r.score[:, None], None, None, None, r.cost)
    b = beam(model, context, state, decoder, K, K1)
    return Found(b.tokens, b.logp, b.score, b.path, b.gain, b.symbol, b.cost)


def seeds(seed: int, ids: Sequence[Sequence[int]]) -> Tensor:
    """A seed a row (N,) from the row's own content, so that a row draws the same numbers in any batch."""
    tokens = padded(ids, -1)
    codes = mix(tokens + (torch.arange(tokens.shape[1]) << 32)).masked_fill(tokens < 0, 0)
    return combine(codes.sum(-1), seed)


def padded(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """(N, longest) int64."""
    width = max((len(r) for r in rows), default=0)
    out = torch.full((len(rows), max(width, 1)), pad_id, dtype=torch.int64)
    for n, row in enumerate(rows):
        out[n, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return out


def batches(
    sizes: Sequence[int], budget: int = TOKEN_BUDGET, copies: int = 1, steps: Sequence[int] | None = None
) -> list[list[int]]:
    """Indices in batches of like rows, each at most `budget` tokens with padding (one row at least), longest first.

    `sizes` are tokens a row; `copies` is how many hypotheses each row becomes; rows that take the same number of
    `steps` come together, so that they end together.
    """
    order = sorted(range(len(sizes)), key=lambda i: (steps[i] if steps else 0, sizes[i], i), reverse=True)
    out: list[list[int]] = []
    widest = 0
    for i in order:
        widest = max(widest, sizes[i])
        if not out or widest * copies * (len(out[-1]) + 1) > budget:
            out.append([])
            widest = sizes[i]
        out[-1].append(i)
    return out


def total(costs: Sequence[Cost]) -> Cost:
    """The sum of several costs."""
    return Cost(sum(c.forwards for c in costs), sum(c.canvases for c in costs), sum(c.head_rows for c in costs))


Progress = Callable[[int], None]  # called with the number of inputs finished


def silent(done: int) -> None:
    """No progress is shown."""
