"""Admission: which clients are let in, and whether a request can be done in time. Nothing here waits for the model."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable

from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters
from anyorder.serve.refusal import Refusal, wrong
from anyorder.serve.work import Queued, Request, Size, Work

PATIENCE = 0.5  # of the deadline: beside others, a request is let in that is expected to be done within it
LATEST = 0.1  # weight of the latest step in the mean of steps like it
OVERFULL = 2  # times the queue: the most sentences of all clients together


class Pace:
    """How long a step takes, by the tokens in it: a mean for each power of two."""

    def __init__(self) -> None:
        self._each: dict[int, float] = {}  # bits of the number of tokens → seconds for each token

    def made(self, tokens: float, seconds: float) -> None:
        """A step over so many tokens took so long."""
        size = int(max(1, tokens)).bit_length()
        known = self._each.get(size)
        latest = seconds / max(1, tokens)
        self._each[size] = latest if known is None else (1 - LATEST) * known + LATEST * latest

    def seconds(self, steps: float, tokens: float, budget: int) -> float:
        """Expected for so many steps over so many tokens in all, at most `budget` of them at once; 0 if unknown."""
        if not self._each or not tokens:
            return 0.0
        size = int(max(1, min(budget, tokens / max(1, steps)))).bit_length()
        nearest = min(self._each, key=lambda known: abs(known - size))
        return tokens * self._each[nearest] * 2.0 ** max(0, nearest - size)  # a smaller step is no quicker for certain


class Admission(ABC):
    """Lets requests in, and hands their work to the scheduler: on a thread, or in another process."""

    def __init__(self, limits: Limits, meters: Meters, budget: int) -> None:
        self.limits, self.meters, self.budget = limits, meters, budget
        self.draining = False
        self.held = 0  # sentences of the requests that were let in and have not left
        self.paces: dict[Hashable, Pace] = {}
        self._by: Counter[str] = Counter()  # sentences held, by client
        self._open: set[Queued] = set()
        self._door = threading.Condition()
        self._stopping = False

    @abstractmethod
    def start(self) -> None:
        """Begin to work."""

    @abstractmethod
    def stop(self) -> None:
        """End after the step that is being taken; what is left is refused."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Does the scheduler run?"""

    @abstractmethod
    def _hand(self, item: Queued) -> None:
        """Put work into the scheduler's queue."""

    # ------------------------------------------------------------------ requests

    def refuses(self, client: str, sentences: int = 1) -> Refusal | None:
        """Why a request would not be let in now: the server stops, or its queue is full.

        A client that holds less than its equal share of the queue is let in even so, up to `OVERFULL` queues in all.
        """
        if self.draining or self._stopping:
            return Refusal(503, "the server is stopping: ask another one, or later", code="stopping", wait=5)
        held, queue = self.held, self.limits.queue
        if not held or held + sentences <= queue:
            return None
        share = queue // len({*self._by, client})
        if self._by[client] + sentences <= share and held + sentences <= OVERFULL * queue:
            return None
        return self._crowded(f"{held} sentences are waiting or being written, and {queue} may", 1.0)

    def _crowded(self, what: str, wait: float) -> Refusal:
        self.meters.refuse("queue")
        return Refusal(503, f"{what}: ask again later", wait=wait)

    def admit(self, sentences: int, client: str = "") -> Request:
        """Let a request in, or refuse it at once."""
        with self._door:
            if (why := self.refuses(client, sentences)) is not None:
                raise why
            self.held += sentences
            self._by[client] += sentences
        self.meters.held.set(self.held)
        return Request(sentences, time.monotonic() + self.limits.deadline, client)

    def leave(self, request: Request) -> None:
        """A request has its answer, or its client has left."""
        request.gone = True
        with self._door:
            self.held -= request.sentences
            self._by[request.client] -= request.sentences
            if not self._by[request.client]:
                del self._by[request.client]
        self.meters.held.set(self.held)

    # ------------------------------------------------------------------ their work

    def submit(self, work: Work, request: Request) -> Queued:
        """Queue some work; it is refused at once if it cannot be done in time.

        Work that takes longer than a deadline alone is refused by an idle server, too. Beside others each request gets
        its share of the time: from each of them it waits for as much work as it has itself, or for the rest of theirs.
        """
        size = work.size
        item = Queued(work, request, self.expected(size), self.expected(size._replace(steps=0)))
        now, deadline = time.monotonic(), self.limits.deadline
        with self._door:
            if item.seconds > deadline:
                raise self._too_much(item.seconds)
            others = [
                min(other.remaining(now), item.shared) for other in list(self._open) if other.request is not request
            ]
            if others and not request.admitted and (seconds := item.seconds + sum(others)) > PATIENCE * deadline:
                wait = min(seconds - PATIENCE * deadline, deadline)
                raise self._crowded(f"beside others this would take about {seconds:.0f} seconds", wait)
            request.admitted = True
            self._open.add(item)
        item.done.add_done_callback(lambda _: self._open.discard(item))
        self._hand(item)
        return item

    def expected(self, size: Size) -> float:
        """Seconds that some work takes: its steps alone, or (0 steps) in full batches; 0 while that is not known."""
        pace = self.paces.get(size.kind)
        return 0.0 if pace is None else pace.seconds(size.steps, size.tokens, self.budget)

    def _too_much(self, seconds: float) -> Refusal:
        self.meters.refuse("deadline")
        return wrong(
            f"this would take about {seconds:.0f} seconds, and a request may take {self.limits.deadline:g}: ask for "
            "less text, fewer steps or lengths, or a smaller beam"
        )

    def made(self, kind: Hashable, tokens: float, seconds: float) -> None:
        """A step was taken."""
        self.paces.setdefault(kind, Pace()).made(tokens, seconds)
