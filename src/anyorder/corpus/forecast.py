"""Hours that a corpus takes: rows / (rows a second × workers), plus the start of a worker; a few rows are tried."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from anyorder.corpus import formats
from anyorder.corpus.job import Job
from anyorder.corpus.work import ABOUT, LARGEST, SMALLEST

SAMPLE = 200  # rows that are tried
WORKERS = tuple(1 << n for n in range(13))
START = 10.0  # seconds until a worker begins to load: a process, and the import of torch
ENOUGH = 0.9  # of the ideal: more workers than that are wasted


@dataclass(frozen=True)
class Rates:
    """Rates measured on one worker."""

    load: float  # seconds to load the model
    rows: float  # per second
    tokens: float  # of the input, per second
    row_bytes: float  # of text per row


@dataclass(frozen=True)
class Layout:
    """A job on some number of workers."""

    workers: int
    seconds: float
    busy: float  # seconds of all workers
    efficiency: float  # of the ideal: work / (workers × seconds)


def measure(job: Job, rows: int = SAMPLE) -> Rates:
    """Try the first rows of a job here, on one thread; nothing is written.

    Without a GPU these are seconds of the core, so that other programs that run here change little.
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
    texts = [text for text in columns.get(job.task.column, []) if isinstance(text, str)]
    opened({name: values[:4] for name, values in columns.items()})  # the first is slower
    begun = clock()
    opened(columns)
    seconds = max(clock() - begun, 1e-9)
    tokenizer = opened.held.tokenizer
    encoded = (
        tokenizer.encode(texts, opened.held.direction(job.task.to, job.task.source)[0])
        if job.task.translates
        else [tokenizer.encode(text) for text in texts]
    )
    size = sum(len(text.encode()) + 1 for text in texts)
    count = max(len(good), 1)
    return Rates(load, count / seconds, sum(map(len, encoded)) / seconds, size / count)


def layout(rows: float, rates: Rates, workers: int) -> Layout:
    """Workers start, then do whole shards, all at once: start + ⌈shards / workers⌉ · work / shards."""
    size = max(SMALLEST, min(LARGEST, rows * rates.row_bytes / ABOUT))  # bytes of a shard, as jobs are cut
    shards = max(1, round(rows * rates.row_bytes / size))
    start, work = START + rates.load, rows / rates.rows
    seconds = start + math.ceil(shards / workers) * (work / shards)
    return Layout(workers, seconds, min(workers, shards) * start + work, work / (workers * seconds))


def layouts(rows: float, rates: Rates) -> list[Layout]:
    """More and more workers, until more do not help."""
    out: list[Layout] = []
    for workers in WORKERS:
        out.append(layout(rows, rates, workers))
        if out[-1].efficiency < ENOUGH / 2:
            break
    return out


def recommended(found: list[Layout]) -> Layout:
    """The most workers that are well used; one where none are."""
    return next((one for one in reversed(found) if one.efficiency >= ENOUGH), found[0])
