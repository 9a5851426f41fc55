"""How work is put on this machine's cores. Nothing here changes a result."""

from __future__ import annotations

import multiprocessing
import os
import threading
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
    """Let this process end when the one that started it does, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait_for_end() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=wait_for_end, daemon=True).start()
