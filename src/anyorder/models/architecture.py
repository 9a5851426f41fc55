"""The sizes of a Transformer."""

from __future__ import annotations

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

    @property
    def decoder(self) -> Architecture:
        """The sizes of the decoder, where there is one."""
        return replace(self, layers=self.decoder_layers or self.layers, decoder_layers=0)

    def __post_init__(self) -> None:
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {self.heads}")
        if self.norm not in ("post", "pre"):
            raise ValueError(f"norm must be 'post' or 'pre', not {self.norm!r}")
        if self.gelu not in ("erf", "tanh"):
            raise ValueError(f"gelu must be 'erf' or 'tanh', not {self.gelu!r}")
