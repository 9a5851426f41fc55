"""(a) Count: how many coordinates at once, o_t; which of the ranked positions are taken in this step.

L is the size of the region's extent: the whole canvas for `masked` and `everywhere`, the block for `block`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from anyorder.core.noise import AMOUNT, grid, uniform
from anyorder.core.settings import real_number, whole_number
from anyorder.core.state import State, View


class Ranked(NamedTuple):
    """The positions of a region, best first."""

    region: Tensor  # (N, L) bool: the positions to choose among
    rank: Tensor  # (N, L) int64: positions, best first; those outside the region come last. `ONE` gets the best, (N, 1)
    size: Tensor  # (N,) int64: L, the number of open positions in the region's extent


@dataclass(frozen=True)
class Count:
    """(state, view, ranked) → z (N, L) bool. Where it takes fewer than `minimum`, that many of the best are taken.

    `fixes` is what does not depend on the ranks: how many are taken ("number"), or which ones ("which", ranks only
    decide where there would be none). Only then the probability of z is known where positions are drawn.
    """

    name: str
    take: Callable[[State, View, Ranked], Tensor] = field(compare=False, repr=False)
    reads: frozenset[str] = frozenset()
    minimum: int = 1
    fixes: Literal["number", "which"] | None = None
    some: bool = False  # does `take` always take one, of a region that has one? As good as a minimum of 1
    chance: Callable[[State], float | Tensor] | None = field(default=None, compare=False, repr=False)  # p(z_i = 1)
    remember: Callable[[State, View, Tensor], dict[str, Tensor]] = field(
        default=lambda state, view, z: {}, compare=False, repr=False
    )

    def __call__(self, state: State, view: View, ranked: Ranked) -> Tensor:
        """z (N, L) bool: which of the ranked positions are taken, at least `minimum` per row."""
        z = self.take(state, view, ranked) & ranked.region
        if not self.minimum:
            return z
        least = torch.where(z.sum(-1) < self.minimum, self.minimum, 0)
        return z | (first(ranked, least) & ranked.region)

    def certain(self, state: State, view: View, ranked: Ranked) -> Tensor:
        """(N,) rows in which the ranks of a count that fixes "which" had no say in what was taken."""
        return (self.take(state, view, ranked) & ranked.region).sum(-1) >= self.minimum


def first(ranked: Ranked, k: Tensor) -> Tensor:
    """z of the k (N,) best positions; where the region has fewer, of others as well."""
    inside = torch.arange(ranked.rank.shape[1], device=k.device) < k[:, None]
    return torch.zeros_like(ranked.region).scatter_(-1, ranked.rank, inside)


def prefix(ranked: Ranked, ok: Tensor) -> Tensor:
    """z of the longest run of best positions that are all `ok`, given in order of rank (N, L)."""
    return first(ranked, ok.long().cumprod(-1).sum(-1))


def number(name: str, k: Callable[[State, Tensor], Tensor], some: bool = False) -> Count:
    """A count that is a number, at least 1: k(state, L (N,)) → (N,). `some`: it is known to be that."""

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        return first(ranked, k(state, ranked.size))

    return Count(name, take, minimum=0, fixes="number", some=some)


def fixed(k: int) -> Count:
    """o_t = k."""
    whole_number("the k of fixed", k)

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        best = ranked.rank if ranked.rank.shape[1] <= k else ranked.rank[:, :k]
        return torch.zeros_like(ranked.region).scatter_(-1, best, True)

    return Count(f"fixed({k})", take, minimum=0, fixes="number", some=True)


def constant(steps: int) -> Count:
    """o_t = ⌈L/T⌉: done after at most T steps."""
    whole_number("the steps of constant", steps)
    return number(f"constant({steps})", lambda state, size: (size + steps - 1) // steps, some=True)


def even(steps: int) -> Count:
    """L divided evenly over T steps, the remainder to the first ones (LLaDA's num_transfer_tokens)."""
    whole_number("the steps of even", steps)

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        share, rest = ranked.size // steps, ranked.size % steps
        written = ranked.size - ranked.region.sum(-1)
        return first(ranked, share + (written < rest * (share + 1)).long())

    return Count(f"even({steps})", take, fixes="number")


def anneal(steps: int) -> Count:
    """o_t = max(1, ⌊L·(T − t)/T⌋), t = 0 … T−1: from L down to ⌊L/T⌋, which is 1 where L < 2T."""
    whole_number("the steps of anneal", steps)
    return number(f"anneal({steps})", lambda s, size: (size * (steps - s.step) // steps).clamp_min(1), some=True)


def shares(steps: int, last: float = 1e-3) -> Callable[[State], Tensor]:
    """1 − s/t at each row's step (N,): T times t from 1 to `last`, s the next, in float32 as Dream has it."""
    whole_number("the steps of diffusion", steps)
    times = torch.linspace(1, last, steps + 1)
    share = 1 - times[1:] / times[:-1]  # (T,)
    return lambda state: share.to(state.step.device)[state.step.clamp_max(steps - 1)]


def diffusion(steps: int) -> Count:
    """o_t = ⌊m·(1 − s/t)⌋ of the m masks that are left (Dream)."""
    share = shares(steps)

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        return first(ranked, (ranked.region.sum(-1).float() * share(state)).long())

    return Count(f"diffusion({steps})", take, minimum=0, fixes="number")


whole = Count("whole", lambda state, view, ranked: ranked.region, fixes="which")  # everything in the region


def threshold(p: float) -> Count:
    """All positions whose proposed symbol has probability ≥ p."""
    real_number("threshold, a probability,", p, 0, 1)
    return Count(
        f"threshold({p:g})", lambda state, view, ranked: view.logp.exp() >= p, frozenset({"logp"}), fixes="which"
    )


def factor(f: float) -> Count:
    """The largest n with (n + 1)(1 − c₍ₙ₎) < f, c₍ₙ₎ the n-th best confidence (Fast-dLLM)."""
    real_number("the f of factor", f)

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        c = view.logp.exp().gather(-1, ranked.rank)
        n = torch.arange(1, c.shape[1] + 1, device=c.device)
        fits = ((n + 1) * (1 - c) < f) & ranked.region.gather(-1, ranked.rank)
        return first(ranked, (fits * n).amax(-1))

    return Count(f"factor({f:g})", take, frozenset({"logp"}))


def entropy_bound(gamma: float) -> Count:
    """The longest prefix with Σ H₍ᵢ₎ − max H₍ᵢ₎ ≤ γ: bounds the error of drawing them independently (EB-Sampler)."""
    real_number("the γ of entropy_bound", gamma)

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        assert view.entropy is not None
        h = view.entropy.masked_fill(~ranked.region, 0).gather(-1, ranked.rank)
        return prefix(ranked, h.cumsum(-1) - h.cummax(-1).values <= gamma)

    return Count(f"entropy_bound({gamma:g})", take, frozenset({"entropy"}))


def kl_stable(p: float, epsilon: float, history: int = 2) -> Count:
    """Positions with c > p whose distribution moved by KL(p_t ‖ p_{t−1}) < ε in each of the last n steps (KLASS).

    It compares whole distributions, so it keeps (N, L, |V|) of them; no other count pays for that.
    """
    real_number("the p of kl_stable", p, 0, 1)
    real_number("the ε of kl_stable", epsilon, 0)
    whole_number("the history of kl_stable", history)

    def settled(state: State, view: View) -> Tensor:
        """(N, L) int64: for how many steps in a row each position has been stable."""
        assert view.full is not None
        before = state.recall("position:distribution", torch.nan)  # nothing to compare with: never less than ε
        kl = (view.full.exp() * (view.full - before)).sum(-1)
        return torch.where(kl < epsilon, state.recall("position:settled", 0) + 1, 0)

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        return (settled(state, view) >= history) & (view.logp.exp() > p)

    def remember(state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        assert view.full is not None
        return {"position:distribution": view.full, "position:settled": settled(state, view)}

    name = f"kl_stable({p:g}, {epsilon:g}, {history})"
    return Count(name, take, frozenset({"logp", "full"}), fixes="which", remember=remember)


def chance(name: str, p: Callable[[State], float | Tensor]) -> Count:
    """Each position of the region with probability p(state), one for all or (N,), independently; may be none."""

    def take(state: State, view: View, ranked: Ranked) -> Tensor:
        u = uniform(*grid(state.seed, state.step, state.tokens.shape[1], AMOUNT))
        share = p(state)
        return u < (share.reshape(-1, 1) if isinstance(share, Tensor) else share)

    return Count(name, take, minimum=0, chance=p)


ONE = fixed(1)
