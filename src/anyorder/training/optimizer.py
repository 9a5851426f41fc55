"""Adam and Muon with a warm-up, inverse-square-root and final linear decay; and an average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def learning_rate(step: int, peak: float, warmup: int, total: int, cooldown: int, schedule: str) -> float:
    """Rate of update `step` (from 0): linear up to `peak`, then ∝ 1/√step or constant, then linearly to 0."""
    s = step + 1
    rate = peak * min(1.0, s / max(warmup, 1))
    if schedule == "inverse-sqrt" and s > warmup:
        rate = peak * math.sqrt(max(warmup, 1) / s)
    return rate * min(1.0, (total - step) / cooldown) if cooldown else rate


def orthogonalised(g: Tensor, iterations: int = 5, low: bool = False) -> Tensor:
    """The nearest semi-orthogonal matrices U Vᵀ to g = U S Vᵀ, roughly, for a batch (B, m, n) with m ≤ n.

    A quintic Newton–Schulz iteration X ← aX + (bA + cA²)X, A = XXᵀ, that sends all singular values near 1; in bfloat16
    where `low`.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x: Tensor = g / (g.norm(dim=(1, 2), keepdim=True) + 1e-7)
    x = x.bfloat16() if low else x
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.to(g.dtype)


def shared_out(g: Tensor, low: bool = False) -> Tensor:
    """`orthogonalised`, each process doing its share of the batch: all have the same gradients, so none need do all."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return orthogonalised(g, low=low)
    world, rank = dist.get_world_size(), dist.get_rank()
    share = -(-len(g) // world)
    mine = torch.zeros(share, *g.shape[1:], dtype=g.dtype, device=g.device)
    some = g[rank * share : (rank + 1) * share]
    if len(some):
        mine[: len(some)] = orthogonalised(some, low=low)
    parts = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(parts, mine)
    return torch.cat(parts)[: len(g)]


class Muon(torch.optim.Optimizer):
    """Momentum whose update of each matrix is orthogonalised (Jordan et al. 2024), scaled to Adam's usual size.

    For the weight matrices of linear layers only; everything else is left to Adam. Parameters of one shape are
    stacked and treated together.
    """

    def __init__(
        self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.95, decay: float = 0.0, low: bool = False
    ):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "decay": decay})
        self.low = low  # products in bfloat16

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[tuple[nn.Parameter, Tensor]]] = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(buffer, group["momentum"])  # Nesterov
                shapes.setdefault(p.shape, []).append((p, update))
            for (rows, columns), pairs in shapes.items():
                parts = rows // columns if rows > columns and rows % columns == 0 and rows // columns in (2, 3) else 1
                g = torch.stack([u for _, u in pairs]).view(-1, rows // parts, columns)  # fused q, k, v apart
                wide = g.shape[1] <= g.shape[2]
                x = shared_out(g if wide else g.mT, self.low)
                x = (x if wide else x.mT).reshape(len(pairs), rows, columns)
                scale = 0.2 * math.sqrt(max(rows // parts, columns))  # root mean square of 0.2, as Adam's
                for (p, _), update in zip(pairs, x.unbind(0), strict=True):
                    p.mul_(1 - group["lr"] * group["decay"]).add_(update, alpha=-group["lr"] * scale)


def optimizers(
    model: nn.Module, kind: str, betas: tuple[float, float], decay: float, low: bool = False
) -> list[torch.optim.Optimizer]:
    """Adam for all, or Muon for the matrices of linear layers and Adam for the rest; `low`: Muon in bfloat16."""
    if kind not in ("adam", "muon"):
        raise ValueError(f"optimizer must be 'adam' or 'muon', not {kind!r}")
    matrices = [m.weight for m in model.modules() if isinstance(m, nn.Linear)] if kind == "muon" else []
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    out: list[torch.optim.Optimizer] = [torch.optim.Adam(rest, lr=0.0, betas=betas, fused=True)]
    return [*out, Muon(matrices, lr=0.0, decay=decay, low=low)] if matrices else out


class Average:
    """An exponential moving average of the weights, with a short memory at first: rate min(decay, (1+n)/(10+n))."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.count = decay, 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the averages towards a model's weights."""
        keep = min(self.decay, (1 + self.count) / (10 + self.count))
        self.count += 1
        parameters = dict(model.named_parameters())
        torch._foreach_lerp_(list(self.weights.values()), [parameters[n] for n in self.weights], 1 - keep)
