"""An exact tabular joint p(y_1 … y_L): the oracle that tests compare every decoder with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anyorder.core.devices import precise
from anyorder.core.model import NoContext


class Table:
    """A random joint over V^L whose masked conditionals p(y_i | visible symbols) are exact.

    A position never sees itself: its conditional is the same whatever symbol stands there. A padded position is
    summed out, so a shorter canvas is the marginal of the joint's first positions.
    """

    has_hidden = False

    def __init__(
        self,
        length: int,
        vocabulary: int,
        seed: int = 0,
        *,
        sharpness: float = 2.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.length, self.vocabulary, self.dtype = length, vocabulary, dtype
        self.mask_id, self.pad_id = vocabulary, vocabulary + 1
        rng = torch.Generator().manual_seed(seed)
        shape = (vocabulary,) * length
        # p (S,) float64 with S = V^L, in the order of `sequences` (S, L)
        self.p = (sharpness * torch.randn(shape, generator=rng, dtype=torch.float64)).flatten().softmax(0)
        self.sequences = torch.cartesian_prod(*[torch.arange(vocabulary)] * length).reshape(-1, length)
        # (V+1)^L, flat: index V on an axis is the sum over that axis, so every marginal is one entry
        marginals = self.p.reshape(shape)
        for axis in range(length):
            marginals = torch.cat([marginals, marginals.sum(axis, keepdim=True)], axis)
        self._marginals = marginals.flatten()
        self._strides = (vocabulary + 1) ** torch.arange(length - 1, -1, -1)  # (L,)

    def encode(self, source: Any = None) -> NoContext:
        """What is known of the sources, computed once for all steps."""
        return NoContext()

    def hidden(self, context: Any, tokens: Tensor) -> Tensor:
        """log p(y_i = v | y_j visible, j ≠ i): (N, L) → (N, L, V+2), -inf for the mask and the pad symbol."""
        if tokens.shape[1] > self.length:
            if bool((tokens[:, self.length :] != self.pad_id).any()):
                raise ValueError(f"this table is a joint of {self.length} symbols; the canvas has {tokens.shape[1]}")
            inside = self.hidden(context, tokens[:, : self.length])
            return torch.nn.functional.pad(inside, (0, 0, 0, tokens.shape[1] - self.length))
        width = tokens.shape[1]
        self._to(tokens.device)
        strides = self._strides[:width]
        summed_out = self.vocabulary * self._strides[width:].sum()
        index = tokens.clamp(max=self.vocabulary) * strides  # (N, L); mask and pad are summed out
        others = index.sum(-1, keepdim=True) - index + summed_out  # (N, L): the canvas without position i
        own = strides[:, None] * torch.arange(self.vocabulary, device=tokens.device)  # (L, V)
        joint = self._marginals[others[..., None] + own]  # (N, L, V): p(y_i = v, visible)
        out = torch.full((*tokens.shape, self.vocabulary + 2), -torch.inf, dtype=self.dtype, device=tokens.device)
        out[..., : self.vocabulary] = (joint / joint.sum(-1, keepdim=True)).log().to(self.dtype)
        return out

    def _to(self, device: torch.device) -> None:
        """Go where the canvas is; probabilities in float64, where the device has it."""
        if self._strides.device != device:
            self._strides, self._marginals = self._strides.to(device), self._marginals.to(precise(device)).to(device)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states are log-probabilities already."""
        return hidden

    def index(self, sequences: Tensor) -> Tensor:
        """Rows of `p` for complete sequences (N, L) → (N,)."""
        places = torch.arange(self.length - 1, -1, -1, device=sequences.device)
        return (sequences * self.vocabulary**places).sum(-1)
