"""Measuring: several sides in one process, interleaved, the median of repeats; ratios, not seconds, are the result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Side:
    """One contender: `run` does the whole workload and returns what it wrote."""

    name: str
    run: Callable[[], Any]
    share: float = 1.0  # how much of the workload `run` does; a slow side may do a part, and its time is scaled up


@dataclass(frozen=True)
class Timing:
    """The median time of a side for the whole workload, and what it wrote."""

    name: str
    seconds: float
    spread: float  # (slowest − fastest)/median of the repeats
    output: Any


def interleaved(sides: Sequence[Side], repeats: int, note: Callable[[str], None] = lambda text: None) -> list[Timing]:
    """Every side once to warm up, then `repeats` rounds of all sides in turn."""
    outputs = {}
    for side in sides:
        note(f"{side.name}: warming up")
        outputs[side.name] = side.run()
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for round_ in range(repeats):
        for side in sides:
            note(f"{side.name}: {round_ + 1} of {repeats}")
            start = time.perf_counter()
            side.run()
            times[side.name].append((time.perf_counter() - start) / side.share)
    return [
        Timing(
            side.name,
            statistics.median(times[side.name]),
            (max(times[side.name]) - min(times[side.name])) / statistics.median(times[side.name]),
            outputs[side.name],
        )
        for side in sides
    ]


def latencies(run: Callable[[int], Any], n: int) -> tuple[float, float]:
    """p50 and p95 of n single calls, in seconds."""
    run(0)
    times = []
    for i in range(n):
        start = time.perf_counter()
        run(i)
        times.append(time.perf_counter() - start)
    times.sort()
    return times[len(times) // 2], times[min(len(times) - 1, int(0.95 * len(times)))]
