"""The paper's baseline: encoder and causal decoder, with an exact key/value cache inside the context."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from anyorder.core.ragged import joined
from anyorder.models.memory import Cache, Memory
from anyorder.models.transformer import Architecture, Transformer, grow
from anyorder.models.translation import Source, SpecialIds, check_length, delimited, language_rows


@dataclass
class _Seen:
    """What the last call computed: the decoder's inputs, their keys and values, and the states that came out."""

    inputs: Tensor  # (N, L)
    cache: Cache
    states: Tensor  # (N, L, D), all three valid in their first cache.filled columns

    def take(self, rows: Tensor) -> _Seen:
        return _Seen(self.inputs[rows], self.cache.take(rows), self.states[rows])

    def join(self, *others: _Seen) -> _Seen:
        all_ = (self, *others)
        cache = self.cache.join(*(s.cache for s in others))
        return _Seen(joined([s.inputs for s in all_]), cache, joined([s.states for s in all_]))


@dataclass
class CausalContext:
    """The encoded source, one row a hypothesis, and a memo of the target prefix that was last run."""

    memory: Memory
    target_lang: Tensor  # (N, 1)
    seen: _Seen | None = field(default=None, repr=False)

    def take(self, rows: Tensor) -> CausalContext:
        """These rows."""
        seen = None if self.seen is None else self.seen.take(rows)
        return CausalContext(self.memory.take(rows), self.target_lang[rows], seen)

    @property
    def width(self) -> int:
        """Columns of the source, with padding."""
        return self.memory.width

    def trim(self) -> CausalContext:
        """Without the columns that are padding in every row."""
        return replace(self, memory=self.memory.trim())

    def join(self, *others: CausalContext) -> CausalContext:
        """These rows, then the others'."""
        all_ = (self, *others)
        seen = [c.seen for c in all_ if c.seen is not None]  # what not all have seen is run again
        memory, languages = self.memory.join(*(c.memory for c in others)), torch.cat([c.target_lang for c in all_])
        return CausalContext(memory, languages, seen[0].join(*seen[1:]) if len(seen) == len(all_) else None)


class Autoregressive(nn.Module):
    """p(y_i | y_<i, X). The target-language embedding tells the decoder which language to write.

    Seen as a `Model`: `hidden(context, tokens)[:, i]` predicts `tokens[:, i]` from `tokens[:, :i]`; it is zero where
    a masked symbol comes before i, as nothing is defined there. `</s>` is an ordinary symbol that ends a target.
    """

    kind = "autoregressive"

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
        states = self.encoder(tokens, None, languages, mask)
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
        rows, width = tokens.shape
        check_length(width, self.architecture.positions, "a target")
        inputs = self.shifted(tokens)
        # Column i is defined for a row if its inputs 0…i hold no mask.
        defined = inputs.ne(self.mask_id).long().cumprod(1).bool()  # (N, L)
        end = int(defined.sum(1).max()) if rows else 0
        seen = context.seen
        if seen is None or seen.inputs.shape[1] < width:
            cache = self.decoder.new_cache(rows, width)
            states = self.decoder.proj_bias.new_zeros(rows, width, self.architecture.dim)
            seen = context.seen = _Seen(inputs.clone(), cache, states)
        start = min(self._agreement(seen, inputs), end)
        seen.cache.filled = start
        if start < end:
            columns = torch.arange(start, end, device=tokens.device)
            mask = None
            if end - start > 1:
                mask = torch.arange(end, device=tokens.device) <= columns[:, None]  # (new, end)
            seen.states[:, start:end] = self.decoder(
                inputs[:, start:end], columns, context.target_lang, mask, memory=context.memory, cache=seen.cache
            )
            seen.inputs = torch.cat([inputs, seen.inputs[:, width:]], 1)
        return seen.states[:, :width] * defined[:, :, None]

    @staticmethod
    def _agreement(seen: _Seen, inputs: Tensor) -> int:
        """How many first columns of the cache are still right for all rows."""
        filled = min(seen.cache.filled, inputs.shape[1])
        same = (seen.inputs[:, :filled] == inputs[:, :filled]).all(0)
        return int(same.long().cumprod(0).sum())

    def logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary logits of states: (M, D) → (M, V)."""
        return self.decoder.logits(hidden)
