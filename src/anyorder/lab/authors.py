"""Reference mode: what the paper authors' code does, as compositions of the core.

`PAPER` follows the paper. The authors' code differs from it in ways that change outputs; here every difference is
a switch of its own, all on by default, so that their checkpoints give their outputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from anyorder import core, recipes
from anyorder.core import (
    Coordinates,
    Count,
    Decoder,
    Model,
    Order,
    State,
    Step,
    Symbols,
    View,
)
from anyorder.core.count import Ranked, first, number
from anyorder.core.look import Conditionals
from anyorder.lab.authors_orders import LaggingLogp, Planned, Replayed, far_position, log_negent

Weights = tuple[float, float, float]
STRATEGIES: dict[str, Weights] = {  # α on φ_negent, β on φ_logp, γ on φ_pos
    "left2right": (0.0, 0.0, 1.0),
    "least2most": (0.0, 1.0, 0.0),
    "most2least": (0.0, -1.0, 0.0),
    "easy_first": (1.0, 1.0, 0.0),
    "hard_first": (-1.0, 1.0, 0.0),  # the paper flips both signs, the authors' script only this one
}
SCHEDULES = ("linear", "constant", "all")
ANYTHING = Symbols(may_mask=True)


@dataclass(frozen=True)
class Switches:
    """Where the authors' code differs from their paper. True: as in the code; False: as in the paper."""

    visible: bool = True  # a position is judged with its own symbol in place, not with itself masked (one pass, not L)
    log_entropy: bool = True  # φ_negent = −log(H/log|V|), not −H
    far_position: bool = True  # φ_pos = log(|t − i|/L) and 0 at i = t, not −log(|t − i| + ε): the same best position
    lagging_logp: bool = True  # φ_logp by the pass before the symbols in place were written; 0 at the first step
    anywhere: bool = True  # any position may be chosen at any step, not only a masked one
    replay: bool = True  # T = 2L goes through the first pass's positions again, rather than choosing anew
    leave_masks: bool = True  # <mask> is a symbol like others, and what is masked at the end stays masked
    shared_positions: bool = True  # a beam's positions are those of a greedy run; rewritten symbols see themselves
    empty_pass: bool = True  # constant counts: a pass that writes nothing, then T times ⌈L/(T+1)⌉ among all positions

    @property
    def conditionals(self) -> Conditionals:
        """How the orders look at written positions."""
        return "visible" if self.visible else "masked"


CODE = Switches()
PAPER = Switches(**dict.fromkeys(Switches.__dataclass_fields__, False))


@dataclass(frozen=True)
class AtMost:
    """T = min(L, steps) + extra, each row by its own length."""

    steps: int
    extra: int

    def __call__(self, length: Tensor) -> Tensor:
        """The number of steps of canvases of these lengths, (N,) → (N,)."""
        return length.clamp_max(self.steps) + self.extra


def weights(strategy: str | Sequence[float]) -> Weights:
    """(α, β, γ) of a strategy: its name, `easy_first_<β>`, or the three weights themselves."""
    if not isinstance(strategy, str):
        if len(strategy) != 3:
            raise ValueError(f"a strategy has three weights (α, β, γ), got {list(strategy)}")
        alpha, beta, gamma = map(float, strategy)
        return alpha, beta, gamma
    if strategy in STRATEGIES:
        return STRATEGIES[strategy]
    if weighted := re.fullmatch(r"easy_first_(\d+(?:\.\d+)?)", strategy):
        return 1.0, float(weighted[1]), 0.0
    if strategy == "uniform":
        raise ValueError("strategy 'uniform' is drawn from a random state that is not recorded: it cannot be replayed")
    known = ", ".join([*STRATEGIES, "easy_first_<β>"])
    raise ValueError(f"unknown strategy {strategy!r}: there are {known}, and three weights (α, β, γ)")


def _combined(parts: Sequence[tuple[float, Order]], strategy: str | Sequence[float]) -> Order:
    terms = [weight * order for weight, order in parts if weight]
    if not terms:
        raise ValueError(f"strategy {strategy!r} gives every position the same weight: nothing is preferred")
    return sum(terms[1:], terms[0])


def greedy(strategy: str | Sequence[float], passes: int = 1, switches: Switches = CODE) -> Decoder:
    """Linear time: one position a step, T = passes × L."""
    alpha, beta, gamma = weights(strategy)
    parts = (
        (alpha, log_negent if switches.log_entropy else core.negent),
        (beta, LaggingLogp() if switches.lagging_logp else core.logp),
        (gamma, far_position if switches.far_position else core.position),
    )
    combined = _combined(parts, strategy)
    order = Replayed(combined) if passes > 1 and switches.replay else combined
    region = core.everywhere if switches.anywhere else core.masked if passes == 1 else core.revisit
    symbols = ANYTHING if switches.leave_masks else Symbols()
    return Decoder(
        Coordinates(order, among=region, conditionals=switches.conditionals), symbols, steps=core.Times(passes)
    )


