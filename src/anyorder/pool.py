"""Parts of work on a pool of workers that may be slow to start, fail, or vanish: each part is done, or its error told.

A pool starts workers: threads of this process (`Threads`), processes of this machine (`Processes`), or actors on a Ray
cluster (`Actors`). A worker answers with futures: `ready()` gives the name of its machine once it has loaded what it
needs, `do(part)` the result of a part.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from anyorder.errors import AnyorderError, MissingError, ModelError, UsageError, extra, first_line, no_memory
from anyorder.files import ctrl_c_waits
from anyorder.machine import cores, end_with_parent

RETRIES = 3  # of a part that fails
LOSSES = 5  # of a part whose worker vanishes, which mostly is not the part's fault
FAULTS = 5  # failures of a machine in a row, or of starting workers, before it is given up
FINAL = (UsageError, ModelError, MissingError)  # wrong for every part: going on is of no use
LOCAL = "local"
TOKEN = " (where one is, it may ask for a token, as Ray's do since 2.59: set RAY_AUTH_MODE=token here, as on its nodes)"


class PoolError(AnyorderError):
    """No worker can go on; says why."""


class WorkerLost(Exception):
    """The worker has vanished."""


class PartError(Exception):
    """A part failed: (the reason, whether the machine is to blame, as for a full disk)."""


@dataclass(frozen=True)
class Failed:
    """Why a part was not done."""

    reason: str


class Work(Protocol):
    """Sent to each worker, where `open` loads what is needed and gives the function that does a part."""

    def open(self) -> Callable[[Any], Any]:
        """Load what is needed; called once in each worker, which has one thread."""
        ...


class Worker(Protocol):
    """Does one part at a time."""

    def ready(self) -> Future[str]:
        """The machine's name, once the work is opened."""
        ...

    def do(self, part: Any) -> Future[Any]:
        """The result of a part; the exception `WorkerLost` if the worker vanished."""
        ...

    def end(self) -> None:
        """End it, whatever it is doing."""
        ...


class Pool(Protocol):
    """Starts workers."""

    def size(self) -> int:
        """How many workers there should be now."""
        ...

    def start(self, work: Work) -> Worker:
        """A new worker."""
        ...


@dataclass(eq=False)
class _Part:
    part: Any
    failures: int = 0
    losses: int = 0
    avoid: set[str] = field(default_factory=set)  # machines where it failed


class _Run:
    """One run of parts on a pool."""

    def __init__(self, pool: Pool, work: Work, parts: Sequence[Any]) -> None:
        self.pool, self.work, self.todo = pool, work, deque(map(_Part, parts))
        self.loading: dict[Future[Any], Worker] = {}
        self.busy: dict[Future[Any], tuple[Worker, _Part]] = {}
        self.idle: list[Worker] = []
        self.machine: dict[Worker, str] = {}  # of each worker that has loaded
        self.faults = Counter[str]()  # of each machine since it did a part
        self.false_starts = 0  # since a worker was ready
        self.last = ""  # why something failed last

    def run(self, until: float | None) -> Iterator[tuple[Any, Any]]:
        try:
            while self.todo or self.busy:
                if until is not None and time.monotonic() > until:
                    self.todo.clear()
                self._start()
                self._assign()
                if self.todo and not self.busy and not self.loading:
                    raise PoolError(f"nothing can be done any more: {self.last}")
                for future in wait([*self.loading, *self.busy], 1.0, FIRST_COMPLETED).done:
                    if future in self.loading:
                        self._started(future)
                    else:
                        yield from self._ended(future)
        finally:
            for worker in [*self.loading.values(), *self.machine]:
                worker.end()

    def _start(self) -> None:
        """As many workers as the pool wants, but not more than parts."""
        wanted = min(self.pool.size(), len(self.todo) + len(self.busy))
        while len(self.loading) + len(self.machine) < wanted and self.false_starts < FAULTS:
            with ctrl_c_waits():  # a worker that starts would not be ended before it is known
                worker = self.pool.start(self.work)
                self.loading[worker.ready()] = worker

    def _assign(self) -> None:
        """Give idle workers parts; a part that failed on a machine is first tried on the others."""
        good = {place for place in self.machine.values() if self.faults[place] < FAULTS}
        for worker in list(self.idle):
            place = self.machine[worker]
            part = next((p for p in self.todo if place in good and (place not in p.avoid or not good - p.avoid)), None)
            if part is not None:
                self.todo.remove(part)
                self.idle.remove(worker)
                self.busy[worker.do(part.part)] = worker, part

    def _started(self, future: Future[Any]) -> None:
        worker = self.loading.pop(future)
        try:
            self.machine[worker] = future.result()
        except Exception as error:
            worker.end()
            if isinstance(error, FINAL):
                raise
            self.false_starts += 1
            self.last = _reason(error)
            if self.false_starts >= FAULTS and not self.machine:
                raise PoolError(f"workers do not start: {self.last}") from None
        else:
            self.idle.append(worker)
            self.false_starts = 0

    def _ended(self, future: Future[Any]) -> Iterator[tuple[Any, Any]]:
        worker, part = self.busy.pop(future)
        place = self.machine[worker]
        try:
            result = future.result()
        except FINAL:
            raise
        except Exception as error:
            self.last = _reason(error)
            if isinstance(error, WorkerLost):
                del self.machine[worker]
                worker.end()  # it may be hung rather than dead: that frees its place
                self.false_starts = 0
                part.losses += 1
            else:
                self.idle.append(worker)
                part.failures += 1
                part.avoid.add(place)
                self.faults[place] += isinstance(error, PartError) and error.args[1]
            if part.failures >= RETRIES or part.losses >= LOSSES:
                yield part.part, Failed(self.last)
            else:
                self.todo.append(part)
        else:
            self.idle.append(worker)
            self.faults[place] = 0
            yield part.part, result


