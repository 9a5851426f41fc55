"""Memory: glibc keeps what was freed, of every thread and every size; a server that runs for long gives it back."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

EVERY = 10.0  # seconds of work after which it is given back, which takes some hundredths of one


def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library
        return None


class Memory:
    """To be told, between two steps, that there was work."""

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