@dataclass(frozen=True, eq=False)
class FirstPass:
    """A witness of `decode`: the coordinates of a one-at-a-time decoder's first pass, in order."""

    positions: Tensor  # (N, L), −1 after a row's own

    @classmethod
    def of(cls, state: State) -> FirstPass:
        """Nothing noted yet, for the rows of a state."""
        return cls(torch.full_like(state.tokens, -1))

    def __call__(self, taken: Step) -> None:
        """Note the position that each row wrote at a step of its first pass."""
        t, within = taken.before.step, taken.before.step < taken.before.length
        self.positions[taken.rows[within], t[within]] = taken.z[within].int().argmax(-1)


def beam(
    model: Model,
    context: Any,
    state: State,
    strategy: str | Sequence[float],
    K: int,
    passes: int = 1,
    *,
    length_penalty: float = 0.6,
    switches: Switches = CODE,
    watch: FirstPass | None = None,
) -> core.Beam:
    """K hypotheses by Σ log p(y) / L^0.6, all of them at the positions of a greedy run of the same strategy.

    `watch` is shown the greedy run.
    """
    decoder = greedy(strategy, passes, switches)
    if switches.shared_positions:
        seen = FirstPass.of(state) if watch is None else watch
        core.decode(model, context, state, greedy(strategy, 1, switches), watch=seen)
        decoder = replace(decoder, coordinates=Coordinates(Planned(seen.positions), among=core.everywhere), hide=False)
    merge = not switches.shared_positions
    return core.beam(model, context, state, decoder, K, length_penalty=length_penalty, merge=merge)


def constant_time(
    strategy: str | Sequence[float], steps: int, schedule: str = "linear", switches: Switches = CODE
) -> Decoder:
    """Constant time, T ≤ L: "linear" re-masks L→1 positions, "constant" ⌈L/(T+1)⌉, "all" predicts all, unmasked.

    Positions are judged by the pass before (φ_pos is left out; with `lagging_logp` they see themselves, whatever
    `visible` says); left2right takes the first ones, or the next in a row.
    "linear" and uniform shuffles the first ones, which is left2right.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"unknown schedule {schedule!r}: there are {', '.join(SCHEDULES)}")
    if steps < 1:
        raise ValueError(f"a constant-time decoder needs at least 1 step, got {steps}")
    extra = int(schedule == "constant" and switches.empty_pass)
    cut = AtMost(steps, extra)

    def ending(coordinates: Coordinates) -> Decoder:
        if switches.leave_masks:
            return Decoder(coordinates, ANYTHING, steps=cut)
        return Decoder(coordinates, steps=steps + extra)

    if schedule == "all":
        return replace(ending(Coordinates(core.leftmost, core.whole, core.everywhere)), hide=False)
    in_a_row = (schedule == "linear" and strategy == "uniform") or weights(strategy) == STRATEGIES["left2right"]
    if in_a_row:
        order: Order = core.leftmost
    else:
        alpha, beta, _ = weights(strategy)
        order = _combined(((alpha, log_negent if switches.log_entropy else core.negent), (beta, core.logp)), strategy)
    if schedule == "constant" and not switches.empty_pass:
        return ending(replace(recipes.constant_time(steps, order).coordinates, conditionals=switches.conditionals))
    count = _linear(steps) if schedule == "linear" else _constant(cut, in_a_row)
    reuse = switches.lagging_logp and not in_a_row
    seen: Conditionals = "visible" if reuse else switches.conditionals
    return ending(Coordinates(order, count, core.everywhere, conditionals=seen, reuse=reuse))


def _linear(steps: int) -> Count:
    """o_t = max(1, ⌊L·((T − t)/T)⌋), rounded as floating point does."""

    def amount(state: State, L: Tensor) -> Tensor:
        T = L.clamp_max(steps).double()
        return (L * ((T - state.step) / T)).long().clamp_min(1)

    return number(f"linear({steps})", amount)


def _constant(cut: Callable[[Tensor], Tensor], in_a_row: bool) -> Count:
    """Nothing, then k = ⌈L/(T+1)⌉ a step: the best, or positions (t − 1)·k … t·k − 1."""

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        passes = cut(ranked.size)
        k = (ranked.size + passes - 1) // passes
        begun = (state.step > 0)[:, None]
        if in_a_row:
            return begun & (state.place // k[:, None] == state.step[:, None] - 1)
        return begun & first(ranked, k)

    return Count("constant", take, minimum=0)


def greedy_score(result: core.Result) -> Tensor:
    """The mean log p of the symbols written, (N,): neither log p(L|X) nor log p(z) is in it."""
    return result.score / result.steps


def constant_time_score(result: core.Result, lengths: Tensor) -> Tensor:
    """Σ log p of the symbols written, divided by T × L, however many were written: (N,)."""
    return result.score / (result.steps * lengths)
