"""Rows of a kernel's work on several threads, as many as torch would use."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise

import torch

LARGE = 1 << 25  # multiplications that are worth a thread


def shared(rows: int, work: int, run: Callable[[int, int], int]) -> None:
    """run(first, last) over all rows, each of which takes `work` multiplications; it says 0 if there was no memory."""
    parts = min(torch.get_num_threads(), rows, rows * work // LARGE) if rows * work > LARGE else 1
    if parts < 2:
        done = [run(0, rows)]
    else:
        ends = [rows * k // parts for k in range(parts + 1)]
        pool = _pool(os.getpid(), parts)
        others = [pool.submit(run, *span) for span in pairwise(ends[1:])]
        try:
            done = [run(0, ends[1])]
        finally:
            wait(others)  # whatever happens here: they write into tensors of the caller's
        done += [other.result() for other in others]
    if not all(done):
        raise MemoryError(f"no memory for {rows} rows")


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a fork has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="anyorder-kernel")
