"""Random numbers that belong to (row seed, step, position): the same draw whatever else is in the batch."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from anyorder.core.devices import precise

Key = Tensor | int | range  # a range stands for its numbers as a tensor: what is mixed of it is kept

# What a draw is for; two purposes never share a number.
COORDINATE, SYMBOL, TAKE_BACK, ACCEPT, AMOUNT, DESCEND, BEGIN, JUDGE, EXPLORE, PAINT = range(10)

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as int64
_MUL1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MUL2 = -7723592293110705685  # 0x94D049BB133111EB


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift of int64."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser: int64 → well-mixed int64, elementwise (arithmetic wraps)."""
    x = _shift(x, 30).bitwise_xor_(x).mul_(_MUL1)
    x = _shift(x, 27).bitwise_xor_(x).mul_(_MUL2)
    return _shift(x, 31).bitwise_xor_(x)


def combine(seed: Tensor, *keys: Key) -> Tensor:
    """One int64 from several, broadcasting; the order of keys matters."""
    for key in keys:
        seed = mix(torch.add(_salt(key, seed.device), seed, alpha=31))
    return seed


def _salt(key: Key, device: torch.device) -> Tensor:
    """What a key adds to a seed."""
    if not isinstance(key, Tensor):
        return _known_salt(key, device)
    return mix(key + _GOLDEN).add_(_GOLDEN)


@lru_cache(maxsize=1024)
def _known_salt(key: int | range, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # to be used anywhere
        numbers = range(key, key + 1) if isinstance(key, int) else key
        salt = _salt(torch.arange(numbers.start, numbers.stop, numbers.step, device=device), device)
        return salt[0] if isinstance(key, int) else salt


def uniform(seed: Tensor, *keys: Key) -> Tensor:
    """A number in (0, 1), as precise as the device allows, for each combination of seed and keys."""
    dtype = precise(seed.device)
    digits = 53 if dtype == torch.float64 else 23  # and a half must not round up to 1
    return _shift(combine(seed, *keys), 64 - digits).to(dtype).add_(0.5).mul_(2.0**-digits)


def gumbel(seed: Tensor, *keys: Key) -> Tensor:
    """−log(−log u): argmax(logits + gumbel) samples the softmax of logits."""
    return uniform(seed, *keys).log_().neg_().log_().neg_()


def grid(seed: Tensor, step: Tensor, width: int, purpose: int) -> tuple[Tensor, Key, range, int]:
    """Keys of an (N, width) grid of draws, each row at its own step: pass on to `uniform` or `gumbel`."""
    steps = set(step.tolist()) if step.device.type == "cpu" else ()  # elsewhere it would have to be waited for
    return seed[:, None], next(iter(steps)) if len(steps) == 1 else step[:, None], range(width), purpose
