"""(a) Order: how much do we want position i next? Features φ_i and their algebra.

    negent + 0.9 * logp      is an Order, and so is   parse("negent + 0.9*logp")

A feature is a function of the state and of the model's view of it. It says what it reads, so that nothing else is
computed, and it may carry something along from step to step (`remember`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

import torch
from torch import Tensor

from anyorder.core.noise import COORDINATE, grid, gumbel
from anyorder.core.state import State, View

EPSILON = 1e-6  # φ_pos's ε: keeps log 0 away
LEAST = -100.0  # φ_logp's least log p: a model that never writes <mask> says −inf there; float32 adds entropies to this
UNWRITTEN = 1e4  # how stale a position is that holds no symbol yet


class Order:
    """φ: (state, view) → (N, L). `reads` names the View fields it needs; empty: it chooses without looking."""

    reads: frozenset[str] = frozenset()

    def __call__(self, state: State, view: View) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say how it scores positions: define __call__")

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        """What to carry along after coordinates z (N, L) were chosen: (N, …) tensors merged into state.memory."""
        return {}

    @property
    def terms(self) -> tuple[tuple[float, Order], ...]:
        return ((1.0, self),)

    def __add__(self, other: Order) -> Order:
        return Sum(self.terms + other.terms)

    def __sub__(self, other: Order) -> Order:
        return self + -other

    def __mul__(self, weight: float) -> Order:
        return Sum(tuple((weight * w, f) for w, f in self.terms))

    __rmul__ = __mul__

    def __neg__(self) -> Order:
        return self * -1.0


@dataclass(frozen=True)
class Feature(Order):
    """One φ_i with a name."""

    name: str
    score: Callable[[State, View], Tensor] = field(compare=False, repr=False)
    reads: frozenset[str] = frozenset()

    def __call__(self, state: State, view: View) -> Tensor:
        return self.score(state, view)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Sum(Order):
    """Σ_j α_j φ_j."""

    parts: tuple[tuple[float, Order], ...]

    @property
    def terms(self) -> tuple[tuple[float, Order], ...]:
        return self.parts

    @property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset().union(*(f.reads for _, f in self.parts))

    def __call__(self, state: State, view: View) -> Tensor:
        scores = (f(state, view) if w == 1 else w * f(state, view) for w, f in self.parts)
        return reduce(torch.add, scores)

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        return {k: v for _, f in self.parts for k, v in f.remember(state, view, z).items()}

    def __str__(self) -> str:
        text = ""
        for weight, feature in self.parts:
            sign = " - " if weight < 0 else " + "
            text += sign + ("" if abs(weight) == 1 else f"{abs(weight)!r}*".replace(".0*", "*")) + str(feature)
        return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _field(name: str, sign: float = 1.0) -> Callable[[State, View], Tensor]:
    def read(state: State, view: View) -> Tensor:
        value: Tensor = getattr(view, name)
        return sign * value

    return read


def _surprise(state: State, view: View) -> Tensor:
    assert view.current is not None
    return -view.current.clamp_min(LEAST)


def _position(state: State, view: View) -> Tensor:
    t = (state.step % state.length)[:, None]
    return -((t - state.place).abs() + EPSILON).log().to(state.logp.dtype)


def _random(state: State, view: View) -> Tensor:
    return gumbel(*grid(state.seed, state.step, state.tokens.shape[1], COORDINATE)).to(state.logp.dtype)


def _stale(state: State, view: View) -> Tensor:
    return torch.where(state.masked, UNWRITTEN, -state.logp)


# The paper's three features.
negent = Feature("negent", _field("entropy", -1), frozenset({"entropy"}))  # φ_negent = −H(y_i | …)
logp = Feature("logp", _surprise, frozenset({"current"}))  # φ_logp = −log p(y_i = y_i^t | …)
position = Feature("position", _position)  # φ_pos = −log(|t − i| + ε)

# What others choose by.
random = Feature("random", _random)  # Gumbel noise: alone it is uniform, w·random is sampling at temperature w
leftmost = Feature("leftmost", lambda s, v: -s.place.to(s.logp.dtype))
rightmost = Feature("rightmost", lambda s, v: s.place.to(s.logp.dtype))
confidence = Feature("confidence", _field("logp"), frozenset({"logp"}))  # log p of the proposed symbol
margin = Feature("margin", _field("margin"), frozenset({"margin"}))  # p₍₁₎ − p₍₂₎
stale = Feature("stale", _stale)  # −log p of the symbol when it was written (Mask-Predict)

FEATURES: dict[str, Feature] = {
    f.name: f for f in (negent, logp, position, random, leftmost, rightmost, confidence, margin, stale)
}


def split_noise(order: Order) -> tuple[Order | None, float]:
    """An order f + w·random as (f, w); f is None where nothing but noise is left."""
    weight = sum(w for w, f in order.terms if f is random)
    rest = tuple((w, f) for w, f in order.terms if f is not random)
    if len(rest) == len(order.terms):
        return order, 0.0
    return (Sum(rest) if rest else None), weight
