"""Who is served when: waiting requests join cached batches several at once, clients share the time and the queue."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from anyorder.serve.admission import Pace
from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters
from anyorder.serve.refusal import Refusal
from anyorder.serve.scheduler import FEW, MOMENT, WRITTEN, Scheduler
from anyorder.serve.turns import Turns
from anyorder.serve.work import Queued, Request, Size


def scheduler(rows: int = 0, cached: bool = True, **limits: Any) -> Scheduler:
    one = Scheduler(Limits(**limits), Meters(), 1000)
    groups: dict[Any, Any] = {"group": SimpleNamespace(rows=rows, waiting=0, cached=cached)} if rows else {}
    one._groups = groups
    return one


def come(to: Scheduler, cached: bool = True, sentences: int = 1, steps: int = 1, tokens: float = 0) -> Queued:
    work: Any = SimpleNamespace(size=Size("kind", steps, tokens), cached=cached)
    return to.submit(work, Request(sentences, time.monotonic() + to.limits.deadline))


def test_a_request_does_not_wait_where_little_is_written_or_nothing_is_kept() -> None:
    for one in (scheduler(0), scheduler(FEW - 1), scheduler(40, cached=False)):
        item = come(one)
        assert one._next(item.came) == [item] and not one._queue


def test_waiting_requests_join_several_at_once() -> None:
    one = scheduler(16)
    items = [come(one)]
    while not (new := one._next(items[0].came)):
        items.append(come(one))
    assert len(new) > 1 and 16 + len(new) <= round(WRITTEN * (16 + len(items)))
    assert 16 + len(new) + 1 > round(WRITTEN * (16 + len(items))), "as many as there is room for"
    many = scheduler(16)
    assert many._next(come(many, sentences=20).came), "one of many sentences is several"


def test_the_request_with_most_to_write_comes_first_and_none_waits_for_ever() -> None:
    one = scheduler(20)
    one._seconds = 0.01
    for _ in range(12):
        come(one, steps=8)
    long = [come(one, steps=30) for _ in range(4)]
    assert set(one._next(long[-1].came)[:4]) == set(long)
    old = scheduler(20)
    old._seconds = 0.01
    early, later = come(old, steps=8), [come(old, steps=30) for _ in range(15)]
    for item in later:
        item.came += 0.5  # what it has more to write takes less long than the other has waited
    assert old._next(later[0].came)[0] is early


def test_no_request_waits_for_longer_than_a_moment() -> None:
    one = scheduler(16)
    item = come(one)
    assert one._next(item.came + 0.9 * MOMENT) == []
    assert one._next(item.came + 1.01 * MOMENT) == [item]


def test_rows_that_keep_nothing_do_not_wait_with_those_that_do() -> None:
    one = scheduler(16)
    first, second = come(one), come(one, cached=False)
    assert one._next(first.came) == [second]
    assert one._next(first.came + 1.01 * MOMENT) == [first]


# ---------------------------------------------------------------- in time


def test_a_pace_knows_small_and_large_steps() -> None:
    pace = Pace()
    assert pace.seconds(5, 100, 1000) == 0, "nothing is known yet"
    for _ in range(100):
        pace.made(10, 0.002)
        pace.made(1000, 0.02)
    assert pace.seconds(30, 300, 1000) == pytest.approx(0.06, rel=0.05)  # small steps
    assert pace.seconds(0, 30_000, 1000) == pytest.approx(0.6, rel=0.05)  # in full batches
    assert pace.seconds(10, 100_000, 1000) == pytest.approx(2.0, rel=0.05)  # at most the budget at once


def test_work_that_takes_longer_than_a_deadline_is_refused_by_an_idle_server() -> None:
    one = scheduler(deadline=10.0)
    for _ in range(10):
        one.made("kind", 1000, 1.0)
    with pytest.raises(Refusal, match="about 20 seconds, and a request may take 10") as refused:
        come(one, steps=20, tokens=20_000)
    assert refused.value.status == 400
    assert come(one, steps=8, tokens=8_000)


def test_a_long_request_does_not_keep_short_ones_out() -> None:
    """Each gets its share of the time: a short one waits for as much of the long one as it has to do itself."""
    one = scheduler(deadline=10.0)
    for _ in range(10):
        one.made("kind", 1000, 1.0)
    come(one, steps=9, tokens=9_000)
    for _ in range(4):
        come(one, steps=1, tokens=1_000)
    with pytest.raises(Refusal, match="beside others") as refused:
        come(one, steps=4, tokens=4_000)
    assert refused.value.status == 503 and 0 < (refused.value.wait or 0) <= 10
    one._open.pop().done.set_result(None)
    assert max(item.remaining(time.monotonic()) for item in one._open) <= 10.0


def test_a_client_does_not_fill_the_queue_for_others() -> None:
    one = scheduler(queue=10)
    greedy = [one.admit(5, "greedy") for _ in range(2)]
    with pytest.raises(Refusal, match="10 sentences"):
        one.admit(1, "greedy")
    honest = [one.admit(1, "honest") for _ in range(5)]
    with pytest.raises(Refusal):
        one.admit(1, "honest")
    for request in [*greedy, *honest]:
        one.leave(request)
    assert one.held == 0 and not one._by


def test_clients_share_the_time_however_many_batches_each_has() -> None:
    def group(client: str) -> Any:
        return SimpleNamespace(clients={client}, turn=0, oldest=lambda _: 0.0)

    groups: dict[Any, Any] = {n: group("greedy") for n in range(9)} | {9: group("honest")}
    turns, spent = Turns(), {"greedy": 0.0, "honest": 0.0}
    for _ in range(100):
        key, _ = turns.next(groups)
        client, seconds = ("honest", 0.01) if key == 9 else ("greedy", 0.1)
        spent[client] += seconds
        turns.spent({client: 1}, seconds)
    assert abs(spent["greedy"] - spent["honest"]) <= 0.11
    turns.next({0: groups[0]})  # alone for a while …
    turns.spent({"greedy": 1}, 50.0)
    for _ in range(4):  # … which earns the other no more than the next step
        key, _ = turns.next(groups)
        turns.spent({"honest" if key == 9 else "greedy": 1}, 1.0)
    assert abs(turns._spent["greedy"] - turns._spent["honest"]) <= 1.01
