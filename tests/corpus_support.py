"""A pool whose work goes wrong, and what a job wrote."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.pool import Work


@dataclass
class Changed:
    """A pool whose workers are told other work."""

    pool: Any
    change: Callable[[Any], Any]

    def size(self) -> int:
        return int(self.pool.size())

    def start(self, work: Any) -> Any:
        return self.pool.start(self.change(work))


def parts(output: Path) -> bytes:
    """All that a job wrote, in order."""
    return b"".join(path.read_bytes() for path in sorted(output.glob("part-*")))


FULL = "ANYORDER_TEST_FULL_DISK"  # in the environment of a machine whose disk is full


@dataclass(frozen=True)
class Faulty:
    """Work that goes wrong in real ways, and writes down who did what: lines `shard machine process` of `diary`."""

    inner: Work
    diary: Path
    dies_once: tuple[int, ...] = ()  # shards during which the worker is killed, as the kernel does without memory
    starves_once: tuple[int, ...] = ()  # shards during which it gets no more memory
    fails: tuple[int, ...] = ()
    slow: float = 0.0  # seconds

    def open(self) -> Callable[[Any], Any]:
        import ray

        do, here = self.inner.open(), ray.get_runtime_context().get_node_id()

        def go(shard: Any) -> Any:
            with self.diary.open("a") as file:
                file.write(f"{shard.number} {here} {os.getpid()}\n")
            time.sleep(self.slow)
            if shard.number in self.dies_once and self._first(f"died-{shard.number}"):
                os.kill(os.getpid(), signal.SIGKILL)
            if shard.number in self.fails:
                raise RuntimeError("this shard always fails")
            if shard.number in self.starves_once and self._first(f"starved-{shard.number}"):
                with _starved():
                    return do(shard)
            with _limited(resource.RLIMIT_FSIZE, 10) if FULL in os.environ else contextlib.nullcontext():
                return do(shard)

        return go

    def _first(self, event: str) -> bool:
        """Has it not happened yet? Then it has now."""
        mark = self.diary.with_name(event)
        return not mark.exists() and mark.touch() is None

    def entries(self) -> list[tuple[int, str, str]]:
        """(shard, machine, process) of every attempt."""
        return [(int(n), m, p) for n, m, p in (line.split() for line in self.diary.read_text().splitlines())]


@contextlib.contextmanager
def _starved() -> Iterator[None]:
    """This process gets no more memory, and has used up what it had."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    with _limited(resource.RLIMIT_AS, pages * resource.getpagesize()):
        taken = []
        for size in (1 << 14, 1 << 11):  # large holes first, then what is left between them
            with contextlib.suppress(MemoryError):
                while True:
                    taken.append(bytearray(size))
        yield
        del taken


@contextlib.contextmanager
def _limited(what: int, most: int) -> Iterator[None]:
    """The kernel refuses this process more than that."""
    limits = resource.getrlimit(what)
    resource.setrlimit(what, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, limits)
