"""Measuring: several sides in one process, interleaved, the median of repeats; ratios, not seconds, are the result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
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


def interleaved(sides: Sequence[Side], repeats: int, note: Callable[[str], None] = lambda text: None) -> list[Timing]:
    """`repeats` rounds of all sides in turn; before them, unless there is one round only, a round to warm up."""
    outputs: dict[str, Any] = {}
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for round_ in range(repeats + (repeats > 1)):
        for side in sides:
            note(f"{side.name}: round {round_ + 1}")
            start = time.perf_counter()
            outputs[side.name] = side.run()
            times[side.name].append((time.perf_counter() - start) / side.share)
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
