"""Memory that was freed: glibc keeps it, which is fast, and gives it back now and then, so that it does not pile up."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable

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

    Each size of a batch has its own, which lie between what is freed: memory grows while it keeps more of them.
    To prepare one takes a tenth of a millisecond, which is nothing to large batches, and 4 % of a single sentence.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", KEPT)


def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library
        return None


class Freed:
    """What a process that works for long gives back: to be told, between two steps, that there was work."""

    def __init__(self) -> None:
        self._trim, self._since = _trim(), time.monotonic()
        self._used = False

    def used(self) -> None:
        """Something was done."""
        self._used = True
        if time.monotonic() - self._since > EVERY:
            self.rest()

    def rest(self) -> None:
        """Nothing is to be done: what was needed before is not needed now."""
        if self._used and self._trim is not None:
            self._trim(0)
        self._used, self._since = False, time.monotonic()
