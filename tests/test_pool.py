"""Who does which part when workers fail, vanish, or do not start: every part is done once, or it is said why not."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from anyorder.errors import DataError, PlanError, UsageError
from anyorder.pool import (
    FAULTS,
    LOSSES,
    RETRIES,
    Failed,
    PartError,
    PoolError,
    Processes,
    Threads,
    WorkerLost,
    run,
    told,
)

NONE: Any = None  # the work of scripted workers


class Scripted:
    """Workers on a few places; what becomes of a part there is given by a function."""

    def __init__(self, places: list[str], fate: Callable[[str, Any], Any], start: Callable[[str], Any] = lambda p: p):
        self.places, self.fate, self.begin = places, fate, start
        self.workers: dict[Any, str] = {}
        self.given: list[tuple[str, Any]] = []
        self.started = 0

    def size(self) -> int:
        return len(self.places)

    def start(self, work: Any) -> OfPlace:
        self.started += 1
        free = [p for p in self.places if p not in self.workers.values()]
        worker = OfPlace(self, free[0])
        self.workers[worker] = free[0]
        return worker


class OfPlace:
    def __init__(self, pool: Scripted, place: str) -> None:
        self.pool, self.place = pool, place

    def ready(self) -> Any:
        return at_once(self.pool.begin(self.place))

    def do(self, part: Any) -> Any:
        self.pool.given.append((self.place, part))
        fate = self.pool.fate(self.place, part)
        if isinstance(fate, WorkerLost):
            self.pool.workers.pop(self, None)
        return at_once(fate)

    def end(self) -> None:
        self.pool.workers.pop(self, None)


def at_once(fate: Any) -> Future[Any]:
    """A future that is done, with what a worker would send."""
    future: Future[Any] = Future()
    try:
        with told() if not isinstance(fate, WorkerLost) else nullcontext():
            if isinstance(fate, Exception):
                raise fate
        future.set_result(fate)
    except Exception as error:
        future.set_exception(error)
    return future


def finished(pool: Scripted, parts: int = 20) -> tuple[list[int], dict[int, str]]:
    out = list(run(pool, NONE, range(parts)))
    assert not pool.workers, "a worker was not ended"
    done = [part for part, event in out if not isinstance(event, Failed)]
    failed = {part: event.reason for part, event in out if isinstance(event, Failed)}
    assert len(done) == len(set(done)) and not set(done) & set(failed)
    return sorted(done), failed


def test_all_is_done_once() -> None:
    pool = Scripted(["a", "b", "c"], lambda place, part: part)
    assert finished(pool) == (list(range(20)), {}) and len(pool.given) == 20 and pool.started == 3


def test_a_part_that_always_fails_is_said_and_the_rest_done() -> None:
    pool = Scripted(["a", "b"], lambda place, part: Exception("no") if part == 7 else part)
    assert finished(pool) == ([p for p in range(20) if p != 7], {7: "Exception: no"})
    assert sum(part == 7 for _, part in pool.given) == RETRIES
    alone = Scripted(["a"], lambda place, part: Exception("no") if part in (3, 4) else part)
    assert set(finished(alone)[1]) == {3, 4}
    assert len(finished(Scripted(["a"], lambda place, part: Exception("no") if part < 9 else part))[1]) == 9


def test_a_place_where_everything_fails_is_left_alone() -> None:
    pool = Scripted(["full", "good"], lambda place, part: OSError(28, "disk") if place == "full" else part)
    assert finished(pool, 50) == (list(range(50)), {})
    assert sum(place == "full" for place, _ in pool.given) == FAULTS


def test_nothing_works_anywhere() -> None:
    pool = Scripted(["a", "b"], lambda place, part: OSError(28, "disk is full"))
    with pytest.raises(PoolError, match="disk is full"):
        finished(pool, 1000)
    assert len(pool.given) <= 2 * FAULTS + 1 and not pool.workers


def test_workers_vanish() -> None:
    draw = random.Random(1)
    pool = Scripted(["a", "b", "c"], lambda place, part: WorkerLost("gone") if draw.random() < 0.2 else part)
    assert finished(pool, 60) == (list(range(60)), {}) and pool.started > 5
    killer = Scripted(["a", "b"], lambda place, part: WorkerLost("memory") if part == 2 else part)
    assert finished(killer) == ([p for p in range(20) if p != 2], {2: "memory"})
    assert sum(part == 2 for _, part in killer.given) == LOSSES


def test_workers_that_do_not_start() -> None:
    one = Scripted(["a", "b"], lambda place, part: part, lambda p: Exception("x") if p == "b" else p)
    assert finished(one) == (list(range(20)), {}) and one.started <= 2 * FAULTS
    with pytest.raises(PoolError, match="do not start: Exception: no model"):
        finished(Scripted(["a"], lambda place, part: part, lambda p: Exception("no model")))


def test_a_mistake_of_the_user_ends_it_at_once() -> None:
    pool = Scripted(["a", "b"], lambda place, part: UsageError("no such column"))
    with pytest.raises(UsageError, match="no such column"):
        finished(pool)
    assert len(pool.given) <= 2


def test_a_pool_starts_no_more_workers_than_there_are_parts() -> None:
    pool = Scripted([f"p{i}" for i in range(50)], lambda place, part: part)
    assert finished(pool, 3) == ([0, 1, 2], {}) and pool.started == 3
    assert list(run(pool, NONE, range(9), until=time.monotonic() - 1)) == [] and pool.started == 3


@pytest.mark.parametrize(
    ("error", "sent"),
    [
        (OSError(28, "No space left on device", "x"), PartError("No space left on device (x)", True)),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you"),
            PartError("there is not enough memory", True),
        ),
        (PlanError("--to"), UsageError("--to")),
        (DataError("bad"), PartError("bad", False)),
        (ZeroDivisionError("x"), PartError("ZeroDivisionError: x", False)),
    ],
)
def test_errors_can_be_sent(error: Exception, sent: Exception) -> None:
    with pytest.raises(type(sent)) as found, told():
        raise error
    there = pickle.loads(pickle.dumps(found.value))
    assert type(there) is type(sent) and there.args == sent.args


class Odd(Exception):
    """An error that cannot be made anew from its message, as other packages have them."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


class Halves:
    """Work that fails for odd numbers."""

    def open(self) -> Callable[[int], int]:
        def half(n: int) -> int:
            if n % 2:
                raise Odd(n, torch.get_num_threads())
            return n // 2

        return half


@pytest.mark.parametrize("pool", [Threads(2), Processes(2)])
def test_pools_do_the_same(pool: Any) -> None:
    before = torch.get_num_threads()
    found = dict(run(pool, Halves(), [4, 6, 7]))
    assert found == {4: 2, 6: 3, 7: Failed("Odd: 7 and 1")} and torch.get_num_threads() == before


class Interrupted(Halves):
    """Work that is sent while Ctrl-C is pressed."""

    def __reduce__(self) -> tuple[type[Halves], tuple[()]]:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            pytest.fail("it was heard while the process started")
        return Halves, ()


def test_ctrl_c_while_a_process_starts_ends_it() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            list(run(Processes(1), Interrupted(), [2]))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not multiprocessing.active_children()
