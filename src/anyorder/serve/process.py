"""The scheduler in a process of its own: HTTP and the model share no interpreter, so neither waits for the other.

The process that speaks HTTP has a `Remote`: it lets requests in, sends their work through a pipe and receives all
answers of a step in one message. A `Worker` is the scheduler at the other end. Both processes are one program that
forked once its models were loaded: work names its generator, and carries no weights.
"""

from __future__ import annotations

import io
import os
import pickle
import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Step
from anyorder.machine import Freed
from anyorder.serve.admission import Admission
from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters
from anyorder.serve.scheduler import IDLE, Scheduler
from anyorder.serve.work import Queued, Request
from anyorder.text.engine import alone
from anyorder.text.generator import Generator
from anyorder.text.load import Model, translates

LISTENER = "listener"
AWAITED = ("answered", "told")  # messages that a request waits for
QUIET = 1.0  # seconds without a message, after which memory is given back
MANY = 100  # others, after which they are sent all the same
PLAIN = (torch.bool, torch.int64, torch.float32, torch.float64)  # tensors that travel as arrays do, a tenth of the time

# ---------------------------------------------------------------- what crosses


class _Packer(pickle.Pickler):
    """Generators go by their names; listeners stay in their process."""

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
    """In the worker: names become its generators."""

    def __init__(self, data: bytes, models: Mapping[str, Model], listener: Any) -> None:
        super().__init__(io.BytesIO(data))
        self.models, self.listener = models, listener

    def persistent_load(self, name: Any) -> Any:
        if name == LISTENER:
            return self.listener
        model, direction, forwards = name
        found = self.models[model]
        if translates(found):
            source, to = (found.languages[i] for i in direction)
            served: Any = found.generator(to, source)
        else:
            served = found.generator
        return served.inner.forwards if forwards else served.inner


def _packed(message: Any, listener: Any = None) -> bytes:
    out = io.BytesIO()
    _Packer(out, listener).dump(message)
    return out.getvalue()


# ---------------------------------------------------------------- the process that speaks HTTP


class Remote(Admission):
    """Lets requests in; their work is done at the other end of a pipe."""

    def __init__(self, limits: Limits, meters: Meters, budget: int, pipe: Connection) -> None:
        super().__init__(limits, meters, budget)
        self._pipe, self._sending = pipe, threading.Lock()
        self._items: dict[int, Queued] = {}  # that were sent, and not answered
        self._thread: threading.Thread | None = None  # made later: one from before a fork counts as ended

    def start(self) -> None:
        """Begin to listen to the worker."""
        self._thread = threading.Thread(target=self._hear, name="worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The worker ends when it reads this."""
        self._stopping = True
        self._send(b"")
        if self._thread is not None:
            self._thread.join(timeout=30)

    @property
    def alive(self) -> bool:
        """Does the worker run?"""
        return self._thread is not None and self._thread.is_alive()

    def leave(self, request: Request) -> None:
        """A request has its answer, or its client has left: the worker is told."""
        super().leave(request)
        for item in [item for item in list(self._items.values()) if item.request is request]:
            self._send(_packed(("gone", item.number)))

    def _hand(self, item: Queued) -> None:
        self._items[item.number] = item
        request = item.request
        about = request.sentences, request.deadline, request.client, request.arrived
        data = _packed(item.work, request.listener)
        self._send(_packed(("work", item.number, about, data)))

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
            os._exit(1)  # the worker has died, and with it the process that users know

    def _made(self, kind: Hashable, tokens: float, seconds: float) -> None:
        self.made(kind, tokens, seconds)

    def _share(self, number: int, share: float) -> None:
        if number in self._items:
            self._items[number].share = share

    def _stepped(self, *args: Any) -> None:
        self.meters.stepped(*args)

    def _refuse(self, why: str) -> None:
        self.meters.refuse(why)

    def _told(self, number: int, row: int, taken: Step) -> None:
        item = self._items.get(number)
        if item is not None and item.request.listener is not None:
            item.request.listener(row, taken, 0)

    def _answered(self, number: int, begun: float | None, answer: Any, why: BaseException | None) -> None:
        item = self._items.pop(number)
        item.request.begun = item.request.begun or begun
        if why is None:
            item.done.set_result(answer)
        else:
            item.done.set_exception(why)


# ---------------------------------------------------------------- the process of the models


class _Reported:
    """Meters, as the worker knows them: what is counted goes to the other process."""

    def __init__(self, post: Callable[..., None]) -> None:
        self.stepped, self.refuse = partial(post, "stepped"), partial(post, "refuse")


class Worker(Scheduler):
    """Does the work that comes through a pipe, until its other end is closed."""

    def __init__(self, limits: Limits, budget: int, models: Mapping[str, Model], pipe: Connection) -> None:
        meters: Any = _Reported(self._post)
        super().__init__(limits, meters, budget)
        self.models, self._pipe = models, pipe
        self._posted: list[tuple[Any, ...]] = []

    def _post(self, *message: Any) -> None:
        self._posted.append(message)

    def made(self, kind: Hashable, tokens: float, seconds: float) -> None:
        """A step was taken: the other process is told."""
        super().made(kind, tokens, seconds)
        self._post("made", kind, tokens, seconds)

    def _listen(self) -> None:
        """Read what has come; wait while there is nothing to do."""
        busy = bool(self._queue or self._groups)
        if not busy:
            self._send()
        try:
            while self._pipe.poll(0 if busy else IDLE):
                busy = True
                data = self._pipe.recv_bytes()
                if not data:
                    raise EOFError
                what, number, *rest = pickle.loads(data)  # from our own other half
                if what == "work":
                    self._take(number, *rest)
                else:
                    self._gone(number)
        except (EOFError, OSError):
            self._stopping = True

    def _take(self, number: int, about: tuple[int, float, str, float], data: bytes) -> None:
        def tell(row: int, taken: Step, n: int) -> None:
            self._post("told", number, row, alone(taken, n))

        work = _Unpacker(data, self.models, tell).load()
        item = Queued(work, Request(*about), number=number)
        item.done.add_done_callback(partial(self._answer, item))
        self._queue.append(item)

    def _answer(self, item: Queued, done: Future[Any]) -> None:
        why = done.exception()
        self._post("answered", item.number, item.request.begun, None if why else done.result(), why)

    def _ended(self, item: Queued) -> None:
        super()._ended(item)
        if not item.over:
            self._post("share", item.number, item.share)

    def _gone(self, number: int) -> None:
        for item in [*self._queue, *self._items]:
            if item.number == number:
                item.request.gone = True

    def _report(self) -> None:
        """Answers are sent at once; other messages with them, or when they are many."""
        if any(message[0] in AWAITED for message in self._posted) or len(self._posted) >= MANY:
            self._send()

    def _send(self) -> None:
        if self._posted:
            said, self._posted = self._posted, []
            try:
                self._pipe.send_bytes(_packed(said))
            except OSError:
                self._stopping = True
