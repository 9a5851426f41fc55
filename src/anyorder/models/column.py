"""One further column of a decoder that keeps keys and values: what `Transformer.forward` computes, in fewer operations.

A step of a few rows is many small operations, and most of what one takes is the call. So here a column is a matrix
(N, D), weights are looked up once and not in every step, and a row's single query is attended to by plain products.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.layers import FEW, formula_is_faster, gelu_by_formula
from anyorder.models.memory import Cache, Memory, unseen
from anyorder.native import Stack

SEVERAL = 4  # rows from which on plain products are faster than the fused kernel

Map = Callable[[Tensor], Tensor]
Attended = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


class Layer(NamedTuple):
    """The maps of one layer, (N, …) → (N, …) each."""

    qkv: Map
    out: Map
    norm: Map
    cross_q: Map
    cross_out: Map
    cross_norm: Map
    widen: Map
    narrow: Map
    ffn_norm: Map


class Column:
    """The layers of a decoder beside an encoder, as they are now: made anew for every text that is begun."""

    def __init__(self, decoder: Any) -> None:
        self.post: bool = decoder.post
        self.approximate: str = decoder.ffns[0].approximate
        self.wide: int = decoder.architecture.ffn
        self.plain = self.approximate == "none" and formula_is_faster(decoder.proj_bias)
        self.tables = (
            decoder.embeddings.weight.detach(), decoder.position_embeddings.weight.detach(),
            decoder.lang_embeddings.weight.detach(),
        )  # fmt: skip
        self.norm, self.last = _map(decoder.layer_norm_emb), _map(decoder.final_norm)
        parts = (
            decoder.attentions, decoder.layer_norm1, decoder.encoder_attn, decoder.layer_norm15,
            decoder.ffns, decoder.layer_norm2,
        )  # fmt: skip
        self.layers = [
            Layer(
                _map(own.qkv_lin), _map(own.out_lin), _map(norm),
                _map(cross.q_lin), _map(cross.out_lin), _map(cross_norm),
                _map(ffn.lin1), _map(ffn.lin2), _map(ffn_norm),
            )
            for own, norm, cross, cross_norm, ffn, ffn_norm in zip(*parts, strict=True)
        ]  # fmt: skip
        self.vectors = all(type(part.qkv_lin) is nn.Linear for part in decoder.attentions)  # int8 takes matrices only
        self.native = Stack.of(decoder)

    def embed(self, tokens: Tensor, places: Tensor | int, languages: Tensor) -> Tensor:
        """`Transformer.embed` of one symbol in each row, (N,) and languages (N, 1): (N, D)."""
        symbols, positions, tongues = self.tables
        place = positions[places] if isinstance(places, int) else torch.embedding(positions, places)
        return self.norm(torch.embedding(symbols, tokens) + place + torch.embedding(tongues, languages[:, 0]))

    def __call__(self, x: Tensor, places: Tensor | int, visible: Tensor | None, cache: Cache, memory: Memory) -> Tensor:
        """Embedded symbols (N, D) at `places`, the same in all rows or each row's own (N,) → their states (N, D).

        `visible` (N, columns) bool: which kept columns a row sees; None: all up to its place.
        """
        if self.native is not None:
            at = torch.full((len(x),), places) if isinstance(places, int) else places
            return self.last(self.native.column(x, at, cache.whole, memory.whole, memory.real))
        (N, D), post, act = x.shape, self.post, self.gelu(len(x))
        own, others = None if visible is None else unseen(visible, cache.whole), memory.unseen
        few = N < SEVERAL and own is None and others is None
        attended = (fused if few else by_products)(N * cache.whole.shape[3], cache.whole.shape[5])
        x = x[0] if N == 1 and self.vectors else x  # a vector takes part in cheaper products
        for layer, kept, (keys, values) in zip(self.layers, cache.open(places), memory.flat, strict=True):
            qkv = layer.qkv(x if post else layer.norm(x))  # (N, 3D)
            kept.put(qkv[..., D:])
            x = x + layer.out(attended(qkv[..., :D], kept.keys, kept.values, own))
            x = layer.norm(x) if post else x
            q = layer.cross_q(x if post else layer.cross_norm(x))
            x = x + layer.cross_out(attended(q, keys, values, others))
            x = layer.cross_norm(x) if post else x
            x = x + layer.narrow(act(layer.widen(x if post else layer.ffn_norm(x))))
            x = layer.ffn_norm(x) if post else x
        return self.last(x).view(N, D)

    def gelu(self, rows: int) -> Map:
        """GELU of so many rows."""
        if self.plain and rows * self.wide <= FEW:
            return gelu_by_formula
        return partial(F.gelu, approximate=self.approximate)


def fused(rows: int, d: int) -> Attended:
    """softmax(q·k / √d)·v of one query in each row, all of whose keys are seen: (N, D) over (1, N·H, S, d); (N, D)."""
    each, attention = (1, rows, 1, d), F.scaled_dot_product_attention

    def attended(q: Tensor, keys: Tensor, values: Tensor, unseen: Tensor | None) -> Tensor:
        return attention(q.reshape(each), keys, values).view(q.shape)

    return attended


def by_products(rows: int, d: int) -> Attended:
    """softmax(q·k / √d + unseen)·v, as `fused`: plain products of small matrices."""

    def attended(q: Tensor, keys: Tensor, values: Tensor, unseen: Tensor | None) -> Tensor:
        bias, beta = (q.new_empty(()), 0) if unseen is None else (unseen, 1)
        scores = torch.baddbmm(bias, q.reshape(rows, 1, d), keys[0].transpose(1, 2), beta=beta, alpha=d**-0.5)
        return torch.bmm(scores.softmax(-1), values[0]).view(q.shape)

    return attended


def _map(module: Any) -> Map:
    """The map of a module, without what a call of it looks up: another arithmetic (int8) stays as it is."""
    if type(module) is nn.Linear:
        weight, bias = module.weight.detach(), module.bias.detach()
        across = weight.t()
        return lambda x: torch.addmv(bias, weight, x) if x.dim() == 1 else torch.addmm(bias, x, across)
    if type(module) is nn.LayerNorm:
        shape, scale, shift, eps = module.normalized_shape, module.weight.detach(), module.bias.detach(), module.eps
        return lambda x: torch.layer_norm(x, shape, scale, shift, eps)
    return module  # type: ignore[no-any-return]
