"""The paper's baseline: encoder and causal decoder, with an exact key/value cache inside the context."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from anyorder.core.model import Rows
from anyorder.core.ragged import joined, widened
from anyorder.models.abilities import Translates
from anyorder.models.architecture import Architecture
from anyorder.models.memory import Cache, Memory, stay
from anyorder.models.transformer import Transformer, encoded, grow
from anyorder.models.translation import Source, SpecialIds, check_length, delimited, language_rows
from anyorder.native import Best, Stack

ROOM = 16  # columns by which what is seen grows


def _room(columns: int) -> int:
    """So many columns, and a few more."""
    return -(-columns // ROOM) * ROOM


@dataclass
class _Seen:
    """What the last call computed: the decoder's inputs, their keys and values, and the states that came out."""

    inputs: Tensor  # (N, L)
    cache: Cache
    states: Tensor  # (N, L, D)
    filled: Tensor  # (N,) int64: each row's first columns, in which all three are valid
    end: int | None = None  # that number, where it is known to be the same in all rows

    def take(self, rows: Tensor) -> _Seen:
        return _Seen(self.inputs[rows], self.cache.take(rows), self.states[rows], self.filled[rows], self.end)

    def only(self, rows: Tensor) -> _Seen:
        """As `take`, in place."""
        return _Seen(self.inputs[rows], self.cache.only(rows), stay(self.states, rows), self.filled[rows], self.end)

    def join(self, *others: _Seen) -> _Seen:
        all_ = (self, *others)
        cache, filled = self.cache.join(*(s.cache for s in others)), torch.cat([s.filled for s in all_])
        return _Seen(joined([s.inputs for s in all_]), cache, joined([s.states for s in all_]), filled)

    def nothing(self, rows: int) -> _Seen:
        """That many rows that were not run yet."""
        inputs, states = self.inputs.new_zeros(rows, 0), self.states.new_zeros(rows, 0, self.states.shape[2])
        return _Seen(inputs, self.cache.nothing(rows), states, self.filled.new_zeros(rows))

    def widened(self, width: int) -> _Seen:
        """With room for that many columns."""
        if self.inputs.shape[1] >= width:
            return self
        states = widened(self.states, (width, self.states.shape[2]))
        return _Seen(widened(self.inputs, (width,)), self.cache.widened(width), states, self.filled, self.end)

    def trim(self) -> _Seen:
        """Without the columns that no row has filled."""
        width = _room(int(self.filled.max())) if len(self.filled) else 0
        if width >= self.inputs.shape[1]:
            return self
        return _Seen(self.inputs[:, :width], self.cache.trim(width), self.states[:, :width], self.filled, self.end)

    def goes_on(self, tokens: Tensor, mask_id: int) -> bool:
        """Are these tokens (N, L) the ones that were seen and one more in every row, a mask behind it?"""
        end = self.end
        if end is None or end >= tokens.shape[1] or not torch.equal(tokens[:, : end - 1], self.inputs[:, 1:end]):
            return False
        masks: list[int] = (tokens[:, end - 1 : end + 1] == mask_id).sum(0).tolist()
        return masks == [0, len(tokens)]

    def agreement(self, inputs: Tensor) -> Tensor:
        """How many first columns of each row are still right for these inputs: (N,)."""
        width = min(self.inputs.shape[1], inputs.shape[1])
        same = (self.inputs[:, :width] == inputs[:, :width]).cumprod(1).sum(1)
        return torch.minimum(same, self.filled)


@dataclass
class CausalContext(Rows):
    """The encoded source, one row a hypothesis, and a memo of the target prefix that was last run."""

    cached = True  # a step runs one column of a row, not all of them
    memory: Memory
    target_lang: Tensor  # (N, 1)
    seen: _Seen | None = field(default=None, repr=False)

    def only(self, rows: Tensor) -> CausalContext:
        """As `take`, in place."""
        seen = None if self.seen is None else self.seen.only(rows)
        return CausalContext(self.memory.only(rows), self.target_lang[rows], seen)

    @property
    def width(self) -> int:
        """Columns of the source, with padding."""
        return self.memory.width

    def trim(self) -> CausalContext:
        """Without the columns that are padding in every row."""
        seen = None if self.seen is None else self.seen.trim()
        return replace(self, memory=self.memory.trim(), seen=seen)

    def join(self, *others: CausalContext) -> CausalContext:
        """These rows, then the others'."""
        all_ = (self, *others)
        memory, languages = self.memory.join(*(c.memory for c in others)), torch.cat([c.target_lang for c in all_])
        some = next((c.seen for c in all_ if c.seen is not None), None)
        if some is None:
            return CausalContext(memory, languages)
        first, *rest = [some.nothing(len(c.target_lang)) if c.seen is None else c.seen for c in all_]
        return CausalContext(memory, languages, first.join(*rest))


