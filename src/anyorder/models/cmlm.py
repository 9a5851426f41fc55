"""A conditional masked model: the source is encoded once, a bidirectional decoder fills the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.core.model import Rows
from anyorder.models.abilities import Translates
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.memory import Memory
from anyorder.models.transformer import Columns, Transformer, encoded, grow
from anyorder.models.translation import (
    Source,
    SpecialIds,
    check_length,
    columns_of,
    delimited,
    language_rows,
)
from anyorder.native import Best


@dataclass(frozen=True)
class EncodedContext(Rows):
    """The encoded source, one row a hypothesis."""

    memory: Memory
    summary: Tensor  # (N, D) the state that lengths are predicted from; (N,) the length of the source
    target_lang: Tensor  # (N, 1)
    close: bool  # does </s> follow the target?

    @property
    def width(self) -> int:
        """Columns of the source, with padding."""
        return self.memory.width

    def trim(self) -> EncodedContext:
        """Without the columns that are padding in every row."""
        return replace(self, memory=self.memory.trim())


def sight(tokens: Tensor, real: Tensor, mask_id: int) -> Tensor:
    """Which columns each column sees: (N, 1, L, L) bool, from delimited tokens (N, L) and which of them are real.

    A masked column sees all. A written one sees what is written: all of it if the column after it is masked, for then
    a symbol is read off it, and otherwise what is on its left.
    """
    masked = tokens.eq(mask_id)
    reads = F.pad(masked[:, 1:], (0, 1))[:, :, None]  # (N, L, 1) the next column is masked
    left = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).tril()
    return (real[:, None] & (masked[:, :, None] | (~masked[:, None] & (left | reads))))[:, None]


class ConditionalMasked(Translates, nn.Module):
    """p(y_i | Y, X) with X in an encoder of its own, and p(L | X) from the encoder (Ghazvininejad et al. 2019).

    With `architecture.forwards` it contains an autoregressive model. y_i is read off the state of column i − 1 (the
    delimiter before the first symbol is column −1), and `sight` says which columns a column sees: behind a written
    beginning with nothing but masks after it, what a causal decoder sees. So p(y_i | y_<i, X) is an autoregressive
    model's, and one that becomes this model has only to learn what to do with symbols on the right.
    """

    kind = "cmlm"
    predicts_length = True

    def __init__(self, architecture: Architecture, special: SpecialIds, languages: tuple[str, ...]) -> None:
        super().__init__()
        self.architecture, self.special, self.languages = architecture, special, languages
        self.encoder = Transformer(architecture)
        self.decoder = Transformer(architecture.decoder, cross=True)
        self.encoder.embeddings, self.encoder.proj_bias = self.decoder.embeddings, self.decoder.proj_bias
        self.first = 0 if architecture.forwards else 1  # the delimited column that the first symbol is read off
        self._make_lengths()
        self.mask_id, self.pad_id = special.mask, special.pad
        self.vocabulary = architecture.vocabulary

    def _make_lengths(self) -> None:
        """What p(L | X) needs."""
        self.length_lin = nn.Linear(self.architecture.dim, self.architecture.positions)

    def summary(self, states: Tensor, real: Tensor, target_lang: Tensor) -> Tensor:
        """What lengths are predicted from: (N, D) of encoder states (N, S, D)."""
        # The target language is added, since one summary serves both directions.
        out: Tensor = states[:, 0] + self.encoder.lang_embeddings(target_lang[:, 0])
        return out

    @property
    def order(self) -> str:  # type: ignore[override]
        """How it writes unless it is told otherwise: the best on validation data."""
        return "forwards" if self.architecture.forwards else "left2right"

    @cached_property
    def forwards(self) -> Autoregressive | None:
        """The autoregressive model that is contained in this one, where there is one: the same weights, and a cache.

        Its p(y_i | y_<i, X) are this model's where y_<i stands, nothing else does, and the end is open.
        """
        if not self.architecture.forwards:
            return None
        halves = self.encoder, self.decoder
        return Autoregressive(self.architecture, self.special, self.languages, halves)

    def start_from(self, encoder: Transformer, decoder: Transformer) -> None:
        """Each half from one of another model; attention between them stays fresh where that has none."""
        grow(self.encoder, encoder)
        grow(self.decoder, decoder)

    def encode(self, source: Source) -> EncodedContext:
        """What is known of the sources, computed once for all steps."""
        tokens, real = delimited(source.tokens, self.special)
        check_length(tokens.shape[1], self.architecture.positions, "a source")
        mask = None if bool(real.all()) else real[:, None, None]
        languages = language_rows(source.source_lang, len(tokens), tokens.device)
        states = encoded(self.encoder, tokens, real, languages)
        target_lang = language_rows(source.target_lang, len(tokens), tokens.device)
        summary = self.summary(states, real, target_lang)
        return EncodedContext(self.decoder.memory(states, mask), summary, target_lang, source.close)

    def log_length(self, context: EncodedContext) -> Tensor:
        """log p(L | X) for L = 0 … positions−1, in tokens without delimiters: (N, positions)."""
        return torch.log_softmax(self.length_lin(context.summary), 1)

    def hidden(self, context: EncodedContext, tokens: Tensor) -> Tensor:
        """One forward pass: canvases (N, L) → states (N, L, D)."""
        return self._states(context, tokens)[:, self.first : self.first + tokens.shape[1]]

    def hidden_at(self, context: EncodedContext, tokens: Tensor, n: Tensor, i: Tensor) -> Tensor:
        """The states of entries (n, i) only, sorted by row: (M, D); the last layer computes no others."""
        columns, slot = columns_of(n, i + self.first, len(tokens))
        return self._states(context, tokens, columns)[n, slot]

    def _states(self, context: EncodedContext, tokens: Tensor, columns: Columns = None) -> Tensor:
        target, real = delimited(tokens, self.special, context.close)
        check_length(target.shape[1], self.architecture.positions, "a target")
        mask = None if bool(real.all()) else real[:, None, None]
        if self.architecture.forwards:
            mask = sight(target, real, self.mask_id)
        states: Tensor = self.decoder(target, None, context.target_lang, mask, memory=context.memory, columns=columns)
        return states

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
