"""The engine in a process of its own: HTTP and the model share no interpreter, so neither waits for the other.

`Away` is what the process that speaks HTTP has of the engine: it lets requests in, sends their jobs through a pipe and
hears what became of them, of all in one message after a step. `Behind` is the engine at the other end. Both
processes are one program that forked once its models were there: a job names its generator, and carries no weights.
"""

from __future__ import annotations

import io
import os
import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Step
from anyorder.machine import Freed
from anyorder.serve.admission import Admission
from anyorder.serve.engine import IDLE, Engine
from anyorder.serve.job import Job, Ticket, alone
from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters
from anyorder.text.generator import Generator
from anyorder.text.load import Model, translates

LISTENER = "listener"
AWAITED = ("answered", "told")  # messages that somebody waits for
QUIET = 1.0  # seconds without a word from the engine, after which memory is given back
MANY = 100  # others, after which they are sent all the same
PLAIN = (torch.bool, torch.int64, torch.float32, torch.float64)  # tensors that travel as arrays do, a tenth of the time

# ---------------------------------------------------------------- what crosses


class _Packer(pickle.Pickler):
    """Generators go by their names, whoever listens stays behind."""

    def __init__(self, to: io.BytesIO, listener: Any = None) -> None:
        super().__init__(to, pickle.HIGHEST_PROTOCOL)
        self.listener = listener

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Generator):
            return obj.name, obj.direction, obj.whole is not None
        return LISTENER if obj is not None and obj is self.listener else None

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and obj.dtype in PLAIN and obj.device.type == "cpu" and not obj.requires_grad:
            return torch.from_numpy, (obj.numpy().copy(),)
        return NotImplemented


class _Unpacker(pickle.Unpickler):
    """In the engine's process: names become its generators."""

    def __init__(self, data: bytes, models: Mapping[str, Model], listener: Any) -> None:
        super().__init__(io.BytesIO(data))
        self.models, self.listener = models, listener

    def persistent_load(self, name: Any) -> Any:
        if name == LISTENER:
            return self.listener
        model, direction, forwards = name
        one = self.models[model]
        if translates(one):
            source, to = (one.languages[i] for i in direction)
            served: Any = one.generator(to, source)
        else:
            served = one.generator
        return served.inner.forwards if forwards else served.inner


def _packed(message: Any, listener: Any = None) -> bytes:
    out = io.BytesIO()
    _Packer(out, listener).dump(message)
    return out.getvalue()


# ---------------------------------------------------------------- where HTTP is


