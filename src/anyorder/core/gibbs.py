"""Samples of G: Gibbs chains with burn-in and thinning, exact where they are meant to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from anyorder.core.coordinates import Coordinates, everywhere, masked
from anyorder.core.cost import Cost
from anyorder.core.decode import decode, unroll
from anyorder.core.decoder import Decoder
from anyorder.core.edit import REPLACE
from anyorder.core.model import Model
from anyorder.core.noise import BEGIN, combine
from anyorder.core.order import Order, random
from anyorder.core.remask import Metropolis
from anyorder.core.settings import whole_number
from anyorder.core.state import State
from anyorder.core.symbols import SAMPLED, Symbols


def sampler(
    order: Order = random, temperature: float = 0.0, symbols: Symbols = SAMPLED, correct: bool = True
) -> Decoder:
    """One coordinate a step among all, its symbol drawn from p(y_i | y_≠i, X).

    An order that is blind to Y (uniform, from left to right …) is plain Gibbs sampling, stationary at p as it is. Any
    other is adaptive Gibbs sampling, stationary only with the Metropolis correction; correct=False is the paper's
    uncorrected chain.
    """
    coordinates = Coordinates(order, among=everywhere, temperature=temperature)
    if not order.blind and not coordinates.tau:
        raise ValueError("adaptive Gibbs sampling draws its coordinates: give a temperature above 0")
    adaptive = correct and not order.blind
    return Decoder(coordinates, symbols, steps=1, edit=Metropolis(coordinates) if adaptive else REPLACE)


@dataclass(frozen=True, eq=False)
class Samples:
    """States of N chains."""

    tokens: Tensor  # (samples, N, L)
    acceptance: Tensor  # (N,) fraction of steps whose new symbol was accepted; 1 without a correction
    cost: Cost


def chains(
    model: Model,
    context: Any,
    state: State,
    decoder: Decoder,
    *,
    samples: int = 1,
    burn_in: int = 0,
    thin: int = 1,
) -> Samples:
    """Run one chain a row; keep `samples` states, `thin` steps apart, after `burn_in` steps.

    A chain begins when its canvas is written: what is masked is filled first, one symbol a step, and not counted.
    A masked language model's conditionals need not agree with any joint distribution, so on a BERT this is a
    heuristic; on a model whose conditionals do agree it samples that joint.
    """
    for name, value, least in (("samples", samples, 1), ("thin", thin, 1), ("burn_in", burn_in, 0)):
        whole_number(f"{name} of chains", value, least)
    total = burn_in + samples * thin
    cost = Cost()
    kept: list[Tensor] = []
    end = state = _written(model, context, state, decoder, cost)
    for t, end in enumerate(_states(model, context, state, replace(decoder, steps=total), cost), 1):
        if t > burn_in and (t - burn_in) % thin == 0:
            kept.append(end.tokens)
    accepted = end.memory.get("accepted")
    rate = torch.ones_like(end.score) if accepted is None else accepted / total
    return Samples(torch.stack(kept), rate, cost)


def _written(model: Model, context: Any, state: State, decoder: Decoder, cost: Cost) -> State:
    """Where the chains begin: the canvas, its masks drawn one by one."""
    blank = state.masked.any(-1)
    if not bool(blank.any()):
        return state
    once = replace(decoder.coordinates, among=masked)
    filled = decode(model, context, state, replace(decoder, coordinates=once, steps=None, edit=REPLACE))
    cost.add(filled.cost)
    seed = torch.where(blank, combine(state.seed, BEGIN), state.seed)  # further draws are other numbers
    return state.but(tokens=filled.tokens, logp=filled.logp, seed=seed, view=None)


def _states(model: Model, context: Any, state: State, decoder: Decoder, cost: Cost) -> Iterator[State]:
    for taken in unroll(model, context, state.but(step=torch.zeros_like(state.step)), decoder, cost=cost):
        yield taken.state
