"""The parts of a Transformer's layer: attention within a text and to another, the feed-forward half, dropout."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.architecture import Architecture
from anyorder.native import InPanels


class _CheapDropout(torch.autograd.Function):
    """x · m / (1 − p) with eight elements of m from each 64-bit random number: several times faster on a CPU."""

    @staticmethod
    def forward(ctx, x: Tensor, threshold: int) -> Tensor:  # type: ignore[no-untyped-def]
        words = torch.randint(-(2**63), 2**63 - 1, ((x.numel() + 7) // 8,), device=x.device)
        keep = words.view(torch.uint8)[: x.numel()].view(x.shape).ge(threshold).to(x.dtype)
        keep *= 256 / (256 - threshold)
        ctx.save_for_backward(keep)
        return x * keep

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        (keep,) = ctx.saved_tensors
        return grad * keep, None


class Dropout(nn.Module):
    """Dropout whose probability is rounded to a 256th, so that one random byte an element is enough."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be in [0, 1), not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x with a share p of its entries 0 and the others scaled up, while training."""
        threshold = round(self.p * 256)
        if not self.training or threshold == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        out: Tensor = _CheapDropout.apply(x.contiguous(), threshold)  # type: ignore[no-untyped-call]
        return out

    def extra_repr(self) -> str:
        """The words that print shows."""
        return f"p={self.p}"


class Attention(nn.Module):
    """Multi-head self-attention; queries, keys and values are one projection."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.heads, self.dropout = a.heads, a.attention_dropout
        self.qkv_lin = nn.Linear(a.dim, 3 * a.dim)
        self.out_lin = nn.Linear(a.dim, a.dim)

    def project(self, x: Tensor, queries: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """x (N, L, D) → q, k, v, each (N, H, L, D/H); q of `queries` (N, C, D) if they are given."""
        N, L, D = x.shape
        if queries is None:
            q, k, v = self.qkv_lin(x).view(N, L, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
            return q, k, v
        q, kv = self._apart(queries, x)
        k, v = kv.view(N, L, 2, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        return q.view(N, -1, self.heads, D // self.heads).transpose(1, 2), k, v

    def _apart(self, queries: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """The fused projection as two: queries (N, C, D) → (N, C, D), x (N, L, D) → keys and values (N, L, 2D)."""
        D = x.shape[-1]
        if isinstance(self.qkv_lin, InPanels):
            return self.qkv_lin.part(queries, 0, D), self.qkv_lin.part(x, D, 3 * D)
        weight, bias = self.qkv_lin.weight, self.qkv_lin.bias
        return F.linear(queries, weight[:D], bias[:D]), F.linear(x, weight[D:], bias[D:])

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """q (N, H, L, D/H) over k, v (N, H, S, D/H); `mask` broadcasts to (N, H, L, S), true where visible."""
        p = self.dropout if self.training else 0.0
        if not (p or causal) and q.device.type == "cpu" and torch.is_grad_enabled():
            y = attended(q, k, v, mask)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal)
        out: Tensor = self.out_lin(y.transpose(1, 2).flatten(2))
        return out


def attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q kᵀ / √d) v in float32: with its gradient, on a CPU, faster than the fused kernel for short texts."""
    with torch.autocast("cpu", enabled=False):
        q, k, v = q.float(), k.float(), v.float()
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        out: Tensor = scores.softmax(-1) @ v
        return out


class CrossAttention(Attention):
    """Attention over a memory whose keys and values are projected once."""

    def __init__(self, a: Architecture) -> None:
        nn.Module.__init__(self)
        self.heads, self.dropout = a.heads, a.attention_dropout
        self.q_lin = nn.Linear(a.dim, a.dim)
        self.kv_lin = nn.Linear(a.dim, 2 * a.dim)
        self.out_lin = nn.Linear(a.dim, a.dim)

    def memory(self, x: Tensor) -> Tensor:
        """Encoder states (N, S, D) → keys and values, (2, N, H, S, D/H)."""
        N, S, D = x.shape
        both: Tensor = self.kv_lin(x).view(N, S, 2, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        return both

    def queries(self, x: Tensor) -> Tensor:
        """(N, L, D) → (N, H, L, D/H)."""
        N, L, D = x.shape
        q: Tensor = self.q_lin(x).view(N, L, self.heads, D // self.heads).transpose(1, 2)
        return q


class FeedForward(nn.Module):
    """GELU(x W₁ + b₁) W₂ + b₂."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(a.dim, a.ffn), nn.Linear(a.ffn, a.dim)
        self.approximate = "none" if a.gelu == "erf" else "tanh"

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D), position by position."""
        out: Tensor = self.lin2(F.gelu(self.lin1(x), approximate=self.approximate))
        return out
