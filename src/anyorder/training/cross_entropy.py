"""Label-smoothed cross-entropy of an output layer, with its gradients found on the way: logits are never kept."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS = 512  # logits of that many rows are alive at a time


class _OutputLoss(torch.autograd.Function):
    """Σ_m −(1−s) log p_m[t_m] − s/V Σ_v log p_m[v], p_m = softmax(W h_m + b); and argmax_v p_m[v].

    The gradient with respect to the logits is p − (1−s) 1[t] − s/V, so forward can make all others of it at once.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        d_hidden, d_weight, d_bias = torch.empty_like(hidden), torch.zeros_like(weight), torch.zeros_like(bias)
        total, best = hidden.new_zeros(()), torch.empty_like(targets)
        for start in range(0, len(hidden), ROWS):
            some = slice(start, start + ROWS)
            h, t = hidden[some], targets[some, None]
            logits = F.linear(h, weight, bias)  # (ROWS, V)
            best[some] = logits.argmax(1)
            logp = torch.log_softmax(logits, 1)
            total -= (1 - smoothing) * logp.gather(1, t).sum() + (smoothing * logp.mean(1).sum() if smoothing else 0.0)
            d = logp.exp_()
            if smoothing:
                d.sub_(smoothing / d.shape[1])
            d.scatter_add_(1, t, d.new_full(t.shape, smoothing - 1))
            torch.mm(d, weight, out=d_hidden[some])
            d_weight.addmm_(d.mT, h)
            d_bias += d.sum(0)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        ctx.mark_non_differentiable(best)
        return total, best

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        scale = grads[0]
        return d_hidden * scale, d_weight * scale, d_bias * scale, None, None


def output_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """States (M, D) and targets (M,) → the sum of losses, a scalar, and the most probable symbols (M,)."""
    if torch.is_grad_enabled() and hidden.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
        loss, best = _OutputLoss.apply(hidden, weight, bias, targets, smoothing)  # type: ignore[no-untyped-call]
        return loss, best
    logits = F.linear(hidden, weight, bias)
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    return loss, logits.detach().argmax(1)
