"""Mask-Predict, LLaDA and Fast-dLLM as their own code runs them: with its arithmetic, and <mask> a symbol like others.

The recipes of the same names never leave a <mask>; these may, where those systems do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from anyorder import core, recipes
from anyorder.core import (
    Coordinates,
    Count,
    Decoder,
    Feature,
    Model,
    Region,
    State,
    Symbols,
    View,
    confidence,
    everywhere,
)
from anyorder.core.count import Ranked, first, number
from anyorder.lab.authors import ANYTHING

written = Feature("written", lambda state, view: -state.logp)  # −log p of a symbol, even of <mask>, when it was written


def mask_predict(steps: int) -> Decoder:
    """Mask-Predict: predict all, then re-mask the ⌊L·(1 − t/T)⌋ least probable, at least one, in single precision."""

    def amount(state: State, L: Tensor) -> Tensor:
        return (L.float() * (1.0 - state.step.double() / steps).float()).long().clamp_min(1)

    coordinates = Coordinates(written, number(f"mask_predict({steps})", amount), everywhere)
    return Decoder(coordinates, ANYTHING, steps=steps)


def easy_first_beam(model: Model, context: Any, state: State, K: int) -> core.Beam:
    """Mask-Predict's easy-first: the K best of all (position, symbol) pairs, by the model's own log p.

    A pair among the n best has its position among the n best positions and its symbol among the n best symbols;
    n = K(K + 1)/2 pairs always hold K different hypotheses.
    """
    n = K * (K + 1) // 2
    decoder = Decoder(Coordinates(confidence), Symbols(renormalise=False))
    return core.beam(model, context, state, decoder, K, K1=n, K2=n)


def llada(steps: int, block: int, length: int) -> Decoder:
    """LLaDA, low-confidence remasking: in each block, its masks divided evenly over its share of the steps."""
    blocks = length // block
    if length % block or steps % blocks:
        raise ValueError(f"LLaDA needs whole blocks and as many steps in each: length {length}, {block=}, {steps=}")
    each = steps // blocks  # steps per block

    def reached(state: State) -> Tensor:
        return state.masked & (state.place < ((state.step // each + 1) * block)[:, None])

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        k = block // each + (state.step % each < block % each).long()
        return first(ranked, k)

    count, region = Count(f"llada({steps})", take, minimum=0), Region(f"until_block({block})", reached, reached)
    return Decoder(Coordinates(confidence, count, region), ANYTHING, steps=steps)


def fast_dllm(threshold: float, block: int) -> Decoder:
    """Fast-dLLM: everything in the block with probability ≥ the threshold, at least the best."""
    return replace(recipes.fast_dllm(threshold, block), symbols=ANYTHING)
