"""Admission: who is let in, and whether what they ask for can be done in time. Nobody here waits for the model."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod

from anyorder.serve.job import Job, Task, Ticket
from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters
from anyorder.serve.pace import Pace
from anyorder.serve.refusal import Refusal

PATIENCE = 0.5  # of the deadline: nobody is let in where what is here is expected to take longer


class Admission(ABC):
    """Lets requests in, and hands their jobs on; what does them is the engine, on a thread or in another process."""

    def __init__(self, limits: Limits, meters: Meters) -> None:
        self.limits, self.meters = limits, meters
        self.draining = False
        self.held = 0  # sentences of the requests that were let in and have not left
        self._pace = Pace()
        self._door = threading.Condition()
        self._stopping = False

    @abstractmethod
    def start(self) -> None:
        """Begin to work through what comes in."""

    @abstractmethod
    def stop(self) -> None:
        """End after the step that is being taken; what is left is refused."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Does the model run?"""

    @abstractmethod
    def _hand(self, job: Job) -> None:
        """Hand a job on."""

    def refuses(self, sentences: int = 1) -> Refusal | None:
        """Why a request would not be let in now: the server stops, or has as much to do as it may hold."""
        if self.draining or self._stopping:
            return Refusal(503, "the server is stopping: ask another one, or later", code="stopping", wait=5)
        if self.held and self.held + sentences > self.limits.queue:
            return self._crowded(f"{self.held} sentences are waiting or being written, and {self.limits.queue} may")
        return self._too_late(0)

    def _too_late(self, passes: int) -> Refusal | None:
        """Why so many passes would not be done in time; nobody waits for them who finds nobody else here."""
        seconds = self._pace.expected(passes)
        if self._pace.idle or seconds <= PATIENCE * self.limits.deadline:
            return None
        return self._crowded(f"what is here would take about {seconds:.0f} seconds")

    def _crowded(self, what: str) -> Refusal:
        self.meters.refuse("queue")
        return Refusal(503, f"{what}: ask again later", wait=self._pace.expected())

    def admit(self, sentences: int) -> Ticket:
        """Let a request in, or refuse it at once."""
        with self._door:
            if (why := self.refuses(sentences)) is not None:
                raise why
            self.held += sentences
        self.meters.held.set(self.held)
        return Ticket(sentences, time.monotonic() + self.limits.deadline)

    def leave(self, ticket: Ticket) -> None:
        """A request has its answer, or nobody waits for it."""
        ticket.gone = True
        with self._door:
            self.held -= ticket.sentences
        self.meters.held.set(self.held)

    def submit(self, task: Task, ticket: Ticket) -> Job:
        """A job for the engine; the first one of a request is refused where it would be done too late."""
        job = Job(task, ticket, due=task.passes)
        with self._door:
            if not ticket.known and (why := self._too_late(task.passes)) is not None:
                raise why
            ticket.known = True
            self._pace.due(job.due)
        self._hand(job)
        return job
