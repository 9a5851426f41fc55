"""A live line about training, on stderr: loss, speed, BLEU and the time left."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self


class ProgressBar:
    """A rich progress bar, or a line now and then where stderr is no terminal."""

    def __init__(self, name: str, total: int, done: int, enabled: bool) -> None:
        self.name, self.total, self.done, self.enabled = name, total, done, enabled
        self.loss = float("nan")
        self.best = ""
        self._speed, self._tick, self._said = 0.0, time.monotonic(), time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self.enabled and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[info]}"),
            )
            self._bar = Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True))
            self._task = self._bar.add_task(self.name, total=self.total, completed=self.done, info="")
            self._bar.start()
        return self

    def step(self, loss: float, tokens: int) -> None:
        """One update is done."""
        self.done += 1
        self.loss = loss if self.loss != self.loss else 0.95 * self.loss + 0.05 * loss
        now = time.monotonic()
        speed = tokens / max(now - self._tick, 1e-9)
        self._speed = speed if not self._speed else 0.9 * self._speed + 0.1 * speed
        self._tick = now
        info = f"loss {self.loss:.3f}  {self._speed:,.0f} tokens/s  {self.best}"
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, info=info)
        elif self.enabled and now - self._said > 30:
            self._said = now
            print(f"{self.name}  {self.done}/{self.total}  {info}", file=sys.stderr, flush=True)

    def validated(self, record: dict[str, Any]) -> None:
        """Show the scores of a validation."""
        scores = "  ".join(f"{k} {v:.1f}" for k, v in record.get("bleu", {}).items())
        self.best = f"valid {record['valid']:.3f}  {scores}".strip()
        self._tick = time.monotonic()
        if self._bar is None and self.enabled:
            print(f"{self.name}  {self.done}/{self.total}  {self.best}", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
