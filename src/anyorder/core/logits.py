"""Numbers of rows of logits (m, V): the largest, that of a symbol, and a sum with a few more."""

from __future__ import annotations

import torch
from torch import Tensor


def maximum(x: Tensor) -> tuple[Tensor, Tensor]:
    """The largest entry of each row (m, V) and where it is first: as x.max(-1), several times faster on a CPU.

    Maxima of stretches of 64 first (a vectorised reduction), then a search within the best stretch only.
    """
    rows, width = x.shape
    if width < 256 or rows < 8 or x.device.type != "cpu":
        found = x.max(-1)
        return found.values, found.indices
    even = width // 64 * 64
    stretches = x[:, :even].view(rows, -1, 64).amax(-1)
    if even < width:  # the last stretch reaches back into the one before it
        stretches = torch.cat([stretches, x[:, -64:].amax(-1, keepdim=True)], 1)
    best, where = stretches.max(-1)
    start = (where * 64).clamp_max_(width - 64)
    inside = x.gather(-1, start[:, None] + torch.arange(64, device=x.device))
    return best, start + inside.argmax(-1)


def entry(x: Tensor, token: Tensor) -> Tensor:
    """x (m, V) at `token` (m,); a symbol that the head leaves out (<mask>, in some models) has log p = −∞: (m,)."""
    if x.device.type == "cpu" and int(token.max()) < x.shape[-1]:
        return x.gather(-1, token[:, None])[:, 0]
    value = x.gather(-1, token.clamp_max(x.shape[-1] - 1)[:, None])[:, 0]
    return torch.where(token < x.shape[-1], value, -torch.inf)


def together(lse: Tensor, more: Tensor) -> Tensor:
    """log(exp lse + Σ exp more) of lse (m,) and more (m, K), as x* − log p(best): faster than logsumexp for few K."""
    x = torch.cat([lse[:, None], more], 1)
    return x.amax(-1) - x.softmax(-1).amax(-1).log()
