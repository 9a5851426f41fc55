"""Tickets and jobs: a request's place in the server, and what it asks the engine to do."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from anyorder.core import Cost, Decoder, State, Step

_NUMBERS = itertools.count()
Listener = Callable[[int, Step, int], None]  # (which row of the request, a step, which row of the step that is)


@dataclass(eq=False)
class Ticket:
    """A request that was let in: how many sentences it counts for, until when it must be done, who listens."""

    sentences: int
    deadline: float  # time.monotonic()
    arrived: float = field(default_factory=time.monotonic)
    listener: Listener | None = None  # hears of every step, on the model's thread
    gone: bool = False  # nobody waits any more: its rows leave within a step
    begun: float | None = None  # when its first row joined a batch
    known: bool = False  # has it a job that was taken? Then its later ones are


def alone(taken: Step, n: int) -> Step:
    """The n-th row of a step, as a step of its own: what a trace tells of it, and nothing that only decisions read."""
    at = torch.tensor([n])
    before, state = (one.but(view=None, memory={}).take(at) for one in (taken.before, taken.state))
    view = taken.view._replace(hidden=None, full=None).take(at)
    return Step(torch.zeros_like(at), before, taken.z[at], taken.logz[at], view, state, None, taken.written[at])


TICKET: ContextVar[Ticket] = ContextVar("ticket")  # of the request that this thread works for


@dataclass(frozen=True, eq=False)
class Ended:
    """Where a row ended: K hypotheses (1 unless a beam searched), as the row alone would have them."""

    tokens: Tensor  # (K, L) with padding at the end
    logp: Tensor  # (K, L)
    score: Tensor  # (K,)
    path: tuple[Tensor, Tensor, Tensor] | None = None  # position, symbol, log p (K, T) each, of a beam


@dataclass(eq=False)
class Part:
    """Rows that one decoder writes. Rows of parts with equal keys share batches."""

    key: Hashable
    model: Any
    decoder: Decoder
    context: Any  # of all rows that were prepared together …
    state: State  # … before their first step
    at: Sequence[int]  # those of them that are the part's
    rows: Sequence[int]  # as the listener knows them
    beam: int = 1
    positions: int = 1
    top: int = 0  # best symbols that the listener wants to see of each position
    listener: Listener | None = None
    cost: Cost = field(default_factory=Cost)  # of the batch that its rows are in; its own, if no other part has its key
    heard: dict[int, int] = field(default_factory=dict)  # steps that the listener was told of, by place in the part
    ended: dict[int, Ended] = field(default_factory=dict)  # filled by the engine, by place in the part

    def __len__(self) -> int:
        return len(self.at)


class Task(Protocol):
    """What is to be done on the model's thread: `prepare`, then the rows, then `finish`."""

    parts: list[Part]  # the rows to write; none where a pass over what is there is all

    @property
    def passes(self) -> int:
        """How many of a canvas through the model it is expected to take."""
        ...

    @property
    def cached(self) -> bool:
        """Do its rows keep keys and values, so that one that joins is dear, and several are not much dearer?"""
        ...

    @property
    def alike(self) -> Hashable:
        """Tasks with equal ones are prepared together."""
        ...

    def prepare(self, others: Sequence[Any]) -> None:
        """Fill `parts`, of this task and of others that are like it."""
        ...

    def finish(self) -> Any:
        """What the job gives, once every row of every part has ended."""
        ...


@dataclass(eq=False)
class Job:
    """A task with its ticket. Whoever asked waits for `done`."""

    task: Task
    ticket: Ticket
    due: float  # passes that are still expected …
    share: float = 0.0  # … and those of each of its rows
    left: int = 0  # rows that have not ended
    came: float = field(default_factory=time.monotonic)
    number: int = field(default_factory=lambda: next(_NUMBERS))
    done: Future[Any] = field(default_factory=Future)

    @property
    def over(self) -> bool:
        """Answered or refused: its rows leave."""
        return self.done.done()
