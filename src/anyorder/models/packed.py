"""A few texts of different lengths through an encoder at once, one after the other in a single row: no padding is run.

A symbol sees those of its own text. That costs what attention costs over all of them, so texts are packed while they
are few: a server's newcomers, not a corpus.
"""

from __future__ import annotations

from torch import Tensor

from anyorder.models.transformer import Transformer
from anyorder.native import Stack

PACK = 256  # tokens of a pack: beyond, attention to others that is thrown away costs more than padding would


def encoded(encoder: Transformer, tokens: Tensor, real: Tensor, languages: Tensor) -> Tensor:
    """States (N, S, D) of texts (N, S), of which `real` (N, S) is no padding; languages (N, 1)."""
    if bool(real.all()):
        states: Tensor = encoder(tokens, None, languages)
        return states
    if not encoder.training and (stack := Stack.of(encoder)) is not None:
        return _by_kernels(stack, encoder, tokens, real, languages)
    if encoder.training or int(real.sum()) > PACK:
        states = encoder(tokens, None, languages, real[:, None, None])
        return states
    n, i = real.nonzero(as_tuple=True)  # (M,) each
    own = (n[:, None] == n)[None, None]  # (1, 1, M, M)
    states = encoder(tokens[n, i][None], i[None], languages[n, 0][None], own)
    return states.new_zeros(*tokens.shape, states.shape[-1]).index_put_((n, i), states[0])


def _by_kernels(stack: Stack, encoder: Transformer, tokens: Tensor, real: Tensor, languages: Tensor) -> Tensor:
    """The same by kernels, which look at each text by itself: any number of them is packed."""
    n, i = real.nonzero(as_tuple=True)  # (M,) each
    x = encoder.embed(tokens[n, i][None], i[None], languages[n, 0][None])[0]
    states: Tensor = encoder.final_norm(stack.run(x, real.sum(1).cumsum(0)))
    return states.new_zeros(*tokens.shape, states.shape[-1]).index_put_((n, i), states)
