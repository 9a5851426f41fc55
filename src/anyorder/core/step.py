"""One step Y^t → Y^{t+1} of every row, in four phases: judge, choose, read, write.

    judge    look at the canvas, if the order wants to know it     φ_i = φ_i(Y^t)
    choose   the coordinates                                       z ~ p(z | Y^≤t, Z^t, X)
    read     the symbols there, chosen positions masked            ỹ ~ p(y | Y^t, X)
    write    the next canvas, its score, what is remembered        y_i^{t+1} = (1 − z_i)·y_i^t + z_i·ỹ_i

One forward pass, or two where the equation needs them: a written position that was chosen by looking is masked before
its symbol is drawn. A position that is <mask> already was seen in that very state: the first pass serves. Rows may be
at different steps; nothing that is decided for a row depends on another.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.core.decoder import Decoder
from anyorder.core.devices import constant, doubt
from anyorder.core.edit import Edited
from anyorder.core.look import Reader
from anyorder.core.state import ECHO, State, View

WEIGHT = "weight"  # where a row with a rule remembers Σ log of the probability that the rule left, step by step


class Step(NamedTuple):
    """One step of some of the rows: what was decided and what came of it."""

    rows: Tensor  # (n,) int64: which rows of the first state these are
    before: State  # Y^t
    z: Tensor  # (n, L) bool: the coordinates
    logz: Tensor  # (n,) log p(z)
    view: View  # p(y | Y^t, X) at z, as the symbols were drawn
    state: State  # Y^{t+1}
    judged: View | None  # the view that the coordinates were chosen by, where they looked
    written: Tensor  # (n, L) bool: the coordinates whose symbol was put in place (not: rejected, or no room for it)


class _Task(NamedTuple):
    """A step of some rows that is to be taken."""

    reader: Reader
    context: Any
    state: State
    decoder: Decoder
    region: Tensor  # (N, L) the candidates
    left: Tensor | None  # (N, L) masks that have to be written now
    ahead: bool  # will the next step judge by this one's pass?
    top: int  # best symbols to report of each position

    @property
    def states_only(self) -> bool:
        """Are positions judged by hidden states alone? Then symbols are read where they are written, nowhere else."""
        c = self.decoder.coordinates
        if c.reads != {"hidden"}:
            return False
        return c.among.blank and c.conditionals == "visible" and not (self.decoder.edit.reads or self.ahead or self.top)

    def take(self, rows: Tensor, **changes: Any) -> _Task:
        left = None if self.left is None else self.left[rows]
        state = self.state.take(rows).but(**changes)
        return self._replace(context=self.context.take(rows), state=state, region=self.region[rows], left=left)

    @property
    def together(self) -> bool:
        """May a row with a rule be written at several coordinates, whose symbols have to be drawn together?"""
        return self.state.rules is not None and (self.left is not None or not self.decoder.coordinates.single)

    def look(self, at: Tensor, **how: Any) -> View:
        edit, c = self.decoder.edit, self.decoder.coordinates
        at = self.state.open if edit.reads or self.ahead else at
        reads = c.reads | edit.reads
        return self.reader.look(self.context, self.state, at, reads=reads, top=self.top, states=self.together, **how)


def step(
    reader: Reader,
    context: Any,
    state: State,
    decoder: Decoder,
    rows: Tensor | None = None,  # (N,) what Step.rows will say
    top: int = 0,
) -> Step:
    """Y^t → Y^{t+1} of rows that `decoder.start` was asked about, and that are not `done`."""
    last = decoder.last(state)
    left = None if last is None else state.masked & last[:, None]
    ahead = decoder.coordinates.reuse and bool(decoder.coordinates.reads) and (last is None or not bool(last.all()))
    task = _Task(reader, context, state, decoder, decoder.candidates(state), left, ahead, top)
    judged = _judge(task)
    seen = View(state.tokens, state.logp) if judged is None else judged
    z, logz = _choose(task, seen)
    view = _read(task, z, judged)
    if task.together:
        view = reader.settle(state, z, view)
    new, written, final = _write(task, z, logz, view, judged, seen)
    z, view = (z, view) if final is None else (z | written, final)
    rows = torch.arange(len(z), device=z.device) if rows is None else rows
    return Step(rows, state, z, logz, view, new, judged, written)


def _judge(task: _Task) -> View | None:
    """What the order chooses by: a view kept from the step before, or a look; None where it does not look."""
    c, state = task.decoder.coordinates, task.state
    if not c.reads:
        return None
    if state.view is None and task.states_only:
        return task.reader.states(task.context, state)
    if state.view is None:
        return task.look(_either(task.region, task.left), conditionals=c.conditionals)
    if (joined := _joined(state)) is None:
        return state.view
    kept, new = joined
    return _together(kept, state.view.take(kept), new, _judge(task.take(new, view=None)))


def _choose(task: _Task, seen: View) -> tuple[Tensor, Tensor]:
    """The coordinates z (N, L) and log p(z) (N,)."""
    z, logz = task.decoder.coordinates.choose(task.state, seen, task.region)
    if task.left is None:
        return z, logz
    if task.decoder.coordinates.certain:
        return z | task.left, logz
    return z | task.left, logz.masked_fill(task.left.any(-1), 0.0)  # what has to be written is certain


def _read(task: _Task, z: Tensor, judged: View | None) -> View:
    """p(y | Y^t, X) at z, with the symbols drawn there."""
    if judged is not None and task.state.view is None:
        return task.reader.say(task.state, judged, z) if task.states_only else _settled(task, z, judged)
    joined = None if judged is None else _joined(task.state)
    if judged is None or joined is None:  # a view kept from the step before has no draws of this step
        written = task.decoder.hides and not task.decoder.coordinates.among.blank  # positions that hold a symbol
        return task.look(z, hide=z if written else None)
    kept, new = joined
    again = _read(task.take(kept), z[kept], None)
    return _together(kept, again, new, _settled(task.take(new), z[new], judged.take(new)))


def _settled(task: _Task, z: Tensor, judged: View) -> View:
    """`judged`, with rows that chose a written position looked at again with that position masked."""
    c, state = task.decoder.coordinates, task.state
    if c.among.blank or not task.decoder.hides:  # masked positions were seen as they are
        return judged
    again = (z & ~state.masked).any(-1)
    if c.conditionals == "masked":  # a single coordinate was judged with itself masked: that is its conditional
        again = again & (z.sum(-1) > 1)
    rows = again.nonzero()[:, 0]
    if not len(rows):
        return judged
    fresh = task.reader.look(
        task.context.take(rows), state.take(rows), z[rows], hide=z[rows], top=task.top, states=task.together
    )

    def put(old: Tensor | None, new: Tensor | None) -> Tensor | None:
        if old is None or new is None:
            return old
        here = z[rows].reshape(*z[rows].shape, *[1] * (old.dim() - 2))
        return old.index_copy(0, rows, torch.where(here, new, old[rows]))

    return View(*map(put, judged, fresh))  # type: ignore[arg-type]


def _write(task: _Task, z: Tensor, logz: Tensor, view: View, judged: View | None, seen: View) -> Edited:
    """Y^{t+1}, its score, what is carried along, and which symbols were put in place."""
    c, state = task.decoder.coordinates, task.state
    new, written, final = task.decoder.edit(state.but(view=judged), z, view, partial(task.reader.look, task.context))
    memory = new.memory | c.remember(state, seen, z)
    if view.echo is not None:
        memory[ECHO] = view.echo
    view = view if final is None else final
    if view.mass is not None:  # log p(path) without the rule is the score and this
        memory[WEIGHT] = state.recall(WEIGHT, 0.0) + torch.where(written, view.mass, constant(0.0, written.device)).sum(
            -1
        )
    gains = torch.where(written, view.logp, constant(0.0, written.device))
    # Left to right, so that padding changes no rounding; of one term at most, any sum is exact.
    gained = gains.sum(-1) if c.single and task.left is None else gains.cumsum(-1)[:, -1]
    before = state.score if c.certain else state.score + logz
    before = before if task.decoder.counts else torch.full_like(before, math.nan)
    known = new.view
    if task.ahead:  # asked about the symbols now in place
        known = view._replace(current=None if view.current is None else torch.where(z, view.logp, view.current))
    new = new.stepped(score=before + gained, step=state.step + 1, memory=memory, view=known)
    new = task.decoder.length.finish(new)
    if state.budget is None and not task.decoder.moves:
        _check_progress(state, new)
    return Edited(new, written, final)


def _check_progress(before: State, after: State) -> None:
    """Without a number of steps, every step has to change something, or there would be no end."""
    if after.tokens.shape != before.tokens.shape:
        return
    changed = (after.tokens != before.tokens) | (after.open != before.open)

    def complain() -> None:
        n = changed.any(-1).tolist().index(False)
        raise ValueError(
            f"row {int(before.row[n])}, step {int(before.step[n])}: the step changed nothing, and the decoder has no "
            "number of steps to end at: give it `steps`, or a count and a region that write what is masked"
        )

    doubt(~changed.any(-1).all(), complain)


def _either(z: Tensor, more: Tensor | None) -> Tensor:
    return z if more is None else z | more


def _joined(state: State) -> tuple[Tensor, Tensor] | None:
    """Rows whose view was kept from the step before, and rows that joined them since; None where no row did."""
    new = state.fresh
    return None if new is None else ((~new).nonzero()[:, 0], new.nonzero()[:, 0])


def _together(a: Tensor, one: View, b: Tensor, other: View | None) -> View:
    """Rows a (n,) from one view and rows b (m,) from another, in their order."""
    assert other is not None
    return one.join(other).take(torch.cat([a, b]).argsort())
