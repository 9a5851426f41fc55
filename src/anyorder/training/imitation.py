"""The supervised alternative to RL: rank positions as an oracle would that knows the reference.

The oracle's choice in a state: among the positions whose greedy symbol is right, the one with the largest margin
p₍₁₎ − p₍₂₎; for a policy that writes several positions per step, all of those that are right. The states come from the
policy's own episodes, so that it learns where it will be, and the loss is the cross-entropy of π_θ against the oracle.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from anyorder.core.step import Step


def right(taken: Step, references: Tensor) -> Tensor:
    """(n, L) the masked positions whose greedy symbol is the reference's. References (n, R), R ≥ L."""
    view, masked = taken.judged, taken.before.masked
    assert view is not None
    if references.shape[1] < masked.shape[1]:
        raise ValueError(
            f"a canvas of {masked.shape[1]} positions and references of {references.shape[1]}: the oracle needs "
            "canvases of the reference's length"
        )
    return masked & (view.token == references[:, : masked.shape[1]])


def oracle(taken: Step, references: Tensor) -> Tensor:
    """(n, L) the position to write next; none in rows where no greedy symbol is right."""
    good = right(taken, references)
    assert taken.judged is not None and taken.judged.margin is not None
    best = taken.judged.margin.masked_fill(~good, -torch.inf).argmax(-1, keepdim=True)
    return torch.zeros_like(good).scatter(1, best, True) & good


def ranking_loss(log_pi: Tensor, teacher: Tensor) -> Tensor:
    """−mean log π(teacher's position) over the time steps that have one.  (B, M), (B, M) bool → scalar"""
    known = teacher.any(-1)
    return -torch.where(teacher, log_pi, 0.0).sum() / known.sum().clamp_min(1)


def writing_loss(scores: Tensor, candidates: Tensor, teacher: Tensor) -> Tensor:
    """−mean log p(teacher's yes or no) over candidates, p(yes) = σ(f_i).  (B, M) × 3 → scalar"""
    return binary_cross_entropy_with_logits(scores[candidates], teacher[candidates].float())
