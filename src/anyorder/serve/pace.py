"""How long what is here will take: passes that are to be made, and the seconds that passes took lately."""

from __future__ import annotations

import threading

WINDOW = 10_000  # passes after which older ones begin to be forgotten
FIRST = (0.01, 20.0)  # seconds and passes that a server begins with, before it knows better


class Pace:
    """Passes of canvases through models: told on any thread of what is to come, and on the model's of what is done."""

    def __init__(self) -> None:
        self._seconds, self._passes = FIRST
        self._due = 0.0
        self._lock = threading.Lock()

    @property
    def idle(self) -> bool:
        """Is nothing under way?"""
        return self._due < 1

    def expected(self, more: float = 0) -> float:
        """Seconds until everything is done, and so many passes more."""
        return (self._due + more) * self._seconds / self._passes

    def due(self, passes: float) -> None:
        """So many more are to be made; fewer, where some are done or will not be."""
        with self._lock:
            self._due += passes

    def made(self, passes: float, seconds: float) -> None:
        """So many were made, in so many seconds."""
        self._passes += passes
        self._seconds += seconds
        if self._passes > WINDOW:
            self._seconds, self._passes = self._seconds / 2, self._passes / 2
