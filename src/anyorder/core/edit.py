"""Edit: Y^{t+1} from Y^t, given the coordinates and the symbols proposed there. Replace, or insert (appendix B)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from anyorder.core.state import State, View

Look = Callable[..., View]  # (state, at, reads=…, hide=…, conditionals=…) → View: another pass, if an edit needs one


class Edit(Protocol):
    """A rule for the next canvas. `reads` is what it wants to know of every open position before it edits."""

    @property
    def reads(self) -> frozenset[str]:
        """The fields of a view that it needs."""
        ...

    def pending(self, state: State) -> Tensor:
        """(N, L) what is still to be written."""
        ...

    def __call__(self, state: State, z: Tensor, view: View, look: Look) -> Edited:
        """Write the symbols that `view` proposes at z (N, L); `look` asks the model again."""
        ...


class Edited(NamedTuple):
    """What came of a proposal."""

    state: State  # Y^{t+1}
    written: Tensor  # (N, L) bool: the coordinates whose proposed symbol was put in place; the score counts these
    view: View | None = None  # with other symbols than those proposed, where the edit writes others


def write(state: State, z: Tensor, view: View) -> State:
    """y_i^{t+1} = (1 − z_i)·y_i^t + z_i·ỹ_i."""
    return state.but(
        tokens=torch.where(z, view.token, state.tokens), logp=torch.where(z, view.logp, state.logp), view=None
    )


def erase(state: State, where: Tensor) -> State:
    """Back to <mask> at `where` (N, L)."""
    return state.but(tokens=state.tokens.masked_fill(where, state.mask_id), logp=state.logp.masked_fill(where, 0.0))


class Replacing:
    """What every edit that keeps the canvas's length shares: it is done when nothing is masked."""

    reads: frozenset[str] = frozenset()
    ends: bool = False  # does it say itself what stands at the end, so that no mask need be written before?

    def pending(self, state: State) -> Tensor:
        """(N, L) what is still to be written."""
        return state.masked


class Replace(Replacing):
    """The symbols at z are replaced."""

    def __call__(self, state: State, z: Tensor, view: View, look: Look) -> Edited:
        """Write the symbols that `view` proposes at z (N, L)."""
        return Edited(write(state, z, view), z)


REPLACE = Replace()


@dataclass(frozen=True)
class Insert:
    """Relative coordinates: z_i = 1 inserts a symbol into the slot before position i; all to the right moves.

    The canvas ends in a fixed symbol, so that the last slot exists. Every slot is open until the model answers
    `stop_id` there; an inserted symbol leaves an open slot on either side.
    """

    stop_id: int
    longest: int  # rows of this length take no more insertions
    reads: frozenset[str] = frozenset()

    def pending(self, state: State) -> Tensor:
        """(N, L) slots that are open, where the canvas may still grow."""
        room = (state.tokens != state.pad_id).sum(-1, keepdim=True) < self.longest
        return state.open & room

    def __call__(self, state: State, z: Tensor, view: View, look: Look) -> Edited:
        """Insert the symbols that `view` proposes into the slots z (N, L); <stop> closes a slot."""
        z = z & self.pending(state)
        stop = z & (view.token == self.stop_id)
        room = self.longest - (state.tokens != state.pad_id).sum(-1, keepdim=True)
        put = z & ~stop & ((z & ~stop).long().cumsum(-1) <= room)
        shift = put.long().cumsum(-1)  # (N, L) how far each symbol moves
        width = state.tokens.shape[1] + int(shift[:, -1].max())
        there = torch.arange(state.tokens.shape[1], device=z.device) + shift
        n, i = put.nonzero(as_tuple=True)

        def move(values: Tensor, fill: float, new: Tensor | bool) -> Tensor:
            out = values.new_full((len(values), width), fill).scatter(1, there, values)
            out[n, there[n, i] - 1] = new[n, i] if isinstance(new, Tensor) else new
            return out

        moved = state.but(
            tokens=move(state.tokens, state.pad_id, view.token),
            open=move(state.open & ~stop, False, True),
            logp=move(state.logp, 0.0, view.logp),
            view=None,
        )
        return Edited(moved.trim(), put | stop)
