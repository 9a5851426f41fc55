"""Orders that only the paper authors' code has."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.core import Feature, Order, State, View


def _log_negent(state: State, view: View) -> Tensor:
    assert view.entropy is not None
    return -view.entropy.log()


def _far_position(state: State, view: View) -> Tensor:
    away = ((state.step % state.length)[:, None] - state.place).abs()
    return torch.where(away == 0, 0.0, (away / state.length[:, None]).log()).to(state.logp.dtype)


# −log(H/log|V|) = −log H + log log|V|: the constant is the same everywhere, and neither the best nor a softmax see it
log_negent = Feature("log_negent", _log_negent, frozenset({"entropy"}))
far_position = Feature("far_position", _far_position)


@dataclass(frozen=True)
class LaggingLogp(Order):
    """−log p of the symbols now in place by the pass that the step before looked at; 0 at the first step."""

    reads: frozenset[str] = frozenset({"full"})

    def __call__(self, state: State, view: View) -> Tensor:
        """φ (N, L): how much each position is wanted next."""
        before = state.memory.get("position:lagging")  # (N, L, V)
        if before is None:
            return torch.zeros_like(state.logp)
        then = before.gather(-1, state.tokens.clamp_max(before.shape[-1] - 1)[..., None])[..., 0]
        return torch.where(state.step[:, None] > 0, -then, 0.0)

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        """What is carried along after z (N, L) was chosen."""
        assert view.full is not None
        return {"position:lagging": view.full}


def _only(at: Tensor, like: Tensor) -> Tensor:
    """1 at positions `at` (N,), 0 elsewhere: (N, L)."""
    return torch.zeros_like(like).scatter(1, at[:, None], 1.0)


@dataclass(frozen=True)
class Replayed(Order):
    """An order's own choices in the first L steps, and the same positions again in every later pass."""

    order: Order

    @property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        """What the replayed order reads."""
        return self.order.reads

    def __call__(self, state: State, view: View) -> Tensor:
        """φ (N, L): how much each position is wanted next."""
        choice, turns = self.order(state, view), state.memory.get("position:turns")
        if turns is None:
            return choice
        at = turns.gather(1, (state.step % state.length)[:, None])[:, 0]
        return torch.where((state.step >= state.length)[:, None], _only(at, choice), choice)

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        """What is carried along after z (N, L) was chosen."""
        turns = state.recall("position:turns", torch.zeros_like(state.tokens))  # (N, L): the position of each step
        now = torch.arange(turns.shape[1], device=z.device) == state.step[:, None]
        turns = torch.where(now, z.int().argmax(-1)[:, None], turns)
        return {"position:turns": turns} | self.order.remember(state, view, z)


@dataclass(frozen=True, eq=False)
class Planned(Order):
    """Positions decided beforehand: (rows of the first state, L), gone through once per pass."""

    positions: Tensor

    def __call__(self, state: State, view: View) -> Tensor:
        """φ (N, L): how much each position is wanted next."""
        return _only(self.positions[state.row, state.step % state.length].clamp_min(0), state.logp)
