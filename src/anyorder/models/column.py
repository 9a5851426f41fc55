"""One further column of a decoder that keeps keys and values: what `Transformer.forward` computes, in fewer operations.

A step of a few rows is many small operations, and most of what one takes is the call. So here a column is a matrix
(N, D), weights are looked up once and not in every step, and a row's single query is attended to by plain products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.memory import Cache, Memory, unseen
from anyorder.models.transformer import gelu

SEVERAL = 4  # rows from which on plain products are faster than the fused kernel

Map = Callable[[Tensor], Tensor]


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
        self.tables = (
            decoder.embeddings.weight, decoder.position_embeddings.weight, decoder.lang_embeddings.weight,
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

    def embed(self, tokens: Tensor, places: Tensor | int, languages: Tensor) -> Tensor:
        """`Transformer.embed` of one symbol in each row, (N,) and languages (N, 1): (N, D)."""
        symbols, positions, tongues = self.tables
        place = positions[places] if isinstance(places, int) else torch.embedding(positions, places)
        return self.norm(torch.embedding(symbols, tokens) + place + torch.embedding(tongues, languages[:, 0]))

    def __call__(self, x: Tensor, places: Tensor | int, visible: Tensor | None, cache: Cache, memory: Memory) -> Tensor:
        """Embedded symbols (N, D) at `places`, the same in all rows or each row's own (N,) → their states (N, D).

        `visible` (N, columns) bool: which kept columns a row sees; None: all up to its place.
        """
        D, post = x.shape[1], self.post
        own, others = None if visible is None else unseen(visible, cache.whole), memory.unseen
        for layer, kept, source in zip(self.layers, cache.open(places), memory.flat, strict=True):
            qkv = layer.qkv(x if post else layer.norm(x))  # (N, 3D)
            kept.put(qkv[:, D:])
            x = x + layer.out(attended(qkv[:, :D], kept.keys, kept.values, own))
            x = layer.norm(x) if post else x
            q = layer.cross_q(x if post else layer.cross_norm(x))
            x = x + layer.cross_out(attended(q, *source, others))
            x = layer.cross_norm(x) if post else x
            x = x + layer.narrow(gelu(layer.widen(x if post else layer.ffn_norm(x)), self.approximate))
            x = layer.ffn_norm(x) if post else x
        return self.last(x)


def attended(q: Tensor, keys: Tensor, values: Tensor, unseen: Tensor | None) -> Tensor:
    """softmax(q·k / √d + unseen)·v of one query in each row: (N, D) over (1, N·H, S, d); (N, D)."""
    _, rows, _, d = keys.shape
    if unseen is None and q.shape[0] < SEVERAL:
        return F.scaled_dot_product_attention(q.reshape(1, rows, 1, d), keys, values).view(q.shape)
    bias, beta = (q.new_empty(()), 0) if unseen is None else (unseen, 1)
    scores = torch.baddbmm(bias, q.reshape(rows, 1, d), keys[0].transpose(1, 2), beta=beta, alpha=d**-0.5)
    return torch.bmm(scores.softmax(-1), values[0]).view(q.shape)


def _map(module: Any) -> Map:
    """The map of a module, without what a call of it looks up: another arithmetic (int8) stays as it is."""
    if type(module) is nn.Linear:
        weight, bias = module.weight.t(), module.bias
        return lambda x: torch.addmm(bias, x, weight)
    if type(module) is nn.LayerNorm:
        shape, scale, shift, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, scale, shift, eps)
    return module  # type: ignore[no-any-return]