class Away(Admission):
    """Lets requests in; their jobs are done at the other end of a pipe."""

    def __init__(self, limits: Limits, meters: Meters, pipe: Connection) -> None:
        super().__init__(limits, meters)
        self._pipe, self._sending = pipe, threading.Lock()
        self._jobs: dict[int, Job] = {}  # that were sent, and not answered
        self._thread: threading.Thread | None = None  # made later: one from before a fork counts as ended

    def start(self) -> None:
        """Begin to listen to the engine."""
        self._thread = threading.Thread(target=self._hear, name="engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The engine ends when it hears this."""
        self._stopping = True
        self._send(b"")
        if self._thread is not None:
            self._thread.join(timeout=30)

    @property
    def alive(self) -> bool:
        """Does the engine's process run?"""
        return self._thread is not None and self._thread.is_alive()

    def leave(self, ticket: Ticket) -> None:
        """A request has its answer, or nobody waits for it: then the engine hears so."""
        super().leave(ticket)
        for job in [job for job in list(self._jobs.values()) if job.ticket is ticket]:
            self._send(_packed(("gone", job.number)))

    def _hand(self, job: Job) -> None:
        self._jobs[job.number] = job
        ticket = job.ticket
        about = ticket.sentences, ticket.deadline, ticket.arrived
        data = _packed(job.task, ticket.listener)
        self._send(_packed(("job", job.number, about, data)))

    def _send(self, data: bytes) -> None:
        with self._sending:
            self._pipe.send_bytes(data)

    def _hear(self) -> None:
        freed = Freed()
        while True:
            try:
                if not self._pipe.poll(QUIET):
                    freed.rest()
                    continue
                data = self._pipe.recv_bytes()
            except (EOFError, OSError):
                break
            for what, *args in pickle.loads(data):  # from our own other half
                getattr(self, f"_{what}")(*args)
            freed.used()
        if not self._stopping:
            os._exit(1)  # the engine has died, and with it the process that people know

    def _due(self, passes: float) -> None:
        self._pace.due(passes)

    def _made(self, passes: float, seconds: float) -> None:
        self._pace.made(passes, seconds)

    def _stepped(self, *args: Any) -> None:
        self.meters.stepped(*args)

    def _refuse(self, why: str) -> None:
        self.meters.refuse(why)

    def _told(self, number: int, row: int, taken: Step) -> None:
        job = self._jobs.get(number)
        if job is not None and job.ticket.listener is not None:
            job.ticket.listener(row, taken, 0)

    def _answered(self, number: int, begun: float | None, answer: Any, why: BaseException | None) -> None:
        job = self._jobs.pop(number)
        job.ticket.begun = job.ticket.begun or begun
        if why is None:
            job.done.set_result(answer)
        else:
            job.done.set_exception(why)


# ---------------------------------------------------------------- where the model is


class _Reported:
    """Pace and meters, as the engine knows them: what they are told goes to the other process."""

    def __init__(self, post: Callable[..., None]) -> None:
        self.due, self.made = partial(post, "due"), partial(post, "made")
        self.stepped, self.refuse = partial(post, "stepped"), partial(post, "refuse")


class Behind(Engine):
    """Does the jobs that come through a pipe, until its other end is closed."""

    def __init__(self, limits: Limits, budget: int, models: Mapping[str, Model], pipe: Connection) -> None:
        reported: Any = _Reported(self._post)
        super().__init__(limits, reported, budget)
        self._pace = reported
        self.models, self._pipe = models, pipe
        self._posted: list[tuple[Any, ...]] = []

    def _post(self, *message: Any) -> None:
        self._posted.append(message)

    def _listen(self) -> None:
        """Take in what has come; wait where there is nothing to do."""
        busy = bool(self._inbox or self._lanes)
        if not busy:
            self._send()
        try:
            while self._pipe.poll(0 if busy else IDLE):
                busy = True
                data = self._pipe.recv_bytes()
                if not data:
                    raise EOFError
                what, number, *rest = pickle.loads(data)  # from our own other half
                if what == "job":
                    self._take(number, *rest)
                else:
                    self._gone(number)
        except (EOFError, OSError):
            self._stopping = True

    def _take(self, number: int, about: tuple[int, float, float], data: bytes) -> None:
        def tell(row: int, taken: Step, n: int) -> None:
            self._post("told", number, row, alone(taken, n))

        sentences, deadline, arrived = about
        ticket = Ticket(sentences, deadline, arrived)
        task = _Unpacker(data, self.models, tell).load()
        job = Job(task, ticket, due=task.passes, number=number)
        job.done.add_done_callback(partial(self._answer, job))
        self._inbox.append(job)

    def _answer(self, job: Job, done: Future[Any]) -> None:
        why = done.exception()
        self._post("answered", job.number, job.ticket.begun, None if why else done.result(), why)

    def _gone(self, number: int) -> None:
        for job in [*self._inbox, *self._jobs]:
            if job.number == number:
                job.ticket.gone = True

    def _report(self) -> None:
        """What somebody waits for is said at once, what is counted when there is something else to say."""
        if any(message[0] in AWAITED for message in self._posted) or len(self._posted) >= MANY:
            self._send()

    def _send(self) -> None:
        if self._posted:
            said, self._posted = self._posted, []
            try:
                self._pipe.send_bytes(_packed(said))
            except OSError:
                self._stopping = True
