"""The paper's undirected translation model: one bidirectional Transformer over `source ⊕ target`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from anyorder.core.model import Rows
from anyorder.core.ragged import used
from anyorder.models.abilities import Translates
from anyorder.models.architecture import Architecture
from anyorder.models.transformer import Columns, Transformer
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
class JointContext(Rows):
    """The delimited source as the first layer is given it, which is the same at every step; one row a hypothesis."""

    embedded: Tensor  # (N, S+2, D)
    real: Tensor  # (N, S+2) bool
    target_lang: Tensor  # (N, 1)
    close: bool  # does </s> follow the target?

    @property
    def width(self) -> int:
        """Columns of the source, with padding."""
        return self.real.shape[1]

    def trim(self) -> JointContext:
        """Without the columns that are padding in every row."""
        width = used(self.real)
        return replace(self, embedded=self.embedded[:, :width], real=self.real[:, :width])


class MaskedTranslation(Translates, nn.Module):
    """p(y_i | Y, X) from the canvas `</s> source </s> </s> target </s>`, positions counted from 0 on each side.

    One model translates in both directions: which side is the target is only a matter of which side has masks.
    """

    kind = "masked-translation"

    def __init__(self, architecture: Architecture, special: SpecialIds, languages: tuple[str, ...]) -> None:
        super().__init__()
        self.architecture, self.special, self.languages = architecture, special, languages
        self.transformer = Transformer(architecture)
        self.mask_id, self.pad_id = special.mask, special.pad
        self.vocabulary = architecture.vocabulary

    def encode(self, source: Source) -> JointContext:
        """What is known of the sources, computed once for all steps."""
        tokens, real = delimited(source.tokens, self.special)
        check_length(tokens.shape[1], self.architecture.positions, "a source")
        n, device = len(tokens), tokens.device
        embedded = self.transformer.embed(tokens, None, language_rows(source.source_lang, n, device))
        return JointContext(embedded, real, language_rows(source.target_lang, n, device), source.close)

    def hidden(self, context: JointContext, tokens: Tensor) -> Tensor:
        """One forward pass: canvases (N, L) → states (N, L, D)."""
        start = context.embedded.shape[1] + 1  # nobody reads the source's states: the last layer computes the others
        return self.states(context, tokens, (start, start + tokens.shape[1]))

    def hidden_at(self, context: JointContext, tokens: Tensor, n: Tensor, i: Tensor) -> Tensor:
        """The states of entries (n, i) only, sorted by row: (M, D); the last layer computes no others."""
        columns, slot = columns_of(n, i + (context.embedded.shape[1] + 1), len(tokens))
        return self.states(context, tokens, columns)[n, slot]

    def states(self, context: JointContext, tokens: Tensor, columns: Columns = None) -> Tensor:
        """States of the whole canvas, delimiters included, (N, S+2+L+2, D), or of some of its columns."""
        target, real = delimited(tokens, self.special, context.close)
        check_length(target.shape[1], self.architecture.positions, "a target")
        visible = torch.cat([context.real, real], 1)  # (N, S+2+L+2)
        mask = None if bool(visible.all()) else visible[:, None, None]
        states: Tensor = self.transformer(
            target, None, context.target_lang, mask, columns=columns, before=context.embedded
        )
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary logits of states: (M, D) → (M, V)."""
        return self.transformer.logits(hidden)

    def best(
        self, hidden: Tensor, banned: Tensor, never: float, now: Tensor | None = None, several: int = 0
    ) -> Best | None:
        """What `Transformer.best` says."""
        return self.transformer.best(hidden, banned, never, now, several)

    def likeliest(self, hidden: Tensor, banned: Tensor) -> tuple[Tensor, Tensor] | None:
        """What `Transformer.likeliest` says."""
        return self.transformer.likeliest(hidden, banned)
