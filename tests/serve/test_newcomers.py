"""Newcomers to a batch that keeps keys and values wait for each other, for a moment; nobody else waits."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from anyorder.serve.engine import MOMENT, SEVERAL, Engine
from anyorder.serve.job import Job, Ticket
from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters


def engine(rows: int, cached: bool = True) -> Engine:
    one = Engine(Limits(), Meters(), 1000)
    lanes: dict[Any, Any] = {"lane": SimpleNamespace(rows=rows, cached=cached)} if rows else {}
    one._lanes = lanes
    return one


def come(to: Engine, cached: bool = True, sentences: int = 1) -> Job:
    task: Any = SimpleNamespace(passes=1, cached=cached)
    return to.submit(task, Ticket(sentences, time.monotonic() + 60))


def test_nobody_waits_where_little_is_written_or_nothing_is_kept() -> None:
    for one in (engine(0), engine(SEVERAL - 1), engine(SEVERAL, cached=False)):
        job = come(one)
        assert one._newcomers(job.came) == [job] and not one._inbox


def test_newcomers_wait_until_they_are_half_as_many_as_are_written() -> None:
    one = engine(8)
    jobs = [come(one) for _ in range(3)]
    assert one._newcomers(jobs[0].came) == []
    jobs.append(come(one))
    assert one._newcomers(jobs[0].came) == jobs
    many = come(one, sentences=4)
    assert one._newcomers(many.came) == [many]


def test_nobody_waits_for_longer_than_a_moment() -> None:
    one = engine(8)
    job = come(one)
    assert one._newcomers(job.came + 0.9 * MOMENT) == []
    assert one._newcomers(job.came + 1.01 * MOMENT) == [job]


def test_what_keeps_nothing_does_not_wait_with_those_who_do() -> None:
    one = engine(8)
    first, second = come(one), come(one, cached=False)
    assert one._newcomers(first.came) == [second]
    assert one._newcomers(first.came + 1.01 * MOMENT) == [first]
