"""The sizes of a Transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Architecture:
    """The sizes of a Transformer. The defaults other than the sizes are XLM's."""

    vocabulary: int
    dim: int
    layers: int
    heads: int
    ffn: int  # width of the feed-forward layers
    positions: int = 512  # longest side, delimiters included
    languages: int = 2
    norm: str = "post"  # "post" (XLM: LN after each residual sum) or "pre" (LN before each sub-layer, one at the end)
    gelu: str = "erf"  # "erf" (XLM) or "tanh"
    dropout: float = 0.0  # on embeddings and on each sub-layer's output
    attention_dropout: float = 0.0
    layer_norm_eps: float = 1e-12
    decoder_layers: int = 0  # of a decoder beside an encoder; 0: as many as the encoder has
    forwards: bool = False  # a masked decoder is an autoregressive one where a beginning stands and nothing else
    slots: Sequence[int] = ()  # (a, b): a source of n symbols is translated on a canvas of a·n + b slots

    @property
    def decoder(self) -> Architecture:
        """The sizes of the decoder, where there is one."""
        return replace(self, layers=self.decoder_layers or self.layers, decoder_layers=0)

    @property
    def room(self) -> int:
        """Symbols that a source or a target may have."""
        each, more = self.slots or (1, 0)
        return (self.positions - 2 - more) // each

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", tuple(self.slots))
        if self.slots and (len(self.slots) != 2 or any(type(n) is not int for n in self.slots) or self.slots[0] < 1):
            raise ValueError(f"slots are two numbers, slots for each source symbol and more, not {self.slots}")
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {self.heads}")
        if self.norm not in ("post", "pre"):
            raise ValueError(f"norm must be 'post' or 'pre', not {self.norm!r}")
        if self.gelu not in ("erf", "tanh"):
            raise ValueError(f"gelu must be 'erf' or 'tanh', not {self.gelu!r}")
