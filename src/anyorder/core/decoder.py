"""Decoder: the equation's terms composed, how many steps each row has, and when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from anyorder.core.coordinates import Coordinates, masked
from anyorder.core.edit import REPLACE, Edit, Insert, Replace
from anyorder.core.length import Known, Length, UntilEos
from anyorder.core.rules import Rules
from anyorder.core.settings import whole_number
from anyorder.core.state import State
from anyorder.core.symbols import GREEDY, Symbols
from anyorder.errors import RuleError


@dataclass(frozen=True)
class Times:
    """T = factor × L, each row by its own length."""

    factor: int

    def __post_init__(self) -> None:
        whole_number("the factor of Times", self.factor)

    def __call__(self, length: Tensor) -> Tensor:
        """The number of steps of canvases of these lengths, (N,) → (N,)."""
        return length * self.factor


class _Free(Known):
    """Any length: the canvas is given."""

    def propose(self, source_lengths: Tensor, n: int, context: Any = None) -> tuple[Tensor, Tensor]:
        raise ValueError("this decoder has no length model: give it one (Counts, Given, UntilEos), or give canvases")


@dataclass(frozen=True)
class Decoder:
    """A composition of the equation's terms: everything that can be chosen about a generation."""

    coordinates: Coordinates
    symbols: Symbols = GREEDY
    length: Length = field(default_factory=_Free)
    steps: int | Callable[[Tensor], Tensor] | None = (
        None  # T, or each row's from its L (N,); None: until all is written
    )
    edit: Edit = REPLACE
    hide: bool = True  # condition on <mask> at the chosen coordinates, p(y_i | y_<i, <mask>, y_>i, X)
    scored: bool = True  # False: log p of what is written unseen, and the score, are NaN (for orders that need neither)

    def __post_init__(self) -> None:
        if self.steps is not None and not callable(self.steps):
            whole_number("a decoder's steps", self.steps)
        if self.symbols.final is not None and self.steps is None:
            raise ValueError("a temperature that falls needs a number of steps to fall over: give `steps`")

    @property
    def own_length(self) -> Length | None:
        """Its p(L|X), for whoever makes the canvases; None where canvases of any length do."""
        return None if isinstance(self.length, _Free) else self.length

    @property
    def hides(self) -> bool:
        """An insertion replaces no symbol, so it masks none."""
        return self.hide and not isinstance(self.edit, Insert)

    @cached_property
    def moves(self) -> bool:
        """Is it certain that each step changes every row that takes it? A symbol takes the place of a mask."""
        count, symbols = self.coordinates.count, self.symbols
        writes = self.coordinates.among is masked and (count.some or count.minimum > 0)
        plain = type(self.edit) is Replace and type(self.length).finish in (Known.finish, UntilEos.finish)
        return writes and plain and not symbols.may_mask and symbols.forced is None

    @cached_property
    def counts(self) -> bool:
        """Is log p(G|X) = Σ log p(z) + log p(y)? Not where a symbol is drawn first and its position chosen by it: that
        y was drawn at i and chosen depends on what was drawn everywhere else, and the score is NaN."""
        return not (self.symbols.temperature and "logp" in self.coordinates.reads)

    def start(self, state: State) -> State:
        """The state with what this decoder gives each row: its number of steps T, its own symbols. Before a row's
        first step. Raises RuleError where a rule cannot be kept, or has no valid whole on its canvas."""
        state = self.symbols.start(state)
        if state.rules is not None:
            state = self._ruled(state, state.rules)
        if callable(self.steps):
            return state.but(budget=self.steps(state.length))
        return state.but(budget=None if self.steps is None else torch.full_like(state.length, self.steps))

    def _ruled(self, state: State, rules: Rules) -> State:
        """The state with rules that know what is never written."""
        if isinstance(self.edit, Insert):
            raise RuleError("an insertion moves what is written, so a rule cannot be kept: use an order that replaces")
        if "best" in self.edit.reads:
            raise RuleError(
                "this order ends with the best symbol of every position by itself, so a rule cannot be kept: take "
                "another, such as confidence"
            )
        if self.symbols.may_mask or self.symbols.meanwhile or self.symbols.allowed is not None:
            what = "have allowed sets" if self.symbols.allowed is not None else "may leave <mask> in place"
            raise RuleError(f"symbols that {what} cannot keep a rule: put it into the rule (Automaton.alphabets)")
        if not self.symbols.renormalise:
            raise RuleError("symbols that keep the model's own log p (renormalise=False) cannot keep a rule")
        rules = rules.without([*self.symbols.ban, state.mask_id, state.pad_id])
        possible = rules.reach(state.tokens).possible
        if not bool(possible.all()):
            n = int((~possible).nonzero()[0])
            rule = rules.automata[int(rules.of[n])]
            least, most = rule.shortest, rule.longest
            have = "has no text" if least is None else f"has texts of {least} to {most or 'any number of'} symbols"
            size = int(state.length[n])
            raise RuleError(f"row {int(state.row[n])}: no text of {size} symbols keeps its rule, which {have}")
        return state.but(rules=rules)

    def candidates(self, state: State) -> Tensor:
        """(N, L) the region's positions; once every step that a row has left is needed for one of its masks, those.

        With `last` the one rule for how masks come to an end, in `decode` and in `beam`.
        """
        region = self.coordinates.among.candidates(state)
        free = self.symbols.may_mask or getattr(self.edit, "ends", False)
        if self.coordinates.among.blank or free or not bool(state.masked.any()):
            return region
        left = (state.length if state.budget is None else state.budget) - state.step
        masks = state.masked.sum(-1)
        needed = masks >= left.clamp_min(1)
        return torch.where(needed[:, None], region & state.masked, region)

    def last(self, state: State) -> Tensor | None:
        """(N,) rows whose step this is the final one, so that every mask that is left is written; None: no row's."""
        free = self.symbols.may_mask or getattr(self.edit, "ends", False)
        if state.budget is None or free or 1 not in (state.remaining or ()):
            return None
        return state.budget == state.step + 1


def going(decoder: Decoder, state: State) -> Tensor:
    """(N,) rows that a further step may change."""
    if state.budget is not None and not isinstance(decoder.edit, Replace):  # it may take something back
        return state.budget > state.step
    region, pending = decoder.coordinates.among.candidates(state), decoder.edit.pending(state)
    if state.budget is None:
        return (pending if region is pending else region & pending).any(-1)
    either = region if region is state.open or region is pending else region | pending
    able = either.any(-1)
    return able if min(state.remaining or (1,)) > 0 else able & (state.budget > state.step)


def done(decoder: Decoder, state: State) -> Tensor:
    """(N,) rows that no further step changes: they leave the batch."""
    return ~going(decoder, state)
