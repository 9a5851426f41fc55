"""Requests that were let in, the work that they give to the scheduler, and its place in the queue."""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from anyorder.text.engine import Listener, Rows

_NUMBERS = itertools.count()


@dataclass(eq=False)
class Request:
    """A request that was let in: whose it is, how many sentences it counts for, until when it must be done."""

    sentences: int
    deadline: float  # time.monotonic()
    client: str = ""
    arrived: float = field(default_factory=time.monotonic)
    listener: Listener | None = None  # is told every step, on the scheduler's thread
    gone: bool = False  # the client has left: its rows leave within a step
    begun: float | None = None  # when its first row joined a batch
    admitted: bool = False  # was some work of it accepted? Then its later work is


REQUEST: ContextVar[Request] = ContextVar("request")  # that this thread works for


class Size(NamedTuple):
    """How much some work is, at a guess: so many steps of the model, over so many tokens in all."""

    kind: Hashable  # work of one kind takes equally long for each token
    steps: float
    tokens: float


class Work(Protocol):
    """What a request asks of the scheduler: rows to write, or passes over texts (`items`) that are there."""

    @property
    def rows(self) -> list[Rows]:
        """The rows to write, once they are prepared."""
        ...

    @property
    def size(self) -> Size:
        """How much it is."""
        ...

    @property
    def cached(self) -> bool:
        """Do its rows keep keys and values? To join is dear then, and several rows are not much dearer than one."""
        ...

    @property
    def alike(self) -> Hashable:
        """Work with an equal key is prepared, or passed through the model, together."""
        ...

    @property
    def items(self) -> Sequence[Any]:
        """What passes are made over; empty where rows are written."""
        ...

    def prepare(self, others: Sequence[Any]) -> None:
        """Make the rows of this work, and of other work with the same key."""
        ...

    def clear(self) -> None:
        """Forget rows that were made: they are made anew."""
        ...

    def finish(self) -> Any:
        """The answer, once every row has ended."""
        ...


@dataclass(eq=False)
class Queued:
    """Work in the queue or under way; the request's thread waits for `done`."""

    work: Work
    request: Request
    seconds: float = 0.0  # that it is expected to take alone, …
    shared: float = 0.0  # … and in batches that are full
    total: int = 0  # rows, or items
    left: int = 0  # of them, that have not ended
    share: float = 1.0  # of the work that is left
    came: float = field(default_factory=time.monotonic)
    number: int = field(default_factory=lambda: next(_NUMBERS))
    done: Future[Any] = field(default_factory=Future)

    @property
    def over(self) -> bool:
        """Answered or refused: its rows leave."""
        return self.done.done()

    def remaining(self, now: float) -> float:
        """Seconds that it will still take in full batches; at most until its deadline."""
        return max(0.0, min(self.shared * self.share, self.request.deadline - now))
