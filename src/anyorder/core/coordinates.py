"""(a) Coordinates: p(z | Y^≤t, Z^t, X), from an order, a count and the region to choose among."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor

from anyorder.core.count import ONE, Count, Ranked
from anyorder.core.devices import constant, doubt, precise
from anyorder.core.look import Conditionals
from anyorder.core.noise import COORDINATE, grid, gumbel
from anyorder.core.order import Order, split_noise
from anyorder.core.sets import log_p_set
from anyorder.core.settings import real_number, whole_number
from anyorder.core.state import State, View

Mask = Callable[[State], Tensor]  # state → (N, L) bool


@dataclass(frozen=True)
class Region:
    """Which positions may be chosen now, and the extent (N, L) whose size is the L of counts."""

    name: str
    candidates: Mask = field(compare=False, repr=False)
    extent: Mask = field(compare=False, repr=False)
    blank: bool = False  # are only masked positions ever chosen?
    span: int | None = None  # open positions of a block, where it goes block by block
    remember: Callable[[State, Tensor], dict[str, Tensor]] = field(
        default=lambda state, z: {}, compare=False, repr=False
    )

    def size(self, state: State) -> Tensor:
        """(N,) the number of positions in the extent."""
        return state.length if self.extent is _open else self.extent(state).sum(-1)


def _open(state: State) -> Tensor:
    return state.open


masked = Region("masked", lambda state: state.masked, _open, blank=True)
everywhere = Region("everywhere", _open, _open)


def _visits(state: State) -> Tensor:
    """(N, L) how often each position was written; a canvas that begins with symbols counts as written once."""
    return state.recall("position:visits", (~state.masked).long())


def _revisit(state: State) -> Tensor:
    visits = _visits(state).masked_fill(~state.open, torch.iinfo(torch.int64).max)
    least = visits == visits.amin(-1, keepdim=True)
    return state.open & torch.where(state.masked.any(-1, keepdim=True), state.masked, least)


# What is masked; once nothing is, every position once more, and again (T = 2L, 3L …).
revisit = Region("revisit", _revisit, _open, remember=lambda state, z: {"position:visits": _visits(state) + z.long()})


def block(size: int) -> Region:
    """Blocks of `size` open positions, left to right: the masked positions of the first unfinished one."""
    whole_number("a block's size", size)

    def extent(state: State) -> Tensor:
        missing = state.masked
        place = torch.where(missing, state.place, torch.iinfo(torch.int64).max)
        current = place.amin(-1, keepdim=True) // size
        return state.open & (state.place // size == current)

    return Region(f"block({size})", lambda state: extent(state) & state.masked, extent, blank=True, span=size)


def aligned(size: int, lead: int = 0) -> Region:
    """Blocks of `size` columns of the whole canvas, prompt included, left to right: as block-causal attention has them.

    With `lead` the first column of every `lead` comes alone, before the others of its block.
    """
    whole_number("the size of aligned", size)
    whole_number("the lead of aligned", lead, 0)

    def extent(state: State) -> Tensor:
        column = torch.arange(state.tokens.shape[1], device=state.tokens.device)
        first = torch.where(state.masked, column, torch.iinfo(torch.int64).max).amin(-1, keepdim=True)
        here = state.open & (column // size == first // size)
        return torch.where((first % lead == 0) & (column != first), False, here) if lead else here

    name = f"aligned({size}, {lead})" if lead else f"aligned({size})"
    return Region(name, lambda state: extent(state) & state.masked, extent, blank=True, span=size)


def dilated(size: int) -> Region:
    """Within each block of `size`, positions far apart together: every size/2-th, then every size/4-th, … (DUS)."""
    whole_number("the size of dilated", size)
    strides = [s for s in (size >> k for k in range(1, size.bit_length() + 1)) if s] or [1]
    blocks = block(size)

    def extent(state: State) -> Tensor:
        place, level = state.place.clamp_min(0) % size, torch.zeros_like(state.place)
        for k, stride in enumerate(strides):  # a position's level is the first stride that meets it
            level = torch.where((level == k) & (place % stride != 0), k + 1, level)
        here = blocks.candidates(state)
        current = torch.where(here, level, size).amin(-1, keepdim=True)
        return blocks.extent(state) & (level == current)

    return Region(f"dilated({size})", lambda state: extent(state) & state.masked, extent, blank=True, span=size)


def _last_slot(state: State) -> Tensor:
    ends = (state.tokens != state.pad_id).sum(-1, keepdim=True) - 1
    return state.open & (torch.arange(state.tokens.shape[1], device=ends.device) == ends)


last_slot = Region("last slot", _last_slot, _last_slot)  # before a row's last symbol: insertion from left to right


class Choice(NamedTuple):
    """The coordinates of one step."""

    z: Tensor  # (N, L) bool
    logz: Tensor  # (N,) log p(z)


@dataclass(frozen=True)
class Coordinates:
    """Choose o_t positions of a region: the best by the order, or drawn from its softmax.

    temperature τ = 0 takes the best (log p(z) = 0). τ > 0 draws without replacement from softmax(φ/τ) by Gumbel
    top-k, and log p(z) is that of the set, in whatever order it was drawn. An order with a term w·random is the same
    as the rest of it at τ = w; `random` alone is uniform.
    """

    order: Order
    count: Count = ONE
    among: Region = masked
    temperature: float = 0.0
    conditionals: Conditionals = "visible"  # how the order sees a written position: as it is, or with itself masked
    reuse: bool = False  # judge by the pass of the step before, so that re-masking costs one pass per step

    def __post_init__(self) -> None:
        real_number("temperature (0 takes the best positions)", self.temperature, 0)
        real_number("the weight of random", split_noise(self.order)[1])
        if self.temperature and split_noise(self.order)[1]:
            raise ValueError(f"temperature {self.temperature:g} and an order with random noise: give one of the two")
        if self.reuse and self.conditionals == "masked":
            raise ValueError(
                "reuse judges by the pass in which the step before read its symbols, where positions see themselves: "
                "masked conditionals need passes of their own, so give one of the two"
            )
        if self.tau and self.count.fixes is None and self.count.chance is None:
            raise ValueError(
                f"{self.count.name} takes more or fewer positions by the order in which they are drawn, so the "
                "probability of what it takes is not known: use temperature 0, or a count such as fixed or constant"
            )

    @cached_property
    def tau(self) -> float:
        """The temperature in force."""
        return self.temperature or abs(split_noise(self.order)[1])

    @cached_property
    def calm(self) -> Order | None:
        """The order without its noise; None where nothing is left."""
        return split_noise(self.order)[0]

    @cached_property
    def single(self) -> bool:
        """Is it one position a step? Then the best is all that is asked of a ranking."""
        return self.count == ONE

    @cached_property
    def certain(self) -> bool:
        """Is log p(z) = 0, because nothing is drawn?"""
        return not self.tau and self.count.chance is None

    @cached_property
    def reads(self) -> frozenset[str]:
        """The fields of a view that its order and count need."""
        return self.order.reads | self.count.reads

    def logits(self, state: State, view: View, region: Tensor) -> Tensor:
        """φ (where the best are taken), or φ/τ up to a constant, −inf outside the region: (N, L).

        Finite within it whatever φ says, so that its positions come before all others.
        """
        if self.calm is None:  # nothing but noise
            return torch.where(region, state.logp.new_zeros(1), constant(-math.inf, region.device))
        x = self.calm(state, view)
        x = x if x.dtype == state.logp.dtype else x.to(state.logp.dtype)
        low = torch.finfo(x.dtype).min / 4
        nowhere = constant(-math.inf, x.device)
        x = torch.where(region, x.clamp(low, -low), nowhere)
        if x.device.type != "cpu":
            doubt(x.isnan().any(), partial(self._complain, state, view, x.isnan()))
        elif math.isnan(x.sum().item()) and bool(x.isnan().any()):  # a sum is NaN if a term is (or if it overflows)
            self._complain(state, view, x.isnan())
        if not self.tau:
            return x
        best = x.amax(-1, keepdim=True).clamp_min(low)  # so that no τ is too small
        return torch.where(region, ((x - best).to(precise(x.device)) / self.tau).clamp_min(low).to(x.dtype), nowhere)

    def _complain(self, state: State, view: View, nan: Tensor) -> NoReturn:
        n, i = nan.nonzero()[0].tolist()
        terms = [str(f) for _, f in self.order.terms if bool(f(state, view)[n, i].isnan())]
        raise ValueError(
            f"row {int(state.row[n])}, position {i}, step {int(state.step[n])}: the order's "
            f"{terms[0] if terms else self.order} is not a number (NaN), so no position can be preferred"
        )

    def check_says(self, state: State, view: View, region: Tensor, *, of_y: bool) -> None:
        """Raises where φ reads what it does not say: symbols drawn just now or, asked whether it is one of Y, the past.

        What is exact only if φ knows no more than it says asks this at every step.
        """
        blank = view._replace(token=torch.full_like(view.token, state.mask_id), logp=torch.zeros_like(view.logp))
        only = view if "logp" in self.reads else blank
        past = {"logp": torch.zeros_like(state.logp), "score": torch.zeros_like(state.score), "memory": {}}
        bare = state.but(**past) if of_y else state
        if not torch.equal(self.logits(state, view, region), self.logits(bare, only, region)):
            raise ValueError(
                f"the order {self.order} reads draws or earlier steps without saying so (`reads`, `remembers`): what "
                "is asked for would not be exact"
            )

    def log_probs(self, state: State, view: View, region: Tensor) -> Tensor:
        """log p(z_i = 1) of a single coordinate (N, L); all mass on the best where τ = 0."""
        x = self.logits(state, view, region)
        if self.tau:
            return x.log_softmax(-1)
        best = x.argmax(-1, keepdim=True)
        return torch.full_like(x, -torch.inf).scatter(-1, best, 0.0).masked_fill(~region, -torch.inf)

    def choose(self, state: State, view: View, region: Tensor | None = None) -> Choice:
        """z (N, L) bool and log p(z) (N,): the candidates ranked by φ (plus noise if τ > 0), as many as the count says.

        `view` is the model's look at `state`, with the fields of `reads`. Candidates are those of `among`, or of them
        only `region` (N, L) bool.
        """
        region = self.among.candidates(state) if region is None else region
        x = self.logits(state, view, region)
        key = x
        if self.tau:
            key = x.to(precise(x.device)) + gumbel(*grid(state.seed, state.step, x.shape[1], COORDINATE))
        ranked = Ranked(region, self._ranks(key), self.among.size(state))
        z = self.count(state, view, ranked)
        if self.count.chance is not None:
            return Choice(z, _bernoulli(self.count.chance(state), z, region).to(state.score.dtype))
        if not self.tau:
            return Choice(z, torch.zeros_like(state.score))
        if self.single:
            return Choice(z, torch.where(z, x.to(precise(x.device)).log_softmax(-1), 0.0).sum(-1).to(state.score.dtype))
        logz = log_p_set(x, z)
        if self.count.fixes == "which":
            logz = logz.masked_fill(self.count.certain(state, view, ranked), 0.0)
        return Choice(z, logz.to(state.score.dtype))

    def _ranks(self, key: Tensor) -> Tensor:
        """Positions by their key (N, L), the highest first and of equals the leftmost: (N, L), or the first, (N, 1)."""
        if self.single:
            return key.argmax(-1, keepdim=True)
        return key.argsort(dim=-1, descending=True, stable=True)

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        """What order, count and region carry along after z (N, L) was chosen."""
        carried = self.order.remember(state, view, z) | self.count.remember(state, view, z)
        return carried | self.among.remember(state, z)


def _bernoulli(p: float | Tensor, z: Tensor, region: Tensor) -> Tensor:
    """Σ_i z_i log p + (1 − z_i) log(1 − p) over the region, p () or (N,): (N,)."""
    dtype = precise(z.device)
    p = (p if isinstance(p, Tensor) else constant(p, z.device)).to(dtype)
    yes, no = z.sum(-1).to(dtype), (region & ~z).sum(-1).to(dtype)
    return torch.xlogy(yes, p) + torch.xlogy(no, 1 - p)
