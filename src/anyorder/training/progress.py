"""The live line about training: loss, speed, BLEU and the time left."""

from __future__ import annotations

import time
from typing import Any

from anyorder.progress import Bar


class ProgressBar(Bar):
    """A bar, or a line every half minute where standard error is no terminal."""

    def __init__(self, name: str, total: int, done: int, enabled: bool) -> None:
        super().__init__(name, total, done, every=30, shown=enabled)
        self.loss = float("nan")
        self.best = ""
        self._speed, self._tick = 0.0, time.monotonic()

    def step(self, loss: float, tokens: int) -> None:
        """One update is done."""
        self.loss = loss if self.loss != self.loss else 0.95 * self.loss + 0.05 * loss
        now = time.monotonic()
        speed = tokens / max(now - self._tick, 1e-9)
        self._speed = speed if not self._speed else 0.9 * self._speed + 0.1 * speed
        self._tick = now
        self.advance(1, f"loss {self.loss:.3f}  {self._speed:,.0f} tokens/s  {self.best}")

    def validated(self, record: dict[str, Any]) -> None:
        """Show the scores of a validation."""
        scores = "  ".join(f"{k} {v:.1f}" for k, v in record.get("bleu", {}).items())
        self.best = f"valid {record['valid']:.3f}  {scores}".strip()
        self._tick = time.monotonic()
        self.advance(0, self.best)
        self.say()
