"""Canvases for training, and which of their symbols are masked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.data.ragged import Ragged
from anyorder.models.translation import SpecialIds


@dataclass(frozen=True)
class Filled:
    """Rows `</s> x </s>` or `</s> x </s> </s> y </s>`, packed to the left, padding only at the end."""

    tokens: Tensor  # (B, W) int64
    positions: Tensor  # (B, W), from 0 on each side
    languages: Tensor  # (B, W)
    sides: Tensor  # (B, W): 0 or 1 where there is a text symbol of that side, -1 at delimiters and padding
    visible: Tensor | None  # (B, 1, 1, W) bool, None when nothing is padding


def canvas(sides: list[tuple[Ragged, Tensor, int]], special: SpecialIds) -> Filled:
    """Put `rows` (B,) of one or two texts, each with its language, beside each other."""
    lengths = torch.stack([text.lengths[rows] for text, rows, _ in sides])  # (K, B)
    total = (lengths + 2).sum(0)
    width = int(total.max())
    column = torch.arange(width)
    tokens = torch.full((lengths.shape[1], width), special.pad)
    positions, languages = torch.zeros_like(tokens), torch.zeros_like(tokens)
    side = torch.full_like(tokens, -1)
    begin = torch.zeros(lengths.shape[1], 1, dtype=torch.int64)
    for k, (text, rows, language) in enumerate(sides):
        length = lengths[k][:, None]
        at = column - begin  # (B, W), the position on this side
        mine = (at >= 0) & (at < length + 2)
        inner = (at >= 1) & (at <= length)
        index = (text.starts[rows, None] + at - 1).clamp(0, len(text.flat) - 1)
        tokens = torch.where(inner, text.flat[index].long(), torch.where(mine, special.eos, tokens))
        positions = torch.where(mine, at, positions)
        languages = torch.where(mine, language, languages)
        side = torch.where(inner, k, side)
        begin = begin + length + 2
    real = column < total[:, None]
    return Filled(tokens, positions, languages, side, None if bool(real.all()) else real[:, None, None])


def choose(candidates: Tensor, ratio: Tensor, generator: torch.Generator) -> Tensor:
    """Of the candidates (B, W) bool of each row, ⌈ratio·n⌉ (at least one), drawn at random: (B, W) bool."""
    keys = torch.rand(candidates.shape, generator=generator)
    rank = keys.masked_fill_(~candidates, 2.0).argsort(1).argsort(1)
    n = candidates.sum(1)
    count = (ratio * n).ceil().clamp(min=1).minimum(n)
    return rank < count[:, None]


@dataclass(frozen=True)
class Corruption:
    """How masked symbols are drawn."""

    low: float = 0.0  # the ratio is uniform in [low, high], for each sentence
    high: float = 1.0
    per_batch: bool = False  # the authors' code: one ratio for the whole batch …
    bert: bool = False  # … and of the chosen symbols 80 % masked, 10 % random, 10 % kept
    copies: int = 1  # masked copies of a target, all against one encoded source
    own: float = 0.0  # share of the later copies whose visible symbols are the model's own, as when it decodes
    forwards: float = 0.0  # share of sentences that are learned from left to right too, in a copy of their own

    def __call__(
        self, tokens: Tensor, candidates: Tensor, special: SpecialIds, vocabulary: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """The corrupted tokens, and where the loss is taken (B, W) bool."""
        rows = len(tokens)
        u = torch.rand(1 if self.per_batch else rows, generator=generator).expand(rows)
        chosen = choose(candidates, self.low + (self.high - self.low) * u, generator)
        new = torch.full_like(tokens, special.mask)
        if self.bert:
            kind = torch.rand(tokens.shape, generator=generator)
            anything = torch.randint(special.mask + 1, vocabulary, tokens.shape, generator=generator)
            new = torch.where(kind < 0.8, new, torch.where(kind < 0.9, anything, tokens))
        return torch.where(chosen, new, tokens), chosen


def one_epoch(
    sizes: Tensor,  # (N,) the tokens that example i costs
    keys: Tensor,  # (N,) int64: examples are bucketed by this
    budget: int,  # tokens per batch, padding included
    generator: torch.Generator,
    sentences: int | None = None,  # at most that many examples per batch
) -> list[Tensor]:
    """An epoch: every example once, similar keys together, in batches of at most `budget` tokens, shuffled."""
    order = torch.randperm(len(sizes), generator=generator)
    order = order[torch.sort(keys[order], stable=True).indices]
    cost = sizes[order].tolist()
    cuts, start, widest = [], 0, 0
    for i, size in enumerate(cost):
        widest = max(widest, size)
        if i > start and (widest * (i - start + 1) > budget or (sentences and i - start >= sentences)):
            cuts.append(order[start:i])
            start, widest = i, size
    if cost:
        cuts.append(order[start:])
    shuffle = torch.randperm(len(cuts), generator=generator).tolist()
    return [cuts[i] for i in shuffle]


def epochs(
    sizes: Tensor, keys: Tensor, budget: int, seed: int, start: tuple[int, int] = (0, 0), sentences: int | None = None
) -> Iterator[tuple[int, int, Tensor]]:
    """Endless (epoch, batch index, rows), from `start` on: the whole order follows from `seed` alone."""
    if not len(sizes):
        raise ValueError("there is nothing to train on: no example is left")
    epoch, first = start
    while True:
        cuts = one_epoch(sizes, keys, budget, torch.Generator().manual_seed(seed * 1_000_003 + epoch), sentences)
        for i in range(first, len(cuts)):
            yield epoch, i, cuts[i]
        epoch, first = epoch + 1, 0
