"""∏_t: rows join a batch, take steps together and leave it (`Running`); `unroll` yields the steps, `decode` the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.core.cost import Cost
from anyorder.core.decoder import Decoder, going
from anyorder.core.devices import collected, inference, settled
from anyorder.core.look import Reader
from anyorder.core.model import Model, without
from anyorder.core.ragged import widened
from anyorder.core.state import State
from anyorder.core.step import Step, step


@dataclass(frozen=True, eq=False)
class Result:
    """Where every row ended, in the order given, and what it cost."""

    tokens: Tensor  # (N, L)
    logp: Tensor  # (N, L) log p of each symbol when it was written
    score: Tensor  # (N,) log p(G|X)
    steps: Tensor  # (N,) steps taken
    cost: Cost


class Running:
    """A batch under way: rows join it whenever they come, take steps together, and leave when they are done.

    A row's result depends neither on when it joined nor on the rows beside it.
    """

    def __init__(self, model: Model, decoder: Decoder, cost: Cost | None = None) -> None:
        self.decoder = decoder
        self.reader = Reader(model, decoder.symbols, Cost() if cost is None else cost, scored=decoder.scored)
        self.context: Any = None
        self.state: State | None = None  # of the rows under way; None before the first have joined
        self.rows = torch.zeros(0, dtype=torch.int64)  # (n,) the number by which each of them is known
        self._named = torch.zeros(0, dtype=torch.int64)  # rows of symbols that are given row by row
        self._stays: list[bool] | None = None  # which rows go on after the last step, where that is known
        self.own = False  # is the context one that was made here, so that nobody else looks at it?

    def join(self, context: Any, state: State, rows: Tensor | None = None) -> None:
        """Further rows, and the number (n,) by which each will be known: 0, 1, 2 … if none are given."""
        rows = torch.arange(len(state.tokens), device=state.tokens.device) if rows is None else rows
        if self.decoder.symbols.by_row and self.state is not None and bool(torch.isin(state.row, self._named).any()):
            raise ValueError(
                "two rows are the same row of symbols that are given row by row: number the `row` of a state that joins"
            )
        self._named = (
            torch.cat([self._named.to(state.row.device), state.row]) if self.decoder.symbols.by_row else self._named
        )
        state = self.decoder.start(state)
        if self.state is None or not len(self.rows):
            self.context, self.state, self.rows, self.own = context, state, rows, False
        else:
            self.context, self.state, self.own = self.context.join(context), self.state.join(state), True
            self.rows = torch.cat([self.rows, rows])
        self._stays = None
        self.leave()

    def step(self, alternatives: int = 0) -> Step:
        """One step of every row. Those it has finished are `done` in `Step.state`, and `leave`."""
        assert self.state is not None and len(self.rows), "no rows have joined"
        device = self.state.tokens.device
        with inference(device), collected() as doubts:
            taken = step(self.reader, self.context, self.state, self.decoder, self.rows, alternatives)
            self._stays = None if device.type == "cpu" else settled(doubts, going(self.decoder, taken.state))
        self.state = taken.state
        return taken

    def leave(self) -> None:
        """Rows that are done leave, and columns that only they had; the last rows take their places."""
        assert self.state is not None
        stays: list[bool] = going(self.decoder, self.state).tolist() if self._stays is None else self._stays
        if all(stays):
            return
        left = sum(stays)
        last = iter([n for n in range(left, len(stays)) if stays[n]])
        keep = [n if stays[n] else next(last) for n in range(left)]
        self.only(torch.tensor(keep, dtype=torch.int64, device=self.rows.device))

    def only(self, keep: Tensor) -> None:
        """The rows at these places (m,) stay, all others leave."""
        assert self.state is not None
        self._stays = None
        with inference(self.state.tokens.device):
            self.state, self.context = self.state.take(keep).trim(), without(self.context, keep, self.own)
        self.own = self.own or len(keep) < len(self.rows)  # of all rows a context may give itself, not a copy
        self.rows = self.rows[keep]


def unroll(
    model: Model, context: Any, state: State, decoder: Decoder, *, cost: Cost | None = None, alternatives: int = 0
) -> Iterator[Step]:
    """Every step of a generation. Rows that are done leave the batch; `Step.rows` says which are left.

    `alternatives` asks for that many best symbols of each position, as `view.top_token` and `view.top_logp`.
    """
    running = Running(model, decoder, cost)
    running.join(context, state)
    while len(running.rows):
        yield running.step(alternatives)
        running.leave()


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
        return Result(new.tokens, new.logp, new.score, new.step, out.cost)
    width = [max(new.tokens.shape[1], out.tokens.shape[1])]  # an insertion makes the canvas longer, trimming shorter
    tokens, logp = (widened(x, width, fill).clone() for x, fill in ((out.tokens, pad_id), (out.logp, 0.0)))
    tokens[rows], logp[rows] = widened(new.tokens, width, pad_id), widened(new.logp, width, 0.0)
    score, steps = out.score.index_copy(0, rows, new.score), out.steps.index_copy(0, rows, new.step)
    return Result(tokens, logp, score, steps, out.cost)
