"""Samples of G: Gibbs chains with burn-in and thinning, exact where they are meant to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from anyorder.core.coordinates import Coordinates, everywhere
from anyorder.core.decode import unroll
from anyorder.core.decoder import Decoder
from anyorder.core.edit import REPLACE
from anyorder.core.look import Cost
from anyorder.core.model import Model
from anyorder.core.order import Order, confidence, random, stale
from anyorder.core.remask import Metropolis
from anyorder.core.state import State
from anyorder.core.symbols import SAMPLED, Symbols


def sampler(
    order: Order = random, temperature: float = 0.0, symbols: Symbols = SAMPLED, correct: bool = True
) -> Decoder:
    """One coordinate a step among all, its symbol drawn from p(y_i | y_≠i, X).

    A uniform order is plain Gibbs sampling, stationary at p as it is. Any other order is adaptive Gibbs sampling,
    stationary only with the Metropolis correction; correct=False is the paper's uncorrected chain.
    """
    coordinates = Coordinates(order, among=everywhere, temperature=temperature)
    if order.reads and not coordinates.tau:
        raise ValueError("adaptive Gibbs sampling draws its coordinates: give a temperature above 0")
    if correct and any(f in (confidence, stale) for _, f in order.terms):
        raise ValueError("confidence and stale depend on draws, not on Y alone: no correction makes such a chain exact")
    adaptive = correct and bool(order.reads)
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

    A masked language model's conditionals need not agree with any joint distribution, so on a BERT this is a
    heuristic; on a model whose conditionals do agree it samples that joint.
    """
    if samples < 1 or thin < 1 or burn_in < 0:
        raise ValueError(f"need samples ≥ 1, thin ≥ 1, burn_in ≥ 0; got {samples}, {thin}, {burn_in}")
    total = burn_in + samples * thin
    cost = Cost()
    kept: list[Tensor] = []
    end = state
    for t, end in enumerate(_states(model, context, state, replace(decoder, steps=total), cost), 1):
        if t > burn_in and (t - burn_in) % thin == 0:
            kept.append(end.tokens)
    accepted = end.memory.get("accepted")
    rate = torch.ones_like(end.score) if accepted is None else accepted / total
    return Samples(torch.stack(kept), rate, cost)


def _states(model: Model, context: Any, state: State, decoder: Decoder, cost: Cost) -> Iterator[State]:
    for taken in unroll(model, context, state.but(step=torch.zeros_like(state.step)), decoder, cost=cost):
        yield taken.state
