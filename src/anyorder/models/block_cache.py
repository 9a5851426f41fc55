"""Key/value caches for block-wise decoding of diffusion LMs: exact for block-causal ones, else named approximate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.core.ragged import joined
from anyorder.errors import ModelError, PlanError, first_line
from anyorder.models.abilities import Abilities
from anyorder.models.diffusion_lm import DiffusionLM

UNKNOWN = -1  # in place of a symbol: nothing valid is kept of this column
NO_BLOCK = torch.iinfo(torch.int64).max


@dataclass(frozen=True)
class _Memo:
    """What was computed of each row. Tensors have one column more than the canvas, for what is not kept."""

    tokens: Tensor  # (N, L) the symbols that states, keys and values were computed from
    open: Tensor  # (N, L) bool: what was masked at first; blocks are counted over these
    block: Tensor  # (N,) the block that the row's last full pass was made for
    states: Tensor  # (N, L + 1, D)
    layers: list[tuple[Tensor, Tensor]]  # keys and values (N, H, L + 1, D/H) of each layer

    def take(self, rows: Tensor) -> _Memo:
        """Some rows; of one beyond those that are here nothing is known yet."""
        new = rows >= len(self.tokens)
        rows = rows.clamp_max(len(self.tokens) - 1)
        layers = [(k[rows], v[rows]) for k, v in self.layers]
        tokens, open_ = self.tokens[rows].masked_fill(new[:, None], UNKNOWN), self.open[rows] & ~new[:, None]
        return _Memo(tokens, open_, self.block[rows].masked_fill(new, UNKNOWN), self.states[rows], layers)

    def join(self, *others: _Memo, pad_id: int) -> _Memo:
        """These rows, then the others', as wide as the widest: columns after a row's end are padding."""
        all_ = (self, *others)
        tokens, open_ = joined([m.tokens for m in all_], pad_id), joined([m.open for m in all_])
        block, states = torch.cat([m.block for m in all_]), joined([m.states for m in all_])
        pairs = zip(*(m.layers for m in all_), strict=True)
        layers = [(joined([k for k, _ in each]), joined([v for _, v in each])) for each in pairs]
        return _Memo(tokens, open_, block, states, layers)

    def fit(self, width: int, pad_id: int) -> _Memo:
        """With `width` columns: further ones are padding; a row that had symbols in those that go is forgotten."""
        more = width - self.tokens.shape[1]
        if more == 0:
            return self
        if more > 0:
            layers = [(F.pad(k, (0, 0, 0, more)), F.pad(v, (0, 0, 0, more))) for k, v in self.layers]
            tokens, open_ = F.pad(self.tokens, (0, more), value=pad_id), F.pad(self.open, (0, more))
            return _Memo(tokens, open_, self.block, F.pad(self.states, (0, 0, 0, more)), layers)
        beyond = self.tokens[:, width:]
        lost = ((beyond != pad_id) & (beyond != UNKNOWN)).any(1, keepdim=True)
        tokens = self.tokens[:, :width].masked_fill(lost, UNKNOWN)
        layers = [(k[:, :, : width + 1], v[:, :, : width + 1]) for k, v in self.layers]
        return _Memo(tokens, self.open[:, :width], self.block, self.states[:, : width + 1], layers)


@dataclass
class BlockContext:
    """The cache of one generation, one row a hypothesis."""

    pad_id: int
    memo: _Memo | None = field(default=None, repr=False)

    def take(self, rows: Tensor) -> BlockContext:
        """These rows."""
        return BlockContext(self.pad_id, None if self.memo is None else self.memo.take(rows))

    def join(self, *others: BlockContext) -> BlockContext:
        """Rows of which nothing is known yet come last: what is kept of the others stays."""
        memos = [c.memo for c in (self, *others)]
        known = [m for m in memos if m is not None]
        if any(m is None for m in memos[: len(known)]):
            raise ModelError("rows that have not begun are joined to those that have, not the other way round")
        return BlockContext(self.pad_id, known[0].join(*known[1:], pad_id=self.pad_id) if known else None)


class _Columns:
    """A cache as transformers' attention layers use it: new keys and values take the place of those at `columns`."""

    def __init__(self, columns: Tensor, width: int, layers: list[tuple[Tensor, Tensor]]) -> None:
        self.columns, self.width, self.layers = columns, width, list(layers)

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """(N, H, W, D/H) each → everything known (N, H, width, D/H)."""
        if layer_idx == len(self.layers):
            shape = (*keys.shape[:2], self.width)
            self.layers.append((keys.new_zeros(*shape, keys.shape[3]), values.new_zeros(*shape, values.shape[3])))
        at, (k, v) = self.columns[:, None, :, None], self.layers[layer_idx]
        both = k.scatter(2, at.expand_as(keys), keys), v.scatter(2, at.expand_as(values), values)
        self.layers[layer_idx] = both
        return both