class Autoregressive(Translates, nn.Module):
    """p(y_i | y_<i, X). The target-language embedding tells the decoder which language to write.

    Seen as a `Model`: `hidden(context, tokens)[:, i]` predicts `tokens[:, i]` from `tokens[:, :i]`; it is zero where
    a masked symbol comes before i, as nothing is defined there. `</s>` is an ordinary symbol that ends a target.
    """

    kind = "autoregressive"
    causal = True

    def __init__(
        self,
        architecture: Architecture,
        special: SpecialIds,
        languages: tuple[str, ...],
        halves: tuple[Transformer, Transformer] | None = None,  # an encoder and a decoder that another model has too
    ) -> None:
        super().__init__()
        self.architecture, self.special, self.languages = architecture, special, languages
        if halves is None:
            halves = Transformer(architecture), Transformer(architecture.decoder, cross=True)
        self.encoder, self.decoder = halves
        self.encoder.proj_bias = self.decoder.proj_bias
        self.encoder.embeddings = self.decoder.embeddings
        self.mask_id, self.pad_id, self.eos_id = special.mask, special.pad, special.eos
        self.vocabulary = architecture.vocabulary
        self.stack: Stack | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy looks its own weights up."""
        return self.__dict__ | {"stack": None}

    def start_from(self, encoder: Transformer, decoder: Transformer) -> None:
        """Each half from one of another model; attention between them stays fresh where that has none."""
        grow(self.encoder, encoder)
        grow(self.decoder, decoder)

    def encode(self, source: Source) -> CausalContext:
        """What is known of the sources, computed once for all steps."""
        tokens, real = delimited(source.tokens, self.special)
        check_length(tokens.shape[1], self.architecture.positions, "a source")
        mask = None if bool(real.all()) else real[:, None, None]
        languages = language_rows(source.source_lang, len(tokens), tokens.device)
        states = encoded(self.encoder, tokens, real, languages)
        target_lang = language_rows(source.target_lang, len(tokens), tokens.device)
        return CausalContext(self.decoder.memory(states, mask), target_lang)

    def shifted(self, tokens: Tensor) -> Tensor:
        """(N, L) → the decoder's inputs `</s> y_1 … y_{L−1}` (N, L)."""
        return torch.cat([tokens.new_full((len(tokens), 1), self.special.eos), tokens[:, :-1]], 1)

    def states(self, context: CausalContext, tokens: Tensor) -> Tensor:
        """Every state of a fully known target in one pass, no cache: (N, L) → (N, L, D)."""
        out: Tensor = self.decoder(self.shifted(tokens), None, context.target_lang, causal=True, memory=context.memory)
        return out

    def hidden(self, context: CausalContext, tokens: Tensor) -> Tensor:
        """States (N, L, D) of the columns as a causal decoder sees them; what was seen before is not run again."""
        seen, ends = self._run(context, tokens)
        width, wide = tokens.shape[1], min(tokens.shape[1], seen.states.shape[1])
        defined = torch.arange(wide, device=tokens.device) < ends[:, None]
        return widened(seen.states[:, :wide] * defined[:, :, None], (width, seen.states.shape[2]))

    def hidden_at(self, context: CausalContext, tokens: Tensor, n: Tensor, i: Tensor) -> Tensor:
        """The states of entries (n, i) only: (M, D)."""
        seen, ends = self._run(context, tokens)
        if seen.end is not None and int(i.max()) < seen.end:
            return seen.states[n, i]
        defined = i < ends[n]
        return seen.states[n, torch.where(defined, i, 0)] * defined[:, None]

    def _run(self, context: CausalContext, tokens: Tensor) -> tuple[_Seen, Tensor]:
        """What is seen of these tokens, and how many first columns of a row are defined (N,): up to its first mask."""
        rows, width = tokens.shape
        check_length(width, self.architecture.positions, "a target")
        last = context.seen
        if last is not None and not torch.is_grad_enabled() and last.goes_on(tokens, self.mask_id):
            assert last.end is not None
            context.seen = seen = last.widened(min(width, _room(last.end + 1)))
            self._extend_by_one(context, seen, tokens[:, last.end - 1], seen.filled + 1, last.end)
            return seen, seen.filled
        inputs = self.shifted(tokens)
        ends = inputs.ne(self.mask_id).cumprod(1).sum(1)
        low, high = (int(x) for x in ends.aminmax()) if rows else (0, 0)
        wide = min(width, _room(high))
        if context.seen is None:
            self.stack = None  # weights may have changed since the last text
            states = self.decoder.proj_bias.new_zeros(rows, wide, self.architecture.dim)
            seen = _Seen(inputs[:, :wide], self.decoder.new_cache(rows, wide), states, torch.zeros_like(ends))
        else:
            seen = context.seen.widened(wide)
        new = int((ends - seen.agreement(inputs)).max()) if rows else 0
        if new > 0:
            self._extend(context, seen, inputs, ends, new, low, high)
        seen.end = high if low == high and new > 0 else None
        context.seen = seen
        return seen, ends

    def _extend(
        self, context: CausalContext, seen: _Seen, inputs: Tensor, ends: Tensor, new: int, first: int, last: int
    ) -> None:
        """Run the last `new` columns of what is defined of each row (it ends at `ends`, between first and last)."""
        if new == 1 and first > 0 and not torch.is_grad_enabled():
            if first == last:
                self._extend_by_one(context, seen, inputs[:, last - 1], ends, last - 1)
            else:
                self._extend_each_by_one(context, seen, inputs, ends)
            return
        wide, columns, mask = seen.inputs.shape[1], slice(last - new, last), None
        if first == last:  # all rows are equally far
            run: Tensor | slice = columns
            these = inputs[:, columns]
            if new > 1:
                mask = torch.ones(new, columns.stop, dtype=torch.bool, device=inputs.device).tril(columns.start)
        else:
            run = (ends - new).clamp_min(0)[:, None] + torch.arange(new, device=inputs.device)  # (N, C)
            these = inputs.gather(1, run)
            mask = (torch.arange(wide, device=inputs.device) <= run[:, :, None])[:, None]  # (N, 1, C, L)
        states = self.decoder(these, run, context.target_lang, mask, memory=context.memory, cache=seen.cache)
        if isinstance(run, slice):
            seen.states[:, run] = states
        else:
            seen.states.scatter_(1, run[:, :, None].expand(states.shape), states)
        seen.inputs, seen.filled = widened(inputs[:, :wide], (wide,)), ends

    def _extend_by_one(self, context: CausalContext, seen: _Seen, symbols: Tensor, ends: Tensor, place: int) -> None:
        """As `_extend` by one column, the same in all rows, in which `symbols` (N,) stand."""
        seen.states[:, place] = self._column(context, seen, symbols, torch.full_like(ends, place), place)
        seen.inputs[:, place] = symbols
        seen.filled, seen.end = ends, place + 1

    def _extend_each_by_one(self, context: CausalContext, seen: _Seen, inputs: Tensor, ends: Tensor) -> None:
        """The same where rows are at different columns."""
        wide, places = seen.inputs.shape[1], ends - 1
        states = self._column(context, seen, inputs.gather(1, places[:, None])[:, 0], places)
        seen.states.scatter_(1, places[:, None, None].expand(-1, 1, states.shape[1]), states[:, None])
        seen.inputs, seen.filled = widened(inputs[:, :wide], (wide,)), ends

    def _column(
        self, context: CausalContext, seen: _Seen, symbols: Tensor, places: Tensor, same: int | None = None
    ) -> Tensor:
        """States (N, D) of one further column of each row: symbols (N,) at places (N,), all `same` if that is given."""
        decoder, stack = self.decoder, self.stack or Stack.of(self.decoder)
        run = places[:, None] if same is None else slice(same, same + 1)
        if stack is not None:
            self.stack = stack  # weights are looked up once a text, not once a column
            x, memory = decoder.embed(symbols[:, None], run, context.target_lang)[:, 0], context.memory
            out: Tensor = decoder.final_norm(stack.column(x, places, seen.cache.whole, memory.whole, memory.real))
            return out
        visible = None
        if same is None:
            visible = (torch.arange(seen.inputs.shape[1], device=places.device) <= places[:, None])[:, None, None]
        states: Tensor = decoder(
            symbols[:, None], run, context.target_lang, visible, memory=context.memory, cache=seen.cache
        )
        return states[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary logits of states: (M, D) → (M, V)."""
        return self.decoder.logits(hidden)

    def best(
        self, hidden: Tensor, banned: Tensor, never: float, now: Tensor | None = None, several: int = 0
    ) -> Best | None:
        """What `Transformer.best` says."""
        return self.decoder.best(hidden, banned, never, now, several)

    def likeliest(self, hidden: Tensor, banned: Tensor) -> tuple[Tensor, Tensor] | None:
        """What `Transformer.likeliest` says."""
        return self.decoder.likeliest(hidden, banned)
