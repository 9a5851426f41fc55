"""Exploration that is consistent within an episode: each episode has a taste of its own for places.

Noise that is drawn anew at every step tries each decision by itself. An order that pays only as a whole (all of it from
left to right, say) is then never tried. So an episode draws once a random parabola over its places, a sweep, and adds
it to the policy's scores at every step:

    b(a|s, ξ) = softmax_i (f_θ(h_i, h̄) + σ ξ_i)
    ξ_i = w_1 u_i + w_2 u_i² / L        u_i = i − (L − 1)/2,   w_1, w_2 ~ N(0, 1) once an episode

One sweep in four goes from left to right, one from right to left, one from the middle outwards and one from both ends
inwards; near the middle a place is liked e^{σ w_1} times as much as the one before it, whatever L is. The policy never
sees ξ: it can make a sweep its own only as far as the hidden states tell.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from anyorder.core.noise import EXPLORE, uniform
from anyorder.core.state import State


def sweep(state: State) -> Tensor:
    """ξ (N, L): the same at every step of an episode, whatever else is in the batch."""
    w = uniform(state.seed[:, None], torch.arange(2, device=state.seed.device), EXPLORE)
    line, bend = ((2 * w - 1).erfinv() * math.sqrt(2)).to(state.logp.dtype)[..., None].unbind(1)  # (N, 1) each, normal
    u: Tensor = state.place - (state.length[:, None] - 1) / 2
    return line * u + bend * u.square() / state.length[:, None]
