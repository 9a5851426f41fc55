"""Who does which part when workers fail, vanish, or do not start: every part is done once, or it is said why not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from anyorder.cluster.crew import LOSSES, STRIKES, TRIES, CrewError, Done, Event, Failed, Lost, Ready, attempt, run
from anyorder.errors import UsageError


class Scripted:
    """Workers on a few places; what becomes of a part there is given by a function."""

    def __init__(self, places: list[str], fate: Callable[[str, Any], Event], start: Callable[[str], Event] = Ready):
        self.places, self.fate, self.start = places, fate, start
        self.workers: dict[int, str] = {}
        self.events: list[tuple[int, Event]] = []
        self.given: list[tuple[str, Any]] = []
        self.hired, self.draw = 0, random.Random(0)

    def size(self) -> int:
        return len(self.places)

    def hire(self) -> int:
        self.hired += 1
        free = [p for p in self.places if p not in self.workers.values()]
        self.workers[self.hired] = free[0]
        self.events.append((self.hired, self.start(free[0])))
        return self.hired

    def give(self, worker: int, part: Any) -> None:
        place = self.workers[worker]
        self.given.append((place, part))
        event = self.fate(place, part)
        if isinstance(event, Lost):
            del self.workers[worker]
        self.events.append((worker, event))

    def wait(self, seconds: float) -> list[tuple[Any, Event]]:
        self.draw.shuffle(self.events)
        return [self.events.pop()] if self.events else []

    def dismiss(self, worker: int) -> None:
        self.workers.pop(worker, None)


def finished(crew: Scripted, parts: int = 20) -> tuple[list[int], dict[int, str]]:
    out = list(run(crew, range(parts)))
    assert not crew.workers, "somebody was not dismissed"
    done = [part for part, event in out if isinstance(event, Done)]
    failed = {part: event.reason for part, event in out if isinstance(event, Failed)}
    assert len(done) == len(set(done)) and not set(done) & set(failed)
    return sorted(done), failed


def test_all_is_done_once() -> None:
    crew = Scripted(["a", "b", "c"], lambda place, part: Done(part))
    assert finished(crew) == (list(range(20)), {}) and len(crew.given) == 20 and crew.hired == 3


def test_a_part_that_always_fails_is_said_and_the_rest_done() -> None:
    crew = Scripted(["a", "b"], lambda place, part: Failed("no") if part == 7 else Done(part))
    assert finished(crew) == ([p for p in range(20) if p != 7], {7: "no"})
    assert sum(part == 7 for _, part in crew.given) == TRIES
    alone = Scripted(["a"], lambda place, part: Failed("no") if part in (3, 4) else Done(part))
    assert set(finished(alone)[1]) == {3, 4}
    assert len(finished(Scripted(["a"], lambda place, part: Failed("no") if part < 9 else Done(part)))[1]) == 9


def test_a_place_where_everything_fails_is_left_alone() -> None:
    crew = Scripted(["full", "good"], lambda place, part: Failed("disk", place=True) if place == "full" else Done(part))
    assert finished(crew, 50) == (list(range(50)), {})
    assert sum(place == "full" for place, _ in crew.given) == STRIKES


def test_nothing_works_anywhere() -> None:
    crew = Scripted(["a", "b"], lambda place, part: Failed("disk is full", place=True))
    with pytest.raises(CrewError, match="disk is full"):
        finished(crew, 1000)
    assert len(crew.given) <= 2 * STRIKES + 1 and not crew.workers


def test_workers_vanish() -> None:
    draw = random.Random(1)
    crew = Scripted(["a", "b", "c"], lambda place, part: Lost("gone") if draw.random() < 0.2 else Done(part))
    assert finished(crew, 60) == (list(range(60)), {}) and crew.hired > 5
    killer = Scripted(["a", "b"], lambda place, part: Lost("memory") if part == 2 else Done(part))
    assert finished(killer) == ([p for p in range(20) if p != 2], {2: "memory"})
    assert sum(part == 2 for _, part in killer.given) == LOSSES


def test_workers_that_do_not_start() -> None:
    one = Scripted(["a", "b"], lambda place, part: Done(part), lambda p: Failed("x") if p == "b" else Ready(p))
    assert finished(one) == (list(range(20)), {}) and one.hired <= 2 * STRIKES
    with pytest.raises(CrewError, match="do not start: no model"):
        finished(Scripted(["a"], lambda place, part: Done(part), lambda p: Failed("no model")))


def test_a_mistake_of_the_user_ends_it_at_once() -> None:
    crew = Scripted(["a", "b"], lambda place, part: Failed("no such column", UsageError))
    with pytest.raises(UsageError, match="no such column"):
        finished(crew)
    assert len(crew.given) <= 2


def test_errors_are_said_as_sentences() -> None:
    def full() -> None:
        raise OSError(28, "No space left on device", "x")

    def wrong() -> None:
        raise UsageError("--to")

    assert attempt(lambda: 3) == Done(3) and attempt(full) == Failed("No space left on device (x)", place=True)

    def starved() -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    assert attempt(starved) == Failed("there is not enough memory", place=True)
    assert attempt(wrong) == Failed("--to", UsageError)
    assert attempt(lambda: 1 // 0).reason.startswith("ZeroDivisionError")  # type: ignore[union-attr]
