"""Newcomers to a batch that keeps keys and values join several at once, who has most to write first."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from anyorder.serve.engine import FEW, MOMENT, WRITTEN, Engine
from anyorder.serve.job import Job, Ticket
from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters


def engine(rows: int, cached: bool = True) -> Engine:
    one = Engine(Limits(), Meters(), 1000)
    lanes: dict[Any, Any] = {"lane": SimpleNamespace(rows=rows, waiting=0, cached=cached)} if rows else {}
    one._lanes = lanes
    return one


def come(to: Engine, cached: bool = True, sentences: int = 1, passes: int = 1) -> Job:
    task: Any = SimpleNamespace(passes=passes, cached=cached)
    return to.submit(task, Ticket(sentences, time.monotonic() + 60))


def test_nobody_waits_where_little_is_written_or_nothing_is_kept() -> None:
    for one in (engine(0), engine(FEW - 1), engine(40, cached=False)):
        job = come(one)
        assert one._newcomers(job.came) == [job] and not one._inbox


def test_newcomers_wait_until_several_can_join() -> None:
    one = engine(16)
    jobs = [come(one)]
    while not (new := one._newcomers(jobs[0].came)):
        jobs.append(come(one))
    assert len(new) > 1 and 16 + len(new) <= round(WRITTEN * (16 + len(jobs)))
    assert 16 + len(new) + 1 > round(WRITTEN * (16 + len(jobs))), "as many as there is room for"
    many = engine(16)
    assert many._newcomers(come(many, sentences=20).came), "one of many sentences is several"


def test_who_has_most_to_write_comes_first_and_nobody_waits_for_ever() -> None:
    one = engine(20)
    one._seconds = 0.01
    for _ in range(12):
        come(one, passes=8)
    long = [come(one, passes=30) for _ in range(4)]
    assert set(one._newcomers(long[-1].came)[:4]) == set(long)
    old = engine(20)
    old._seconds = 0.01
    early, later = come(old, passes=8), [come(old, passes=30) for _ in range(15)]
    for job in later:
        job.came += 0.5  # what it has more to write takes less long than the other has waited
    assert old._newcomers(later[0].came)[0] is early


def test_nobody_waits_for_longer_than_a_moment() -> None:
    one = engine(16)
    job = come(one)
    assert one._newcomers(job.came + 0.9 * MOMENT) == []
    assert one._newcomers(job.came + 1.01 * MOMENT) == [job]


def test_what_keeps_nothing_does_not_wait_with_those_who_do() -> None:
    one = engine(16)
    first, second = come(one), come(one, cached=False)
    assert one._newcomers(first.came) == [second]
    assert one._newcomers(first.came + 1.01 * MOMENT) == [first]
