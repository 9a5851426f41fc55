"""log p(S) of a set drawn without replacement, whatever the order in which its elements came.

Draw element i at the time T_i ~ Exponential(w_i); the k earliest are a draw without replacement from w. With W the
weight outside S, all of S comes before all of the rest with probability

    P(S) = ∫₀^∞ W e^{−Wt} ∏_{i∈S} (1 − e^{−w_i t}) dt.

With t = e^u/W the integrand is log-concave in u, its peak lies between u = 0 and log(k + 1), it falls at least as e^u
to the left and as exp(−e^u) to the right: the trapezoidal rule converges exponentially. Everything stays in
logarithms, so weights of any ratio do.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from anyorder.core.devices import precise

LEFT = -18.0  # about e^−18 of the mass is left of this
CHUNK = 1 << 22  # integrand's factors held at once


def log_p_set(x: Tensor, z: Tensor) -> Tensor:
    """log P(z) of sets z (N, L) bool drawn by weights exp(x) (N, L), −inf where nothing can be drawn: (N,), float64
    where the device has it."""
    x = x.to(precise(x.device))
    rest = x.masked_fill(z, -torch.inf).logsumexp(-1)  # (N,) log W
    size = z.sum(-1)
    out = torch.where(z, x.log_softmax(-1), 0.0).sum(-1)  # right for a single element …
    out = out.masked_fill((size == 0) | rest.isneginf(), 0.0)  # … and all there are, or none, is certain
    many = ((size > 1) & ~rest.isneginf()).nonzero()[:, 0]
    if not len(many):
        return out
    most = int(size[many].max())
    u = _nodes(most, x)
    for rows in torch.split(many, max(1, CHUNK // (most * len(u)))):
        first = z[rows].int().argsort(dim=-1, descending=True, stable=True)[:, :most]  # the chosen come first
        weights = x[rows].gather(-1, first) - rest[rows, None]  # (n, k) log w_i/W
        chosen = z[rows].gather(-1, first)
        log_f = torch.where(chosen[..., None], _log_drawn(weights[..., None] + u), 0.0).sum(1) + (u - u.exp())
        out[rows] = (log_f.logsumexp(-1) + math.log(float(u[1] - u[0]))).clamp_max(0.0)
    return out


def _nodes(k: int, like: Tensor) -> Tensor:
    """Points u (M,) that carry the integral for sets of up to k elements; the peak is as narrow as 1/√(k + 1)."""
    right = math.log(2 * (k + 1) + 60)
    count = math.ceil((right - LEFT) / min(0.35, 0.7 / math.sqrt(k + 1))) + 1
    return torch.linspace(LEFT, right, count, dtype=like.dtype, device=like.device)


def _log_drawn(v: Tensor) -> Tensor:
    """log(1 − exp(−e^v)): has it come by the time e^v?"""
    return torch.where(v < -30, v, (-torch.expm1(-v.exp())).log())
