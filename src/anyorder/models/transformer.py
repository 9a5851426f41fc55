"""The Transformer of XLM, small and fast: embeddings, layers, and a tied output, for every model of ours."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.architecture import Architecture
from anyorder.models.layers import Attention, CrossAttention, Dropout, FeedForward
from anyorder.models.memory import Cache, Memory
from anyorder.native import Best, InPanels, Stack, remember

Columns = Tensor | tuple[int, int] | None  # (N, C) int64, each row its own; or from, to, for all; or every one


class Transformer(nn.Module):
    """Tokens, positions and languages → hidden states. Parameters are named as in XLM (q, k, v fused)."""

    def __init__(self, a: Architecture, cross: bool = False) -> None:
        super().__init__()
        self.architecture, self.post = a, a.norm == "post"
        self.embeddings = nn.Embedding(a.vocabulary, a.dim)
        self.position_embeddings = nn.Embedding(a.positions, a.dim)
        self.lang_embeddings = nn.Embedding(a.languages, a.dim)
        self.layer_norm_emb = self._norm()
        self.attentions = nn.ModuleList(Attention(a) for _ in range(a.layers))
        self.layer_norm1 = nn.ModuleList(self._norm() for _ in range(a.layers))
        if cross:
            self.encoder_attn = nn.ModuleList(CrossAttention(a) for _ in range(a.layers))
            self.layer_norm15 = nn.ModuleList(self._norm() for _ in range(a.layers))
        self.ffns = nn.ModuleList(FeedForward(a) for _ in range(a.layers))
        self.layer_norm2 = nn.ModuleList(self._norm() for _ in range(a.layers))
        self.final_norm = self._norm() if a.norm == "pre" else nn.Identity()
        self.proj_bias = nn.Parameter(torch.zeros(a.vocabulary))  # the output's weight is `embeddings.weight`
        self.head: nn.Module | None = None  # the output in another arithmetic (int8)
        self.dropout = Dropout(a.dropout)
        self.apply(self._initialise)

    def _norm(self) -> nn.LayerNorm:
        return nn.LayerNorm(self.architecture.dim, eps=self.architecture.layer_norm_eps)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=self.architecture.dim**-0.5)
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)

    def embed(self, tokens: Tensor, positions: Tensor | slice | None, languages: Tensor) -> Tensor:
        """The first layer's input: (N, L, D)."""
        columns = slice(tokens.shape[1]) if positions is None else positions
        table = self.position_embeddings.weight
        places = table[columns] if isinstance(columns, slice) else torch.embedding(table, columns)
        x = torch.embedding(self.embeddings.weight, tokens) + places
        out: Tensor = self.layer_norm_emb(x + torch.embedding(self.lang_embeddings.weight, languages))
        return self.dropout(out) if self.training else out

    def _sum(self, x: Tensor, out: Tensor, norm: nn.Module) -> Tensor:
        """The residual sum of a sub-layer's input and its output, with the layer norm after it in a "post" model."""
        total = x + self.dropout(out)
        return norm(total) if self.post else total  # type: ignore[no-any-return]

    def forward(
        self,
        tokens: Tensor,  # (N, L) int64
        positions: Tensor | slice | None,  # (N, L); or columns that are the same for all rows; None: 0, 1, 2 …
        languages: Tensor,  # (N, L) or (N, 1)
        mask: Tensor | None = None,  # broadcasts to (N, H, L, S), true where a key is visible
        causal: bool = False,
        memory: Memory | None = None,
        cache: Cache | None = None,
        columns: Columns = None,
        before: Tensor | None = None,  # (N, S, D)
    ) -> Tensor:
        """Hidden states (N, L, D). With a cache, `tokens` are the columns `positions` of it, and are put there.

        `columns` asks for the states of certain columns only, (N, C, D): the last layer then computes no others.
        `before` are embeddings of further columns, which stand before the columns of `tokens`.
        """
        x = self.embed(tokens, positions, languages)
        x = x if before is None else torch.cat([before, x], 1)
        same = mask is None or (mask.dim() == 4 and mask.shape[1] == 1)  # for all heads
        if cache is None and same and not self.training and (stack := Stack.of(self)) is not None:
            return self._by_kernels(stack, x, mask, causal, memory, columns)
        last, post = self.architecture.layers - 1, self.post
        own: Any
        for i, (own, norm1, ffn, norm2) in enumerate(
            zip(self.attentions, self.layer_norm1, self.ffns, self.layer_norm2, strict=True)
        ):
            read = columns if i == last else None
            seen = mask if read is None else _rows_of(mask, read)
            kept, h = at_columns(x, read), x if post else norm1(x)
            q, k, v = own.project(h, None if read is None else kept if post else at_columns(h, read))
            if cache is not None and positions is not None:
                k, v = cache.put(i, positions, k, v)
            x = self._sum(kept, own.attend(q, k, v, seen, causal), norm1)
            if memory is not None:
                cross: Any = self.encoder_attn[i]
                norm: Any = self.layer_norm15[i]
                q = cross.queries(x if post else norm(x))
                x = self._sum(x, cross.attend(q, *memory.layers[i], memory.mask), norm)
            x = self._sum(x, ffn(x if post else norm2(x)), norm2)
        out: Tensor = self.final_norm(x)
        return out

    def _by_kernels(
        self, stack: Stack, x: Tensor, mask: Tensor | None, causal: bool, memory: Memory | None, columns: Columns
    ) -> Tensor:
        """The layers of `forward` and the final norm, by one call of the kernels."""
        N, L, D = x.shape
        if causal:
            mask = torch.ones(1, 1, L, L, dtype=torch.bool).tril()
        sight = None if mask is None else mask[:, 0].contiguous()
        if isinstance(columns, tuple):
            columns = torch.arange(*columns).expand(N, -1)
        columns = None if columns is None else columns.contiguous()
        whole, real = (None, None) if memory is None else (memory.whole, memory.real)
        ends, C = L * torch.arange(1, N + 1), L if columns is None else columns.shape[1]
        states: Tensor = self.final_norm(stack.run(x.view(-1, D), ends, sight, whole, real, columns))
        return states.view(N, C, D)

    def memory(self, states: Tensor, mask: Tensor | None) -> Memory:
        """Encoder states (N, S, D) as this decoder's layers will look at them."""
        each: Any = self.encoder_attn
        whole = remember([attention.kv_lin for attention in each], states, self.architecture.heads)
        if whole is None:
            whole = torch.stack([attention.memory(states) for attention in each])
        return Memory(whole, mask, torch.arange(whole.shape[2], device=whole.device))

    def new_cache(self, rows: int, length: int) -> Cache:
        """Room for the keys and values of canvases of some length."""
        a = self.architecture
        return Cache(self.proj_bias.new_zeros(a.layers, 2, rows, a.heads, length, a.dim // a.heads))

    def logits(self, hidden: Tensor) -> Tensor:
        """(M, D) → (M, V)."""
        if self.head is not None:
            out: Tensor = self.head(hidden)
            return out
        return F.linear(hidden, self.embeddings.weight, self.proj_bias)

    def best(
        self, hidden: Tensor, banned: Tensor, never: float, now: Tensor | None = None, several: int = 0
    ) -> Best | None:
        """Statistics of the distributions at states (M, D), without logits in memory; None where logits are needed.

        Logits of the symbols `banned` are `never`; `now` (M,) are the symbols in place, if log p of them is wanted.
        `several` of the best are told, with their log p.
        """
        return self.head.best(hidden, banned, never, now, several) if isinstance(self.head, InPanels) else None

    def likeliest(self, hidden: Tensor, banned: Tensor) -> tuple[Tensor, Tensor] | None:
        """The most probable symbol of each state (M, D) but for those `banned`, and its logit; None as for `best`."""
        return self.head.likeliest(hidden, banned) if isinstance(self.head, InPanels) else None


def at_columns(x: Tensor, columns: Columns) -> Tensor:
    """x (N, L, D) at columns: (N, C, D)."""
    if columns is None:
        return x
    if isinstance(columns, tuple):
        return x[:, columns[0] : columns[1]]
    N, L, D = x.shape
    rows = columns + L * torch.arange(N, device=x.device)[:, None]  # of the flattened x: several times faster than
    return x.flatten(0, 1).index_select(0, rows.flatten()).view(N, -1, D)  # a gather with the columns repeated D times


def _rows_of(mask: Tensor | None, columns: Columns) -> Tensor | None:
    """What `columns` see of a mask that says it for every column, (N, 1, L, S) → (N, 1, C, S)."""
    if mask is None or mask.dim() < 4 or mask.shape[2] == 1:
        return mask
    return at_columns(mask[:, 0], columns)[:, None]


BETWEEN = ("encoder_attn", "layer_norm15")  # parts that only a decoder beside an encoder has


def grow(model: Transformer, start: Transformer) -> None:
    """Weights of `start` into `model`, whose layers may be more or fewer: each takes the one at its relative depth.

    Attention to an encoder stays fresh where `start` has none, and is left out where `model` has none.
    """
    old, new = start.architecture.layers, model.architecture.layers
    have, wanted = start.state_dict(), model.state_dict()
    for name in wanted:
        part, _, rest = name.partition(".")
        number, _, what = rest.partition(".")
        source = f"{part}.{round(int(number) * (old - 1) / max(new - 1, 1))}.{what}" if number.isdigit() else name
        if name == "position_embeddings.weight":  # places beyond the last of `start` begin as that one
            table, places = have[source], torch.arange(len(wanted[name]))
            wanted[name] = table[places.clamp_max(len(table) - 1)]
        elif source in have:
            wanted[name] = have[source]
        elif part not in BETWEEN:
            raise ValueError(f"the model to start from has no {source!r}")
    model.load_state_dict(wanted)


PACK = 256  # tokens of a pack: beyond, attention to others that is thrown away costs more than padding would


def encoded(encoder: Transformer, tokens: Tensor, real: Tensor, languages: Tensor) -> Tensor:
    """States (N, S, D) of texts (N, S), of which `real` (N, S) is no padding; languages (N, 1)."""
    if bool(real.all()):
        states: Tensor = encoder(tokens, None, languages)
        return states
    if not encoder.training and (stack := Stack.of(encoder)) is not None:
        return _by_kernels(stack, encoder, tokens, real, languages)
    if encoder.training or int(real.sum()) > PACK:
        states = encoder(tokens, None, languages, real[:, None, None])
        return states
    n, i = real.nonzero(as_tuple=True)  # (M,) each
    own = (n[:, None] == n)[None, None]  # (1, 1, M, M)
    states = encoder(tokens[n, i][None], i[None], languages[n, 0][None], own)
    return states.new_zeros(*tokens.shape, states.shape[-1]).index_put_((n, i), states[0])


def _by_kernels(stack: Stack, encoder: Transformer, tokens: Tensor, real: Tensor, languages: Tensor) -> Tensor:
    """The same by kernels, which look at each text by itself: any number of them is packed."""
    n, i = real.nonzero(as_tuple=True)  # (M,) each
    x = encoder.embed(tokens[n, i][None], i[None], languages[n, 0][None])[0]
    states: Tensor = encoder.final_norm(stack.run(x, real.sum(1).cumsum(0)))
    return states.new_zeros(*tokens.shape, states.shape[-1]).index_put_((n, i), states)
