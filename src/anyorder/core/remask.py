"""Edits that take symbols back: P2, ReMDM, WINO, and the Metropolis correction of adaptive Gibbs sampling."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.core.coordinates import Coordinates
from anyorder.core.count import ONE
from anyorder.core.devices import precise
from anyorder.core.edit import Edited, Look, Replacing, erase, write
from anyorder.core.noise import ACCEPT, TAKE_BACK, grid, uniform
from anyorder.core.settings import real_number, whole_number
from anyorder.core.state import State, View, merge


def lowest(score: Tensor, among: Tensor, k: Tensor) -> Tensor:
    """(N, L) bool: the k (N,) positions of `among` with the lowest score."""
    rank = score.masked_fill(~among, torch.inf).argsort(dim=-1, stable=True)
    inside = torch.arange(score.shape[1], device=k.device) < k[:, None]
    return torch.zeros_like(among).scatter(-1, rank, inside) & among


@dataclass(frozen=True)
class PathPlanning(Replacing):
    """P2, self-planning: propose a symbol at every mask, keep the ⌈L·(t+1)/T⌉ best of all, re-mask the rest.

    The planner's score is log p of the symbol, times η for one that stood there before: η > 1 re-masks more.
    """

    steps: int
    eta: float = 1.0
    reads: frozenset[str] = frozenset({"current"})

    def __post_init__(self) -> None:
        whole_number("the steps of path planning", self.steps)
        real_number("the η of path planning", self.eta, 0)

    def __call__(self, state: State, z: Tensor, view: View, look: Look) -> Edited:
        """Write at z (N, L), and take back what the rule says."""
        assert view.current is not None
        score = torch.where(z, view.logp, self.eta * view.current)
        new = write(state, z, view)
        keep = (state.length * (state.step + 1) + self.steps - 1) // self.steps
        return Edited(erase(new, lowest(score, state.open, state.length - keep)), z)


@dataclass(frozen=True)
class ReMDM(Replacing):
    """Re-mask each written symbol with probability σ_t = min(η, (1 − α_s)/α_t), α_t = t/T and α_s = (t+1)/T.

    Unmasking with `unmask_probability` beside it keeps the marginals of masked diffusion at every step.
    """

    steps: int
    eta: float

    def __post_init__(self) -> None:
        whole_number("the steps of ReMDM", self.steps)
        real_number("the η of ReMDM", self.eta, 0)

    def sigma(self, step: Tensor) -> Tensor:
        """σ_t of each row (N,), 0 where nothing is written yet."""
        before, after = self._shares(step)
        return torch.where(step > 0, ((1 - after) / before).clamp_max(self.eta), 0.0)

    def _shares(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """α_t and α_s: (N,) each."""
        step = step.to(precise(step.device))
        return step / self.steps, (step + 1) / self.steps

    def unmask_probability(self, state: State) -> Tensor:
        """(α_s − (1 − σ)·α_t)/(1 − α_t): (N,)"""
        before, after = self._shares(state.step)
        return (after - (1 - self.sigma(state.step)) * before) / (1 - before)

    def __call__(self, state: State, z: Tensor, view: View, look: Look) -> Edited:
        """Write at z (N, L), and take back what the rule says."""
        written = state.open & ~state.masked & ~z
        u = uniform(*grid(state.seed, state.step, z.shape[1], TAKE_BACK))
        return Edited(erase(write(state, z, view), written & (u < self.sigma(state.step)[:, None])), z)


@dataclass(frozen=True)
class Accept(Replacing):
    """Uniform-state diffusion (DiffusionGemma): what is chosen is accepted for a step, all else is masked again.

    The result is the most probable symbol of every position in the last pass. A row ends early when these were the
    same in the `stable` passes before and its mean entropy is below `confident`.
    """

    stable: int = 1
    confident: float = 0.005
    reads: frozenset[str] = frozenset({"entropy", "best"})
    ends: bool = True

    def __post_init__(self) -> None:
        whole_number("the number of passes that must agree", self.stable, 0)
        real_number("the entropy below which a row ends", self.confident, 0)

    def __call__(self, state: State, z: Tensor, view: View, look: Look) -> Edited:
        """Accept the symbols at z (N, L); where the row ends, write the best everywhere."""
        assert (
            view.best is not None
            and view.best_logp is not None
            and view.entropy is not None
            and state.budget is not None
        )
        held = torch.where(state.open, view.best, state.tokens)
        same = (held == state.recall("position:held", -1)).all(-1)
        agreed = torch.where(same, state.recall("agreed", 0) + 1, 0)  # passes in a row whose best were these
        mean = torch.where(state.open, view.entropy, 0.0).sum(-1) / state.length
        over = ((agreed >= self.stable) & (mean < self.confident)) | (state.step + 1 >= state.budget)
        final = merge(over[:, None].expand_as(z), view._replace(token=held, logp=view.best_logp), view)
        written = torch.where(over[:, None], state.open, z)
        new = write(state, written, final)
        new = erase(new, state.open & ~written)
        memory = state.memory | {"position:held": held, "agreed": agreed}
        return Edited(new.but(memory=memory, budget=torch.where(over, state.step + 1, state.budget)), written, final)


@dataclass(frozen=True)
class TakeBack(Replacing):
    """WINO: after a draft, re-mask what the rest of the canvas does not support: p(y_i | y_≠i, X) < p.

    The leave-one-out probabilities are exact: a folded pass over the new canvas. (The authors take them from the next
    draft's pass, at shadow positions that see all of the block but their own, and cap the size of a draft.) At most
    one fewer than were written is taken back, so every step makes progress.
    """

    p: float

    def __post_init__(self) -> None:
        real_number("the p of taking back", self.p, 0, 1)

    def __call__(self, state: State, z: Tensor, view: View, look: Look) -> Edited:
        """Write at z (N, L), and take back what the rule says."""
        new = write(state, z, view)
        written = new.open & ~new.masked
        again = look(new, written, reads=frozenset({"current"}), conditionals="masked")
        assert again.current is not None
        doubtful = written & (again.current.exp() < self.p)
        allowance = (z.sum(-1) - 1).clamp_min(0)
        return Edited(erase(new, lowest(again.current, doubtful, torch.minimum(allowance, doubtful.sum(-1)))), z)


@dataclass(frozen=True)
class Metropolis(Replacing):
    """Adaptive Gibbs made exact: accept the new symbol with probability min(1, q_i(Y′)/q_i(Y)).

    q_i is the probability of choosing coordinate i before and after the change. The chain that picks coordinates by
    a softmax of features is not stationary at p without it, because the softmax's normaliser depends on the symbol
    being replaced. Positions that hold <mask> are always accepted: there the chain has not begun. q_i has to be a
    function of Y: an order that looks at what was drawn, or back at earlier steps, is refused.
    """

    coordinates: Coordinates

    def __post_init__(self) -> None:
        c = self.coordinates
        if "logp" in c.reads or c.order.remembers:
            raise ValueError(
                f"the order {c.order} depends on draws or on earlier steps, not on Y alone: no correction makes such "
                "a chain exact (correct=False runs it as it is)"
            )
        if c.count != ONE:
            raise ValueError(f"the correction is for one coordinate a step, not {c.count.name}")

    def __call__(self, state: State, z: Tensor, view: View, look: Look) -> Edited:
        """Write at z (N, L), and keep it with the probability that makes the chain stationary at p."""
        c = self.coordinates
        region = c.among.candidates(state)

        def judged(y: State) -> View:
            if not c.reads:  # an order that reads Y itself
                return View(y.tokens, y.logp)
            return look(y, region, reads=c.reads, conditionals=c.conditionals)

        judge = judged(state) if state.view is None else state.view
        c.check_says(state, judge, region, of_y=True)
        new = write(state, z, view)
        after = judged(new)
        ratio = c.log_probs(new, after, region) - c.log_probs(state, judge, region)  # (N, L)
        ratio = torch.where(z, ratio, 0.0).sum(-1)
        u = uniform(state.seed, state.step, ACCEPT).to(ratio.dtype)
        accept = (u.log() < ratio) | (z & state.masked).any(-1)
        keep = accept[:, None]
        memory = dict(state.memory)
        memory["accepted"] = state.recall("accepted", torch.zeros_like(state.score)) + accept.to(state.score.dtype)
        chain = new.but(
            tokens=torch.where(keep, new.tokens, state.tokens),
            logp=torch.where(keep, new.logp, state.logp),
            memory=memory,
            view=merge(keep.expand_as(z), after, judge) if c.reads else None,
        )
        return Edited(chain, z & keep)