def run(pool: Pool, work: Work, parts: Sequence[Any], until: float | None = None) -> Iterator[tuple[Any, Any]]:
    """Each part with its result, or with a `Failed`, as they come; none is begun after the moment `until`."""
    return _Run(pool, work, parts).run(until)


def every(pool: Pool, work: Work, parts: Sequence[Any], until: float | None = None) -> Iterator[tuple[Any, Any]]:
    """As `run`, where a part that cannot be done is an error."""
    for part, result in run(pool, work, parts, until):
        if isinstance(result, Failed):
            raise PoolError(f"a part could not be done: {result.reason}")
        yield part, result


@contextmanager
def told() -> Iterator[None]:
    """Within a worker: errors become ones that another process can read, whatever package they came from."""
    try:
        yield
    except FINAL as error:
        raise next(kind for kind in FINAL if isinstance(error, kind))(str(error)) from None
    except AnyorderError as error:
        raise PartError(str(error), False) from None
    except OSError as error:
        raise PartError(f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}", True) from None
    except Exception as error:
        if no_memory(error):
            raise PartError("there is not enough memory", True) from None
        raise PartError(f"{type(error).__name__}: {first_line(error)}", False) from None


def _reason(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, (PartError, WorkerLost)) else str(error)


def _opened(work: Work) -> Callable[[Any], Any]:
    torch.set_num_threads(1)  # one worker a core: the same numbers on any number of them
    return work.open()


# ---------------------------------------------------------------- threads of this process


@dataclass(frozen=True)
class Threads:
    """As many threads as asked for, or as torch would use; each works alone."""

    count: int | None = None

    def size(self) -> int:
        """How many there should be."""
        return self.count or torch.get_num_threads()

    def start(self, work: Work) -> Worker:
        """A new thread."""
        return _Thread(work)


HERE = Threads()


class _Thread:
    def __init__(self, work: Work) -> None:
        self.work: Any = work
        self.threads = torch.get_num_threads()
        self.executor = ThreadPoolExecutor(1)

    def ready(self) -> Future[str]:
        return self.executor.submit(self._open)

    def do(self, part: Any) -> Future[Any]:
        return self.executor.submit(self._do, part)

    def end(self) -> None:
        self.executor.shutdown(cancel_futures=True)
        torch.set_num_threads(self.threads)  # a part of the setting is the process's, not the thread's

    def _open(self) -> str:
        with told():
            self.work = _opened(self.work)
        return "this process"

    def _do(self, part: Any) -> Any:
        with told():
            return self.work(part)


# ---------------------------------------------------------------- processes of this machine


@dataclass(frozen=True)
class Processes:
    """As many processes as asked for, or as there are cores."""

    count: int | None = None

    def size(self) -> int:
        """How many there should be."""
        return self.count or cores()

    def start(self, work: Work) -> Worker:
        """A new process."""
        return _Process(work)


