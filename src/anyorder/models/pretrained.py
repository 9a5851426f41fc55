"""Our own masked language model, of one or several languages: what masked-LM pretraining makes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from anyorder.core.model import Rows
from anyorder.models.abilities import Abilities
from anyorder.models.architecture import Architecture
from anyorder.models.transformer import Transformer
from anyorder.models.translation import SpecialIds, check_length, language_rows


@dataclass(frozen=True)
class LanguageContext(Rows):
    """The language of each hypothesis."""

    language: Tensor  # (N, 1)


class PretrainedLM(Abilities, nn.Module):
    """p(y_i | Y) for a text in a known language. The canvas is the whole text, `</s>` at both ends included."""

    kind = "masked-lm"

    def __init__(self, architecture: Architecture, special: SpecialIds, languages: tuple[str, ...]) -> None:
        super().__init__()
        self.architecture, self.special, self.languages = architecture, special, languages
        self.transformer = Transformer(architecture)
        self.mask_id, self.pad_id = special.mask, special.pad

    def encode(self, source: Tensor) -> LanguageContext:
        """`source` (N,) int64: an index into `languages` for each row."""
        return LanguageContext(language_rows(source, len(source), source.device))

    def hidden(self, context: LanguageContext, tokens: Tensor) -> Tensor:
        """One forward pass: canvases (N, L) → states (N, L, D)."""
        check_length(tokens.shape[1], self.architecture.positions, "a text")
        real = tokens.ne(self.pad_id)
        mask = None if bool(real.all()) else real[:, None, None]
        out: Tensor = self.transformer(tokens, None, context.language, mask)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary logits of states: (M, D) → (M, V)."""
        return self.transformer.logits(hidden)