class BlockCached(Abilities, nn.Module):
    """A diffusion LM that computes only what changed since its last pass; everything else is read from the cache.

    Block-causal model (measured: columns before a multiple of `size` do not see those after it). Exact, with any
    decoder: recomputed are the blocks from the first changed symbol on, up to the end of the canvas (`"prefix"`) or
    of the last block that is asked for (`"dual"`).

    Bidirectional model, `approximate=True` (Fast-dLLM, Wu et al. 2025). When a row comes to a new block of `size`
    open positions, one full pass; then only that block and what follows it (`"prefix"`), or that block alone
    (`"dual"`), against keys, values and states of the other columns as they were in the full pass. A row in which
    one of those other columns changes has a full pass again.
    """

    def __init__(
        self, model: DiffusionLM, size: int, kind: Literal["prefix", "dual"] = "prefix", *, approximate: bool = False
    ) -> None:
        super().__init__()
        if kind not in ("prefix", "dual"):
            raise ValueError(f"a block cache is 'prefix' or 'dual', not {kind!r}")
        if size < 1:
            raise ValueError(f"the size of blocks must be a whole number of at least 1, got {size}")
        self.model, self.size, self.kind = model, size, kind
        self.mask_id, self.pad_id = model.mask_id, model.pad_id
        self.special_ids, self.tokenizer, self.max_length = model.special_ids, model.tokenizer, model.max_length
        model.check_window()
        self.exact = self._closed()
        if not self.exact and not approximate:
            raise ModelError(
                f"positions of this model see what comes after their block of {size} columns, so keys and values kept "
                "from an earlier step are an approximation: say approximate=True to accept it, or use a model with "
                "block-causal attention (`block=` of DiffusionLM) whose blocks fit into these"
            )
        self._check()

    def encode(self, source: Any = None) -> BlockContext:
        """A prompt is part of the canvas; a new context is an empty cache."""
        self.model.encode(source)
        return BlockContext(self.pad_id)

    def hidden(self, context: BlockContext, tokens: Tensor) -> Tensor:
        """(N, L) → (N, L, D). Of an approximate model, columns outside the block are as in the last full pass."""
        columns = self._column(torch.arange(tokens.shape[1], device=tokens.device))
        return self._states(context, tokens, torch.ones_like(tokens, dtype=torch.bool))[:, columns]

    def hidden_at(self, context: BlockContext, tokens: Tensor, n: Tensor, i: Tensor) -> Tensor:
        """Entries (n, i) → (M, D)."""
        asked = torch.zeros_like(tokens, dtype=torch.bool)
        asked[n, self._column(i)] = True
        return self._states(context, tokens, asked)[n, self._column(i)]

    def logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary logits of states: (M, D) → (M, V)."""
        return self.model.logits(hidden)

    def _column(self, i: Tensor) -> Tensor:
        """The column whose state speaks for position i."""
        return (i - 1).clamp_min(0) if self.model.shifted else i

    @torch.no_grad()
    def _states(self, context: BlockContext, tokens: Tensor, asked: Tensor) -> Tensor:
        """States (N, L + 1, D), valid at columns `asked` (N, L)."""
        self.model.check_length(tokens)
        memo, (n, width) = context.memo, tokens.shape
        if memo is None or len(memo.tokens) > n:
            memo = self._nothing(tokens)
        elif len(memo.tokens) < n:  # others have joined
            memo = memo.take(torch.arange(n, device=tokens.device))
        memo = memo.fit(width, self.pad_id)
        memo, wanted = self._since(memo, tokens, asked) if self.exact else self._block(memo, tokens)
        # Rows that need everything go apart, so that the others need not be as wide.
        whole = (wanted | (tokens == self.pad_id)).all(1)
        for group in (whole, ~whole):
            rows = (group & wanted.any(1)).nonzero()[:, 0]
            if len(rows):
                memo = self._pass(memo, tokens, wanted, rows)
        context.memo = memo
        return memo.states

    def _nothing(self, tokens: Tensor) -> _Memo:
        weight, (n, width) = self.model.head.weight, tokens.shape
        states = torch.zeros(n, width + 1, weight.shape[1], dtype=weight.dtype, device=tokens.device)
        unknown = torch.full_like(tokens, UNKNOWN)
        return _Memo(unknown, torch.zeros_like(tokens, dtype=torch.bool), unknown[:, 0], states, [])

    def _since(self, memo: _Memo, tokens: Tensor, asked: Tensor) -> tuple[_Memo, Tensor]:
        """Exact: the columns (N, L) from the block of the first change on, as far as anything is asked."""
        column = torch.arange(tokens.shape[1], device=tokens.device)
        changed = torch.where(memo.tokens != tokens, column, NO_BLOCK).amin(1, keepdim=True)
        last = torch.where(asked, column, UNKNOWN).amax(1, keepdim=True)
        if self.kind == "prefix":
            last = torch.full_like(last, tokens.shape[1])
        stale, reached = column // self.size >= changed // self.size, column // self.size <= last // self.size
        known = torch.where(stale, torch.where(reached, tokens, UNKNOWN), memo.tokens)
        return replace(memo, tokens=known), stale & reached & (tokens != self.pad_id)

    def _block(self, memo: _Memo, tokens: Tensor) -> tuple[_Memo, Tensor]:
        """Approximate: the columns (N, L) of the row's block (and after it), or all where the cache does not apply."""
        masked, real = tokens == self.mask_id, tokens != self.pad_id
        new = (masked & ~memo.open).any(1, keepdim=True)  # another canvas than the one before
        open_ = torch.where(new, masked, memo.open)
        block = (open_.long().cumsum(1) - 1) // self.size  # (N, L): −1 before the first open position
        current = torch.where(masked, block, NO_BLOCK).amin(1, keepdim=True)
        window = block == current if self.kind == "dual" else block >= current
        same = (window | (memo.tokens == tokens)).all(1, keepdim=True)
        keep = same & ~new & (current[:, 0] == memo.block)[:, None]
        if self.model.shifted:  # the column before a block speaks for the block's first position
            window = window | F.pad(window[:, 1:], (0, 1))
        wanted = (window | ~keep) & real
        known = torch.where(wanted | ~keep, tokens, memo.tokens)
        return replace(memo, tokens=known, open=open_, block=current[:, 0]), wanted

    def _pass(self, memo: _Memo, tokens: Tensor, wanted: Tensor, rows: Tensor) -> _Memo:
        """One forward pass of columns `wanted` (N, L) of some rows, against what is kept of the others."""
        tokens, wanted, everyone = tokens[rows], wanted[rows], len(rows) == len(tokens)
        length = tokens.shape[1]
        index = torch.arange(length, device=tokens.device)
        ragged = torch.where(wanted, index, length).sort(1).values  # a row that wants fewer computes the last column
        columns = ragged[:, : int(wanted.sum(1).max())]  # (n, W)
        padded = F.pad(tokens, (0, 1), value=self.pad_id)
        known = memo if everyone else memo.take(rows)
        cache = _Columns(columns, length + 1, known.layers)
        new: Tensor = self.model.body(
            input_ids=self.model.known(padded.gather(1, columns)),
            attention_mask=self.model.attention(padded != self.pad_id, columns),
            position_ids=columns.clamp_max(length - 1),
            past_key_values=cache,
            use_cache=True,
        ).logits
        states = known.states.scatter(1, columns[:, :, None].expand_as(new), new)
        if everyone:
            return replace(memo, states=states, layers=cache.layers)

        def put(old: Tensor | None, some: Tensor) -> Tensor:
            old = some.new_zeros(len(memo.tokens), *some.shape[1:]) if old is None else old
            return old.index_copy(0, rows, some)

        before: list[tuple[Tensor | None, Tensor | None]] = [*memo.layers] or [(None, None)] * len(cache.layers)
        layers = [(put(k, a), put(v, b)) for (k, v), (a, b) in zip(before, cache.layers, strict=True)]
        return replace(memo, states=put(memo.states, states), layers=layers)

    def _probe(self) -> Tensor:
        """Two blocks of ordinary symbols, as far as they fit: (1, L)."""
        width = min(2 * self.size, self.max_length or 2 * self.size)
        vocabulary = [i for i in range(self.model.head.weight.shape[0]) if i not in (self.mask_id, self.pad_id)]
        ids = [vocabulary[i % len(vocabulary)] for i in range(width)]
        return torch.tensor([ids], device=self.model.head.weight.device)

    @torch.no_grad()
    def _closed(self) -> bool:
        """Does the first block not change, to the last bit, with what is written in the second?"""
        tokens, first = self._probe(), self.size + self.model.shifted
        column = torch.arange(tokens.shape[1], device=tokens.device)
        other = torch.where(column < self.size, tokens, self.mask_id)
        a, b = (self.model.hidden(None, canvas)[:, :first] for canvas in (tokens, other))
        return torch.equal(a, b)

    @torch.no_grad()
    def _check(self) -> None:
        """Passes with the cache must equal the model's own: it may do otherwise with caches, masks or positions."""
        tokens = self._probe()
        column, row = torch.arange(tokens.shape[1], device=tokens.device), torch.zeros_like(tokens[0, :1])
        expected = self.model.hidden(None, tokens)
        try:
            memo = self._pass(self._nothing(tokens), tokens, column[None] >= 0, row)
            memo = self._pass(memo, tokens, column[None] >= len(column) // 2, row)  # nothing changed: the same again
        except (TypeError, AttributeError, RuntimeError, ValueError) as error:
            raise ModelError(f"this model takes no cache as transformers' own do: {first_line(error)}") from error
        tolerance = 1e-4 if expected.dtype == torch.float32 else 1e-1
        if not torch.allclose(memo.states[:, self._column(column)], expected, atol=tolerance, rtol=tolerance):
            raise ModelError("this model's states change when it is given a cache of its own keys and values")


def cached_by(model: Any, cache: str, size: int | None) -> BlockCached:
    """The model with a cache by its option's word; blocks are of `size` open positions, or those of the model."""
    if not isinstance(model, DiffusionLM):
        raise PlanError("cache is for diffusion LMs: leave it out")
    kind: Any = cache.removeprefix("approximate-")
    approximate = kind != cache
    size = model.block or size
    if size is None:
        raise PlanError("cache keeps what is known of blocks, so an order by blocks is needed: add among 'block(32)'")
    cached = BlockCached(model, size, kind, approximate=True)
    if not (cached.exact or approximate):
        raise PlanError(
            f"cache {cache!r} is exact for block-causal models alone, and positions of this one see what comes after "
            f"their block: take 'approximate-{cache}' to accept what that changes, or leave cache out"
        )
    return cached