class _Process:
    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("spawn")
        self.executor = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(work,))
        self.process: Any = None

    def ready(self) -> Future[str]:
        future = self._submit(_open)
        self.process = next(iter(self.executor._processes.values()), None)
        return future

    def do(self, part: Any) -> Future[Any]:
        return self._submit(_do, part)

    def _submit(self, *call: Any) -> Future[Any]:
        try:
            future = self.executor.submit(*call)
        except BrokenProcessPool as error:  # it died while it was idle
            future = Future()
            future.set_exception(error)
        return _translated(future, lambda error: self._lost() if isinstance(error, BrokenProcessPool) else error)

    def _lost(self) -> WorkerLost:
        """How the process ended."""
        self.process.join(5)
        code = self.process.exitcode or 0
        if code >= 0:
            return WorkerLost(f"a process ended by itself, with status {code}")
        memory = ": was there enough memory?" if code == -signal.SIGKILL else ""
        return WorkerLost(f"a process was ended by {signal.Signals(-code).name}{memory}")

    def end(self) -> None:
        if self.process is not None:
            self.process.terminate()
        self.executor.shutdown(cancel_futures=True)


_work: Any = None  # of this process: the work, then the function that does a part


def _begin(work: Work) -> None:
    global _work
    _work = work
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers


def _open() -> str:
    global _work
    with told():
        _work = _opened(_work)
    return "this machine"


def _do(part: Any) -> Any:
    with told():
        return _work(part)


def _translated(future: Future[Any], error_of: Callable[[BaseException], BaseException]) -> Future[Any]:
    """The same future with other errors."""
    out: Future[Any] = Future()

    def heard(done: Future[Any]) -> None:
        if done.cancelled():
            out.set_exception(WorkerLost("cancelled"))
        elif (error := done.exception()) is None:
            out.set_result(done.result())
        else:
            out.set_exception(error_of(error))

    future.add_done_callback(heard)
    return out


# ---------------------------------------------------------------- Ray


class RayError(AnyorderError):
    """A cluster that cannot be used; says why."""


class Actors:
    """As many actors as asked for; else one a GPU, or without GPUs one a CPU, of the cluster as it is now."""

    def __init__(self, count: int | None = None) -> None:
        self.ray, self.count = _ray(), count
        self.kind = "GPU" if self.ray.cluster_resources().get("GPU", 0) >= 1 else "CPU"
        need = {"num_cpus": 0, "num_gpus": 1} if self.kind == "GPU" else {"num_cpus": 1}
        self.make = self.ray.remote(**need, max_restarts=0)(_Remote)
        self.put: tuple[Any, Any] = None, None  # the work that was sent last, and Ray's reference to it

    def size(self) -> int:
        """Machines come and go: the actors follow."""
        return self.count or max(1, int(self.ray.cluster_resources().get(self.kind, 1)))

    def start(self, work: Work) -> Worker:
        """A new actor."""
        if self.put[0] is not work:
            self.put = work, self.ray.put(work)
        return _Actor(self.ray, self.make.remote(self.put[1]))


class _Remote:
    """Runs on the other machine."""

    def __init__(self, work: Work) -> None:
        self.work: Any = work

    def open(self) -> str:
        import ray

        with told():
            self.work = _opened(self.work)
        return str(ray.get_runtime_context().get_node_id())

    def do(self, part: Any) -> Any:
        with told():
            return self.work(part)


class _Actor:
    def __init__(self, ray: Any, actor: Any) -> None:
        self.ray, self.actor = ray, actor

    def ready(self) -> Future[str]:
        return self._future(self.actor.open.remote())

    def do(self, part: Any) -> Future[Any]:
        return self._future(self.actor.do.remote(part))

    def _future(self, asked: Any) -> Future[Any]:
        def error_of(error: Any) -> BaseException:
            raised = isinstance(error, self.ray.exceptions.RayTaskError)  # all else means that the actor is gone
            return getattr(error, "cause", None) or error if raised else WorkerLost(_gist(error))

        return _translated(asked.future(), error_of)

    def end(self) -> None:
        with contextlib.suppress(Exception):  # it may be gone already
            self.ray.kill(self.actor)


def _ray() -> Any:
    with extra("cluster"):
        import ray
    return ray


def _gist(error: Exception) -> str:
    """Ray's account of a lost worker: its last line is the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no reason is known'}"


@contextmanager
def cluster(address: str) -> Iterator[None]:
    """A connection to a Ray cluster: `local` is one of this machine alone, which ends with us."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    alone: dict[str, Any] = {}
    if address == LOCAL:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # keeps a cluster of one machine on loopback
        alone = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    ray = _ray()
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=True, **alone)
    except (ConnectionError, RuntimeError, ValueError) as error:
        token = "" if address == LOCAL or os.environ.get("RAY_AUTH_MODE") else TOKEN
        raise RayError(f"there is no Ray cluster at {address}: {first_line(error)}{token}") from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def connected(workers: int | None = None, ray: str | None = None) -> Iterator[Pool]:
    """Processes of this machine, or actors of the Ray cluster of that address."""
    if ray is None:
        yield Processes(workers)
        return
    with cluster(ray):
        yield Actors(workers)
