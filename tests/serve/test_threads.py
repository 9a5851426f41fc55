"""Sources are read while rows are written, and newcomers join a batch that keeps keys and values in small groups."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import torch

from anyorder.serve.app import create
from anyorder.serve.job import Job, Ticket
from anyorder.serve.lane import SOON, Lane
from anyorder.serve.run import Background
from anyorder.serve.served import _Write
from anyorder.text.plan import Plan
from anyorder.text.rows import Input

ASK = {"q": "Ein Hund läuft am Strand.", "source": "de", "target": "en"}


def test_rows_are_written_while_a_source_is_being_read(models: dict[str, Any]) -> None:
    app = create({"tiny": models["tiny"]})
    model, go = app.state.server.models["tiny"].model, threading.Event()
    quick, begun = model.encode, threading.Event()

    def encode(*args: Any) -> Any:
        begun.set()
        assert go.wait(30)
        return quick(*args)

    with Background(app) as url, ThreadPoolExecutor(1) as pool:
        first = httpx.Client(base_url=url, timeout=30)
        with first.stream("POST", "/v1/stream", json={"text": ASK["q"], "to": "en"}) as stream:
            lines = stream.iter_lines()
            next(lines)  # it is being written
            model.encode = encode
            try:
                second = pool.submit(httpx.post, f"{url}/translate", json=ASK, timeout=30)
                assert begun.wait(30)
                assert any("event: end" in line for line in lines)
                assert not second.done()
            finally:
                go.set()
                del model.encode
        assert second.result().json() == httpx.post(f"{url}/translate", json=ASK, timeout=30).json()


def _rows(generator: Any, n: int) -> tuple[Job, _Write]:
    task = _Write(generator, [Input((5, 6, 7, 8, 9, 10))] * n, Plan.of(), None, False, 1)
    task.prepare([])
    return Job(task, Ticket(n, time.monotonic() + 60), due=1), task


@torch.inference_mode()
def test_newcomers_wait_for_a_crowd_or_a_few_steps_where_joining_copies_a_cache(models: dict[str, Any]) -> None:
    generator = models["grown"].generator("en", "de").forwards
    job, task = _rows(generator, 8)
    lane = Lane(task.parts[0])

    def come(n: int) -> int:
        """How many are in the batch after so many have come."""
        job, task = _rows(generator, n)
        for part in task.parts:
            lane.wait(job, part)
        lane.fill(10_000)
        return lane.rows

    lane.wait(job, task.parts[0])
    lane.fill(10_000)
    assert lane.rows == 8  # nobody is there to be copied
    lane.step()
    here = lane.rows
    assert here > 4 and come(1) == here and lane.waiting == 1
    assert come(1) == here + 2 and not lane.waiting  # two are a quarter
    assert come(1) == here + 2
    for _ in range(SOON):
        assert lane.waiting == 1
        lane.step()
        lane.fill(10_000)
    assert not lane.waiting


@torch.inference_mode()
def test_newcomers_join_at_once_where_nothing_is_kept(models: dict[str, Any]) -> None:
    generator = models["tiny"].generator("en", "de")
    job, task = _rows(generator, 8)
    lane = Lane(task.parts[0])
    lane.wait(job, task.parts[0])
    lane.fill(10_000)
    before = lane.rows
    job, task = _rows(generator, 1)
    lane.wait(job, task.parts[0])
    lane.fill(10_000)
    assert lane.rows > before and not lane.waiting
