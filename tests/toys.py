"""A task whose best order is known: a position's symbol comes out right only after its predecessor's."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Coordinates, Decoder, NoContext, Order, Symbols, begin, canvas, decode
from anyorder.training.rollout import Episodes

MASK, PAD, RIGHT, WRONG = 0, 1, 2, 3
FAINT = 1e-3  # how loudly the hidden state says that a position is ready: the policy has to learn which one is


class ChainModel:
    """Position CHAIN[j] is right if CHAIN[j−1] holds RIGHT (CHAIN[0] always is). Hidden states: one-hot position."""

    mask_id, pad_id = MASK, PAD

    def __init__(self, chain: tuple[int, ...]) -> None:
        self.chain = chain
        self.before = torch.full((len(chain),), -1)
        for a, b in pairwise(chain):
            self.before[b] = a

    def encode(self, source: Any) -> NoContext:
        return NoContext()

    def hidden(self, context: Any, tokens: Tensor) -> Tensor:
        width = tokens.shape[1]
        before = self.before[:width]
        ready = (tokens[:, before.clamp_min(0)] == RIGHT) | (before < 0)
        place = torch.eye(len(self.chain))[:width].expand(len(tokens), -1, -1)
        return torch.cat([place, FAINT * (2.0 * ready[..., None] - 1)], -1)

    def logits(self, hidden: Tensor) -> Tensor:
        sure = hidden[:, -1:] / FAINT * 5
        low = torch.full_like(sure, -9.0)
        return torch.cat([low, low, sure, -sure], -1)


@dataclass
class ChainTask:
    chain: tuple[int, ...] = (4, 1, 5, 0, 3, 2)
    model: ChainModel = field(init=False)
    symbols: Symbols = field(default_factory=lambda: Symbols(ban=(MASK, PAD)))

    def __post_init__(self) -> None:
        self.model = ChainModel(self.chain)

    def start(self, count: int, seed: int) -> Episodes:
        tokens = canvas(torch.full((count,), len(self.chain)), MASK, PAD)
        return Episodes(NoContext(), begin(tokens, MASK, PAD, seed=seed), torch.full_like(tokens, RIGHT))

    def draw(self, count: int, generator: torch.Generator) -> Episodes:
        return self.start(count, int(torch.randint(1 << 30, (1,), generator=generator)))

    def right(self, order: Order, count: int, temperature: float = 0.0) -> float:
        """The share of right symbols that an order produces."""
        context, state, _ = self.start(count, 1)
        done = decode(self.model, context, state, Decoder(Coordinates(order, temperature=temperature), self.symbols))
        return float((done.tokens == RIGHT).float().mean())

    def validate(self, order: Order) -> float:
        return self.right(order, 1)
