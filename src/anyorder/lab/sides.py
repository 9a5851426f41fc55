"""Sides of a comparison: ours on given canvases, one in a process of its own, and how all of them are timed.

Sides run interleaved, and the median of repeats counts; ratios, not seconds, are the result.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from anyorder.core import Decoder, beam, begin, canvas, decode
from anyorder.lab.plain import Job
from anyorder.machine import end_with_parent, side_by_side
from anyorder.models.translation import Source
from anyorder.text.batching import TOKEN_BUDGET, batches, padded

Run = Callable[[Any], Any]


@dataclass(frozen=True)
class Side:
    """One contender: `run` does the whole workload and returns what it wrote."""

    name: str
    run: Callable[[], Any]
    share: float = 1.0  # how much of the workload `run` does; a slow side may do a part, and its time is scaled up


@dataclass(frozen=True)
class Timing:
    """How long a side took for the whole workload, round by round, and what it wrote."""

    name: str
    rounds: tuple[float, ...]  # seconds
    output: Any

    @property
    def seconds(self) -> float:
        """The median of all rounds."""
        return statistics.median(self.rounds)

    def over(self, other: Timing) -> float:
        """How many times longer than `other`: the median of rounds, since a machine is slower at some times."""
        return statistics.median(a / b for a, b in zip(self.rounds, other.rounds, strict=True))


def interleaved(
    sides: Sequence[Side],
    repeats: int,
    note: Callable[[str], None] = lambda text: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """`repeats` rounds of all sides in turn; before them, unless there is one round only, a round to warm up."""
    outputs: dict[str, Any] = {}
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for round_ in range(repeats + (repeats > 1)):
        for side in sides:
            note(f"{side.name}: round {round_ + 1}")
            start = clock()
            outputs[side.name] = side.run()
            times[side.name].append((clock() - start) / side.share)
    return [Timing(side.name, tuple(times[side.name][-repeats:]), outputs[side.name]) for side in sides]


def one_by_one(
    sides: Mapping[str, Callable[[int], Any]], n: int, block: int = 10, rest: float = 0.3
) -> dict[str, tuple[float, float]]:
    """p50 and p95 of n single calls of each side, in seconds, the sides in turn, `block` calls at a time.

    Before its block a side rests and makes a call that is not timed: some engines' threads go on spinning for a while
    after their work, which would be counted against whoever comes next.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for first in range(0, n, block):
        for name, run in sides.items():
            time.sleep(rest)
            run(first)
            for i in range(first, min(first + block, n)):
                start = time.perf_counter()
                run(i)
                times[name].append(time.perf_counter() - start)
    ranked = {name: sorted(some) for name, some in times.items()}
    return {name: (some[n // 2], some[min(n - 1, int(0.95 * n))]) for name, some in ranked.items()}


@torch.inference_mode()
def decode_batch(
    model: Any, jobs: Sequence[Job], direction: tuple[int, int], ban: Sequence[int], decoder: Decoder, K: int = 1
) -> list[list[int]]:
    """The best canvas of each job, all in one batch."""
    decoder = replace(decoder, symbols=replace(decoder.symbols, ban=tuple(ban)))
    context = model.encode(Source(padded([j.source for j in jobs], model.pad_id), *direction))
    blank = canvas(torch.tensor([j.length for j in jobs]), model.mask_id, model.pad_id)
    state = begin(blank, model.mask_id, model.pad_id)
    tokens = (
        beam(model, context, state, decoder, K).tokens[:, 0] if K > 1 else decode(model, context, state, decoder).tokens
    )
    return [row[: job.length] for row, job in zip(tokens.tolist(), jobs, strict=True)]


def decode_jobs(
    model: Any,
    jobs: Sequence[Job],
    direction: tuple[int, int],
    ban: Sequence[int],
    decoder: Decoder,
    K: int = 1,
    budget: int = TOKEN_BUDGET,
) -> list[list[int]]:
    """The best canvas of each job."""

    def run(part: list[int]) -> list[list[int]]:
        return decode_batch(model, [jobs[i] for i in part], direction, ban, decoder, K)

    out: list[list[int]] = [[] for _ in jobs]
    parts = batches([len(j.source) + j.length + 4 for j in jobs], budget, K, [j.length for j in jobs])
    for part, rows in zip(parts, side_by_side(run, parts), strict=True):
        for i, row in zip(part, rows, strict=True):
            out[i] = row
    return out


@contextmanager
def apart(make: Callable[..., Run], *arguments: Any) -> Iterator[Run]:
    """The function that make(*arguments) gives in another process, with as many threads; it ends with the block."""
    # CTranslate2, merely loaded, makes torch on two threads take a third longer; and its threads are busy for a while
    # after they are done, so the process is stopped while other sides have their turn.
    context = multiprocessing.get_context("spawn")  # no thread is copied
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there, torch.get_num_threads(), make, arguments), daemon=True)
    process.start()
    there.close()
    try:
        here.recv()  # it is ready
        assert process.pid is not None
        pid = process.pid
        os.kill(pid, signal.SIGSTOP)

        def run(asked: Any) -> Any:
            os.kill(pid, signal.SIGCONT)
            here.send(asked)
            answer = here.recv()
            os.kill(pid, signal.SIGSTOP)
            return answer

        yield run
    finally:
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGCONT)
        here.close()
        process.join()


def _work(pipe: Connection, threads: int, make: Callable[..., Run], arguments: tuple[Any, ...]) -> None:
    end_with_parent()
    torch.set_num_threads(threads)
    run = make(*arguments)
    pipe.send(None)
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        pipe.send(run(asked))
