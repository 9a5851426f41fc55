"""∏_t: one pure step over one batched state; `unroll` yields every step, `decode` keeps the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.core.coordinates import Coordinates
from anyorder.core.edit import REPLACE, Edit, Insert, Replace
from anyorder.core.length import Known, Length
from anyorder.core.look import Cost, Reader
from anyorder.core.model import Model
from anyorder.core.state import State, View
from anyorder.core.symbols import GREEDY, Symbols


@dataclass(frozen=True)
class Times:
    """T = factor × L, each row by its own length."""

    factor: int


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
    steps: int | Times | None = None  # T; None: until nothing is masked
    edit: Edit = REPLACE
    hide: bool = True  # condition on <mask> at the chosen coordinates, p(y_i | y_<i, <mask>, y_>i, X)

    def __post_init__(self) -> None:
        steps = self.steps.factor if isinstance(self.steps, Times) else self.steps
        if steps is not None and steps < 1:
            raise ValueError(f"a decoder needs at least 1 step, got {steps}")

    @property
    def hides(self) -> bool:
        """An insertion replaces no symbol, so it masks none."""
        return self.hide and not isinstance(self.edit, Insert)

    def budget(self, state: State) -> Tensor | None:
        """(N,) the number of steps T of each row; None: until nothing is masked."""
        if self.steps is None:
            return None
        return state.length * self.steps.factor if isinstance(self.steps, Times) else state.length * 0 + self.steps


class Step(NamedTuple):
    """One step of some of the rows: what was decided and what came of it."""

    rows: Tensor  # (n,) int64: which rows of the first state these are
    before: State  # Y^t
    z: Tensor  # (n, L) bool: the coordinates
    logz: Tensor  # (n,) log p(z)
    view: View  # p(y | Y^t, X) at z, as the symbols were drawn
    state: State  # Y^{t+1}
    judged: View | None = None  # the view that the coordinates were chosen by, where they looked


@dataclass(frozen=True, eq=False)
class Result:
    """Where every row ended, in the order given, and what it cost."""

    tokens: Tensor  # (N, L)
    logp: Tensor  # (N, L) log p of each symbol when it was written
    score: Tensor  # (N,) log p(G|X)
    steps: Tensor  # (N,) steps taken
    cost: Cost


def step(
    reader: Reader,
    context: Any,
    state: State,
    decoder: Decoder,
    rows: Tensor,  # (N,) what Step.rows will say
    last: Tensor | bool = False,
    top: int = 0,
) -> Step:
    """Y^t → Y^{t+1}. `last` (N,) marks rows in their final step, where every mask that is left is written.

    One forward pass, or two where the equation needs them: a written position that was chosen by looking is masked
    before its symbol is drawn. A position that is <mask> already was seen in that very state: the first pass serves.
    """
    c, edit = decoder.coordinates, decoder.edit
    look = partial(reader.look, context)
    left = None if last is False else state.masked if last is True else state.masked & last[:, None]
    ahead = c.reuse and last is not True  # will the next step judge by this pass?
    judged = state.view
    if c.reads and judged is None:
        at = state.open if edit.reads or ahead else _either(c.among.candidates(state), left)
        judged = look(state, at, reads=c.reads | edit.reads, conditionals=c.conditionals, top=top)
    blank = View(state.tokens, state.logp)
    z, logz = c.choose(state, blank if judged is None else judged)
    z = _either(z, left)

    if judged is None or state.view is not None:  # a view kept from the step before has no draws of this step
        at = state.open if edit.reads or ahead else z
        view = look(state, at, reads=c.reads | edit.reads, hide=z if decoder.hides else None, top=top)
    else:
        seen = c.among.blank or not decoder.hides  # masked positions were seen as they are
        view = judged if seen else _hidden_too(reader, context, state, z, judged, c, top)
    new = edit(state.but(view=judged), z, view, look)
    memory = new.memory | c.remember(state, blank if judged is None else judged, z)
    gained = torch.where(z, view.logp, 0.0).cumsum(-1)[:, -1]  # from left to right: padding does not change rounding
    known = new.view
    if ahead:  # asked about the symbols now in place
        known = view._replace(current=None if view.current is None else torch.where(z, view.logp, view.current))
    new = new.but(score=state.score + logz + gained, step=state.step + 1, memory=memory, view=known)
    return Step(rows, state, z, logz, view, decoder.length.finish(new), judged)


def _either(z: Tensor, more: Tensor | None) -> Tensor:
    return z if more is None else z | more


def _hidden_too(reader: Reader, context: Any, state: State, z: Tensor, judged: View, c: Coordinates, top: int) -> View:
    """`judged`, with rows that chose a written position looked at again with that position masked."""
    again = (z & ~state.masked).any(-1)
    if c.conditionals == "masked":  # a single coordinate was judged with itself masked: that is its conditional
        again = again & (z.sum(-1) > 1)
    rows = again.nonzero()[:, 0]
    if not len(rows):
        return judged
    fresh = reader.look(context.take(rows), state.take(rows), z[rows], hide=z[rows], top=top)

    def put(old: Tensor | None, new: Tensor | None) -> Tensor | None:
        if old is None or new is None:
            return old
        here = z[rows].reshape(*z[rows].shape, *[1] * (old.dim() - 2))
        return old.index_copy(0, rows, torch.where(here, new, old[rows]))

    return View(*map(put, judged, fresh))  # type: ignore[arg-type]


def _active(decoder: Decoder, state: State, budget: int | Tensor | None) -> Tensor:
    """(N,) rows that another step may change."""
    region, pending = decoder.coordinates.among.candidates(state), decoder.edit.pending(state)
    if budget is None:
        return (pending if region is pending else region & pending).any(-1)
    able = (region | pending).any(-1) if isinstance(decoder.edit, Replace) else torch.ones_like(state.row).bool()
    return able & (budget > state.step)


def unroll(
    model: Model, context: Any, state: State, decoder: Decoder, *, cost: Cost | None = None, alternatives: int = 0
) -> Iterator[Step]:
    """Every step of a generation. Rows that are done leave the batch; `Step.rows` says which are left.

    `alternatives` asks for that many best symbols of each position, as `view.top_token` and `view.top_logp`.
    """
    reader = Reader(model, decoder.symbols, Cost() if cost is None else cost)
    rows = torch.arange(len(state.tokens), device=state.tokens.device)
    budget = decoder.steps if isinstance(decoder.steps, int) else decoder.budget(state)
    while True:
        active = _active(decoder, state, budget)
        if not bool(active.all()):
            keep = active.nonzero()[:, 0]
            state, context, rows = state.take(keep).trim(), context.take(keep), rows[keep]
            budget = budget[keep] if isinstance(budget, Tensor) else budget
        if not len(rows):
            return
        last = False if budget is None or decoder.symbols.may_mask else budget == state.step + 1
        with torch.inference_mode():
            taken = step(reader, context, state, decoder, rows, last, alternatives)
        yield taken
        state = taken.state


def decode(
    model: Model, context: Any, state: State, decoder: Decoder, *, watch: Callable[[Step], object] | None = None
) -> Result:
    """Run a decoder to its end; `watch` is shown every step."""
    cost = Cost()
    out = Result(state.tokens, state.logp, state.score, torch.zeros_like(state.row), cost)
    now: Step | None = None
    for taken in unroll(model, context, state, decoder, cost=cost):
        if watch is not None:
            watch(taken)
        if now is not None and len(taken.rows) < len(now.rows):  # some rows ended with the step before
            out = _put(out, now, state.pad_id)
        now = taken
    return out if now is None else _put(out, now, state.pad_id)


def _put(out: Result, taken: Step, pad_id: int) -> Result:
    """`out` with its rows `taken.rows` as they are after that step."""
    new, rows = taken.state, taken.rows
    if len(rows) == len(out.tokens) and new.tokens.shape == out.tokens.shape:
        return Result(new.tokens, new.logp, new.score, torch.full_like(rows, new.step), out.cost)
    width = max(new.tokens.shape[1], out.tokens.shape[1])  # an insertion makes the canvas longer, trimming shorter
    tokens, logp = (_widened(x, width, fill).clone() for x, fill in ((out.tokens, pad_id), (out.logp, 0.0)))
    tokens[rows], logp[rows] = _widened(new.tokens, width, pad_id), _widened(new.logp, width, 0.0)
    score, steps = out.score.index_copy(0, rows, new.score), out.steps.index_fill(0, rows, new.step)
    return Result(tokens, logp, score, steps, out.cost)


def _widened(x: Tensor, width: int, fill: float) -> Tensor:
    return torch.nn.functional.pad(x, (0, width - x.shape[1]), value=fill)
