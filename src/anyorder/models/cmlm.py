"""A conditional masked model: the source is encoded once, a bidirectional decoder fills the target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from anyorder.models.memory import Memory
from anyorder.models.transformer import Architecture, Columns, Transformer, grow
from anyorder.models.translation import (
    Source,
    SpecialIds,
    check_length,
    columns_of,
    delimited,
    language_rows,
    same_end,
)


@dataclass(frozen=True)
class EncodedContext:
    """The encoded source, one row a hypothesis."""

    memory: Memory
    summary: Tensor  # (N, D) the state that lengths are predicted from
    target_lang: Tensor  # (N, 1)
    close: bool

    def take(self, rows: Tensor) -> EncodedContext:
        """These rows."""
        return EncodedContext(self.memory.take(rows), self.summary[rows], self.target_lang[rows], self.close)

    @property
    def width(self) -> int:
        """Columns of the source, with padding."""
        return self.memory.width

    def trim(self) -> EncodedContext:
        """Without the columns that are padding in every row."""
        return replace(self, memory=self.memory.trim())

    def join(self, *others: EncodedContext) -> EncodedContext:
        """These rows, then the others'."""
        all_ = (self, *others)
        return EncodedContext(
            self.memory.join(*(c.memory for c in others)),
            torch.cat([c.summary for c in all_]),
            torch.cat([c.target_lang for c in all_]),
            same_end(c.close for c in all_),
        )


class ConditionalMasked(nn.Module):
    """p(y_i | Y, X) with X in an encoder of its own, and p(L | X) from the encoder (Ghazvininejad et al. 2019).

    With `architecture.shift` y_i is read off the state of column i − 1 (the delimiter before the first symbol is column
    −1) and not of column i: an autoregressive decoder that becomes this model then has to learn to look to its right,
    and nothing anew.
    """

    kind = "cmlm"
    order = "left2right"  # how it writes unless it is told otherwise: the best on validation data

    def __init__(self, architecture: Architecture, special: SpecialIds, languages: tuple[str, ...]) -> None:
        super().__init__()
        self.architecture, self.special, self.languages = architecture, special, languages
        self.encoder = Transformer(architecture)
        self.decoder = Transformer(architecture.decoder, cross=True)
        self.encoder.embeddings, self.encoder.proj_bias = self.decoder.embeddings, self.decoder.proj_bias
        self.length_lin = nn.Linear(architecture.dim, architecture.positions)
        self.mask_id, self.pad_id = special.mask, special.pad
        self.first = 0 if architecture.shift else 1  # the delimited column that the first symbol is read off

    def start_from(self, encoder: Transformer, decoder: Transformer) -> None:
        """Each half from one of another model; attention between them stays fresh where that has none."""
        grow(self.encoder, encoder)
        grow(self.decoder, decoder)

    def encode(self, source: Source) -> EncodedContext:
        """What is known of the sources, computed once for all steps."""
        tokens, real = delimited(source.tokens, self.special)
        check_length(tokens.shape[1], self.architecture.positions, "a source")
        mask = None if bool(real.all()) else real[:, None, None]
        states = self.encoder(tokens, None, language_rows(source.source_lang, len(tokens), tokens.device), mask)
        target_lang = language_rows(source.target_lang, len(tokens), tokens.device)
        # The target language is added, since one summary serves both directions.
        summary = states[:, 0] + self.encoder.lang_embeddings(target_lang[:, 0])
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
        states: Tensor = self.decoder(target, None, context.target_lang, mask, memory=context.memory, columns=columns)
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary logits of states: (M, D) → (M, V)."""
        return self.decoder.logits(hidden)
