"""(a) Order: how much do we want position i next? Features φ_i and their algebra.

    negent + 0.9 * logp      is an Order, and so is   parse("negent + 0.9*logp")

A feature is a function of the state and of the model's view of it. It says what it reads, so that nothing else is
computed, and it may carry something along from step to step (`remember`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce

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
    blind: bool = False  # is φ known not to depend on the symbols Y: on the canvas's shape, the step and noise alone?

    @property
    def remembers(self) -> bool:
        """Does φ depend on earlier steps?"""
        return type(self).remember is not Order.remember

    def __call__(self, state: State, view: View) -> Tensor:
        """φ (N, L): how much each position is wanted next."""
        raise TypeError(f"{type(self).__name__} does not say how it scores positions: define __call__")

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        """What to carry along after coordinates z (N, L) were chosen: (N, …) tensors, to be read by `state.recall`.

        A key that begins with "position:" says that the second dimension is that of positions.
        """
        return {}

    @property
    def terms(self) -> tuple[tuple[float, Order], ...]:
        """(weight, order) of each part of a sum; this order alone, if it is none."""
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
    blind: bool = False
    remembers: bool = False

    def __call__(self, state: State, view: View) -> Tensor:
        """φ (N, L): how much each position is wanted next."""
        return self.score(state, view)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Sum(Order):
    """Σ_j α_j φ_j. Of terms that remember, each has a drawer of its own in the memory."""

    parts: tuple[tuple[float, Order], ...]

    @property
    def terms(self) -> tuple[tuple[float, Order], ...]:
        """(weight, order) of each part of a sum; this order alone, if it is none."""
        return self.parts

    @property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        """The fields of a view that it needs."""
        return frozenset().union(*(f.reads for _, f in self.parts))

    @property
    def blind(self) -> bool:  # type: ignore[override]
        """Does none of its parts look at the model?"""
        return all(f.blind for _, f in self.parts)

    @property
    def remembers(self) -> bool:
        """Does it carry anything along?"""
        return any(f.remembers for _, f in self.parts)

    def __call__(self, state: State, view: View) -> Tensor:
        """φ (N, L): how much each position is wanted next."""
        scores = []
        for (w, f), drawer in zip(self.parts, self._drawers, strict=True):
            score = f(_opened(state, drawer), view)
            scores.append(score if w == 1 else w * score)
        return reduce(torch.add, scores)

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        """What its parts carry along, each in a drawer of its own."""
        carried: dict[str, Tensor] = {}
        for (_, f), drawer in zip(self.parts, self._drawers, strict=True):
            carried |= {key + drawer: value for key, value in f.remember(_opened(state, drawer), view, z).items()}
        return carried

    @cached_property
    def _drawers(self) -> tuple[str, ...]:
        """What the keys of each term end in: nothing for the first that remembers, "@1" for the second, …"""
        before = [sum(f.remembers for _, f in self.parts[:j]) for j in range(len(self.parts))]
        return tuple(f"@{n}" if n and f.remembers else "" for n, (_, f) in zip(before, self.parts, strict=True))

    def __str__(self) -> str:
        text = ""
        for weight, feature in self.parts:
            sign = " - " if weight < 0 else " + "
            text += sign + ("" if abs(weight) == 1 else f"{abs(weight)!r}*".replace(".0*", "*")) + str(feature)
        return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _opened(state: State, drawer: str) -> State:
    """The state with the memory that a term with this drawer knows."""
    if not drawer:
        return state
    own = {key.removesuffix(drawer): value for key, value in state.memory.items() if key.endswith(drawer)}
    return state.but(memory=own)


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
    x = ((t - state.place).abs_() + EPSILON).log_().neg_()
    return x if x.dtype == state.logp.dtype else x.to(state.logp.dtype)


def _random(state: State, view: View) -> Tensor:
    return gumbel(*grid(state.seed, state.step, state.tokens.shape[1], COORDINATE)).to(state.logp.dtype)


def _stale(state: State, view: View) -> Tensor:
    return torch.where(state.masked, UNWRITTEN, -state.logp)


# The paper's three features.
negent = Feature("negent", _field("entropy", -1), frozenset({"entropy"}))  # φ_negent = −H(y_i | …)
logp = Feature("logp", _surprise, frozenset({"current"}))  # φ_logp = −log p(y_i = y_i^t | …)
position = Feature("position", _position, blind=True)  # φ_pos = −log(|t − i| + ε)

# What others choose by.
random = Feature(
    "random", _random, blind=True
)  # Gumbel noise: alone it is uniform, w·random is sampling at temperature w
leftmost = Feature("leftmost", lambda s, v: -s.place.to(s.logp.dtype), blind=True)
rightmost = Feature("rightmost", lambda s, v: s.place.to(s.logp.dtype), blind=True)
confidence = Feature("confidence", _field("logp"), frozenset({"logp"}))  # log p of the proposed symbol
margin = Feature("margin", _field("margin"), frozenset({"margin"}))  # p₍₁₎ − p₍₂₎
stale = Feature("stale", _stale, remembers=True)  # −log p of the symbol when it was written (Mask-Predict)

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
