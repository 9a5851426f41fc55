"""Random numbers that belong to (row seed, step, position): the same draw whatever else is in the batch."""

from __future__ import annotations

import torch
from torch import Tensor

# What a draw is for; two purposes never share a number.
COORDINATE, SYMBOL, TAKE_BACK, ACCEPT, AMOUNT, DESCEND, BEGIN, JUDGE, EXPLORE = range(9)

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as int64
_MUL1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MUL2 = -7723592293110705685  # 0x94D049BB133111EB


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift of int64."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser: int64 → well-mixed int64, elementwise (arithmetic wraps)."""
    x = (x ^ _shift(x, 30)) * _MUL1
    x = (x ^ _shift(x, 27)) * _MUL2
    return x ^ _shift(x, 31)


def combine(seed: Tensor, *keys: Tensor | int) -> Tensor:
    """One int64 from several, broadcasting; the order of keys matters."""
    for key in keys:
        seed = mix(seed * 31 + _GOLDEN + mix(torch.as_tensor(key, device=seed.device) + _GOLDEN))
    return seed


def uniform(seed: Tensor, *keys: Tensor | int) -> Tensor:
    """A number in (0, 1), float64, for each combination of seed and keys."""
    bits = _shift(combine(seed, *keys), 11)  # 53 bits
    return (bits.double() + 0.5) * 2.0**-53


def gumbel(seed: Tensor, *keys: Tensor | int) -> Tensor:
    """−log(−log u), float64: argmax(logits + gumbel) samples the softmax of logits."""
    return -(-uniform(seed, *keys).log()).log()


def grid(seed: Tensor, step: Tensor, width: int, purpose: int) -> tuple[Tensor, Tensor, Tensor, int]:
    """Keys of an (N, width) grid of draws, each row at its own step: pass on to `uniform` or `gumbel`."""
    return seed[:, None], step[:, None], torch.arange(width, device=seed.device), purpose
