"""The supervised alternative to RL: rank positions as an oracle would that knows the reference.

The oracle's choice in a state: among the positions whose greedy symbol is right, the one with the largest margin
p₍₁₎ − p₍₂₎. The states come from the policy's own episodes, so that it learns where it will be, and the loss is
the cross-entropy of π_θ against the oracle's position.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.core.step import Step


def oracle(taken: Step, references: Tensor) -> Tensor:
    """(n,) the position to write next, −1 in rows where no greedy symbol is right. References (n, R), R ≥ L."""
    view, masked = taken.judged, taken.before.masked
    assert view is not None and view.margin is not None
    if references.shape[1] < masked.shape[1]:
        raise ValueError(
            f"a canvas of {masked.shape[1]} positions and references of {references.shape[1]}: the oracle needs "
            "canvases of the reference's length"
        )
    right = masked & (view.token == references[:, : masked.shape[1]])
    best = view.margin.masked_fill(~right, -torch.inf).argmax(-1)
    return torch.where(right.any(-1), best, -1)


def ranking_loss(log_pi: Tensor, teacher: Tensor) -> Tensor:
    """−mean log π(teacher's position) over the time steps that have one.  (B, M), (B,) → scalar"""
    known = teacher >= 0
    chosen = log_pi.gather(1, teacher.clamp_min(0)[:, None])[:, 0]
    return -torch.where(known, chosen, 0.0).sum() / known.sum().clamp_min(1)
