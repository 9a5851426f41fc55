"""One bar on standard error, where that is a terminal; elsewhere, if asked, a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self


class Bar:
    """Work of `total` steps (None: unknown) of which `done` are done; `every`: seconds between lines off a terminal."""

    def __init__(
        self, name: str, total: float | None, done: float = 0, every: float | None = None, shown: bool = True
    ) -> None:
        self.name, self.total, self.done, self.every, self.info = name, total, done, every, ""
        self.live, self.lines = shown and sys.stderr.isatty(), shown and every is not None
        self._said = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self.live:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            info = TextColumn("{task.fields[info]}")
            self._bar = Progress(*columns, info, console=Console(stderr=True), speed_estimate_period=600)
            self._task = self._bar.add_task(self.name, total=self.total, completed=self.done, info="")
            self._bar.start()
        return self

    def advance(self, steps: float = 1, info: str | None = None) -> None:
        """So many further steps are done; `info` stands beside the bar."""
        self.done += steps
        self.info = self.info if info is None else info
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, info=self.info)
        elif self.lines and self.every is not None and time.monotonic() - self._said > self.every:
            self.say()

    def say(self) -> None:
        """A line where there is no bar."""
        if self._bar is None and self.lines:
            self._said = time.monotonic()
            print(f"{self.name}  {self.done}/{self.total}  {self.info}", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
