"""What a corpus will take: measured rates and a size in, machine-hours and a layout out, by simulation.

The simulation plays a job: workers start and load, take shards one after the other, and vanish now and then; one driver
sends shards, one store takes what is written. Assumptions are the fields of `World`.
"""

from __future__ import annotations

import heapq
import random
import time
from dataclasses import dataclass
from itertools import pairwise

from anyorder.cluster import formats
from anyorder.cluster.job import Job
from anyorder.cluster.rows import Content
from anyorder.cluster.shards import ABOUT, LARGEST, SMALLEST

SAMPLE = 200  # rows that are tried
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
MANY = 100_000  # shards that are played one by one; of more, several go together
ENOUGH = 0.9  # of the ideal: more workers than that are wasted


@dataclass(frozen=True)
class Rates:
    """What was measured on one worker."""

    load: float  # seconds to load the model
    rows: float  # per second
    tokens: float  # of the input, per second
    row_bytes: float  # of text per row
    out_bytes: float  # written per row


@dataclass(frozen=True)
class World:
    """What is assumed of a cluster; the defaults are careful."""

    start: float = 10.0  # seconds until a worker begins to load: a process, and the import of torch
    driver: float = 0.02  # seconds of the driver per shard
    store: float = 200e6  # bytes per second that the output takes
    uneven: float = 0.2  # spread of the time of a shard, as a part of it
    lives: float = 500 * 3600.0  # seconds until a worker vanishes, on average


USUAL = World()


@dataclass(frozen=True)
class Played:
    """A simulated job."""

    workers: int
    seconds: float
    busy: float  # seconds of all workers, starting and repeating included
    efficiency: float  # of the ideal: work / (workers × seconds)
    lost: int  # shards that were begun and lost
    bottleneck: str


def measure(job: Job, rows: int = SAMPLE) -> Rates:
    """Try the first rows of a job here, on one thread; nothing is written.

    Without a GPU the seconds are those of the core, so that whatever else runs here changes little.
    """
    import torch

    torch.set_num_threads(1)
    clock = time.perf_counter if torch.accelerator.is_available() else time.process_time
    begun = time.perf_counter()
    opened = job.task.open()
    load = time.perf_counter() - begun
    shard = job.shards[0]
    content = formats.read(shard.file.path, shard.span)
    good = [r for i, r in enumerate(content.records) if i not in content.problems][:rows]
    columns = {name: [record.get(name) for record in good] for name in (good[0] if good else {})}
    some = Content(good)
    texts = [text for text in columns.get(job.task.column, []) if isinstance(text, str)]
    opened({name: values[:4] for name, values in columns.items()})  # the first is slower
    begun = clock()
    new = opened(columns)
    seconds = max(clock() - begun, 1e-9)
    kind = "jsonl" if job.kind == "parquet" else job.kind
    made = formats.write(kind, some, new, job.task.into, shard.file.path)
    tokenizer = opened.held.tokenizer
    encoded = (
        tokenizer.encode(texts, opened.held.direction(job.task.to, job.task.source)[0])
        if job.task.translates
        else [tokenizer.encode(text) for text in texts]
    )
    size = sum(len(text.encode()) + 1 for text in texts)
    count = max(len(good), 1)
    return Rates(load, count / seconds, sum(map(len, encoded)) / seconds, size / count, len(made) / count)


def simulate(rows: float, rates: Rates, workers: int, world: World = USUAL, seed: int = 0) -> Played:
    """A job of that many rows on that many workers."""
    draw = random.Random(seed)
    size = max(SMALLEST, min(LARGEST, rows * rates.row_bytes / ABOUT))  # bytes of a shard, as jobs are cut
    real = max(1, round(rows * rates.row_bytes / size))
    shards = min(MANY, real)
    mean = rows / shards / rates.rows
    driver = world.driver * real / shards
    send = max(driver, rows / shards * rates.out_bytes / world.store)  # what goes one after the other
    begin = world.start + rates.load
    free = [(begin, worker) for worker in range(min(workers, shards))]
    heapq.heapify(free)
    left, server, end, busy, lost = shards, 0.0, 0.0, begin * len(free), 0
    while left:
        at, worker = heapq.heappop(free)
        server = max(server, at) + send
        took = mean * max(0.2, draw.gauss(1.0, world.uneven))
        often, rest = divmod(took / world.lives, 1.0)
        vanished = int(often) + (draw.random() < rest)
        lost += vanished
        took += vanished * (mean * shards / real / 2 + begin)  # half a shard anew, by a worker that starts
        left -= 1
        busy += took
        end = max(end, server + took)
        heapq.heappush(free, (server + took, worker))
    efficiency = rows / rates.rows / (workers * end)
    return Played(workers, end, busy, efficiency, lost, _bottleneck(shards, mean, send, begin, workers, driver))


def _bottleneck(shards: int, mean: float, send: float, begin: float, workers: int, driver: float) -> str:
    """What limits: whichever takes longest by itself."""
    serial = "the driver" if send == driver else "the output"
    times = {"the model": shards * mean / workers, "starting": begin, serial: shards * send, "the last shards": mean}
    return max(times, key=lambda name: times[name])


def layouts(rows: float, rates: Rates, world: World = USUAL) -> list[Played]:
    """Jobs on more and more workers, until more do not help."""
    out: list[Played] = []
    for workers in WORKERS:
        out.append(simulate(rows, rates, workers, world))
        if out[-1].efficiency < ENOUGH / 2:
            break
    return out


def recommended(played: list[Played]) -> Played:
    """The most workers that are well used; one where none are."""
    good = [p for p in played if p.efficiency >= ENOUGH]
    faster = [b for a, b in pairwise(good) if b.seconds < a.seconds]
    return faster[-1] if faster else (good or played)[0]
