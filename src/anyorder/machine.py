"""This machine: its cores, work side by side on them, and the memory that was freed."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")
Done = TypeVar("Done")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(work: Callable[[Part], Done], parts: Sequence[Part]) -> Iterator[Done]:
    """work(part) of each part, in order: on a CPU as many at once as torch has threads, each on a thread of its own.

    Two batches on a core each finish sooner than one after the other on two cores: small operations do not split well.
    A single part gets all threads.
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(parts) < 2:
        yield from map(work, parts)
        return
    pool = ThreadPoolExecutor(min(threads, len(parts)), initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, parts)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a part of the setting is the process's, not the thread's


def end_with_parent() -> None:
    """End this process when its parent ends, even if the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait_for_end() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=wait_for_end, daemon=True).start()


KEPT = "16"  # operations; 1,024 are the default
EVERY = 10.0  # seconds of work after which it is given back, which takes some hundredths of one


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory: up to a third of the time on a CPU goes into mapping the same pages again."""
    if sys.platform != "linux":
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        for option, value in ((-3, 1 << 30), (-1, 2**31 - 1), (-2, 64 << 20)):  # mmap, trim, top-pad thresholds
            libc.mallopt(option, value)
    except (OSError, AttributeError):
        pass  # another libc: only slower


def keep_few_operations() -> None:
    """Tell oneDNN, before a model is first used, to keep few of the operations that it has prepared.

    Each batch size has its own, scattered through freed memory, so memory grows with the number that is kept.
    To prepare one takes a tenth of a millisecond, which is nothing to large batches, and 4 % of a single sentence.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", KEPT)


def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library
        return None


class Freed:
    """Gives freed memory of a long-running process back; to be called between two steps, after there was work."""

    def __init__(self) -> None:
        self._trim, self._since = _trim(), time.monotonic()
        self._used = False

    def used(self) -> None:
        """Something was done."""
        self._used = True
        if time.monotonic() - self._since > EVERY:
            self.rest()

    def rest(self) -> None:
        """Nothing is to be done: give freed memory back now."""
        if self._used and self._trim is not None:
            self._trim(0)
        self._used, self._since = False, time.monotonic()
