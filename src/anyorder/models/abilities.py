"""What a model can do, declared by the model itself: the rest of the package asks this, never for a model's class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anyorder.core.slots import stands
from anyorder.models.architecture import Architecture
from anyorder.models.translation import SpecialIds


class Abilities:
    """A model that fills masks on a canvas. A model sets what differs."""

    causal: bool = False  # it writes from left to right only, to an end of its own
    predicts_length: bool = False  # `log_length(context)` is log p(L | X)
    order: str = "easy-first"  # how it writes where a plan names no order
    slotted: bool = False  # its canvas has slots: merged repeats and dropped blanks leave the text
    forwards: Any = None  # the autoregressive model that it contains
    special_ids: tuple[int, ...] = ()  # symbols that are no text, so never written
    max_length: int | None = None  # columns that a canvas may have
    canvas: int | None = None  # symbols that are written at once, one canvas after the other; None: all of them
    ends: tuple[int, ...] = ()  # symbols that end a text
    family: Any = None  # how its authors write with it (`published.Family`), where that is known

    @property
    def room(self) -> int | None:
        """Symbols that a source or a target may have, where that is limited."""
        return self.max_length

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(width of its states, width of its feed-forward layers, symbols); 0 where that is not known."""
        config = getattr(getattr(self, "model", None), "config", None)
        found = [getattr(config, name, 0) for name in ("hidden_size", "intermediate_size", "vocab_size")]
        dim, inner, words = (n if isinstance(n, int) else 0 for n in found)
        return dim, inner, words

    def stands(self, tokens: Tensor) -> Tensor:
        """Which entries (…, L) of finished canvases are the text, bool."""
        return torch.ones_like(tokens, dtype=torch.bool)


class Translates(Abilities):
    """A model of anyorder's own that translates: its symbols are known by their roles."""

    architecture: Architecture
    special: SpecialIds

    @property
    def special_ids(self) -> tuple[int, ...]:  # type: ignore[override]
        """Symbols that are no text, so never written."""
        s = self.special
        ban = {s.bos, s.pad, s.unk, s.mask} - ({s.blank} if self.slotted else set())
        return tuple(ban if self.causal else ban | {s.eos})

    @property
    def room(self) -> int:
        """Symbols that a source or a target may have."""
        return int(self.architecture.room)

    @property
    def slotted(self) -> bool:  # type: ignore[override]
        """Is its canvas one of slots?"""
        return bool(self.architecture.slots)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(width of its states, width of its feed-forward layers, symbols)."""
        return self.architecture.dim, self.architecture.ffn, self.architecture.vocabulary

    def stands(self, tokens: Tensor) -> Tensor:
        """Which entries (…, L) of finished canvases are the text, bool: no padding, no end, no blank, no repeat."""
        s = self.special
        if self.slotted:
            return stands(tokens, s.blank, s.pad)
        return tokens.ne(s.pad) & tokens.ne(s.eos)
