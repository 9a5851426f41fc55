"""A crew that works in this process, and what a job wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyorder.cluster.crew import Event, Ready, Work, attempt


class Inline:
    """One worker: this process."""

    def __init__(self, work: Work) -> None:
        self.work, self.events = work, list[tuple[Any, Event]]()
        self.do: Any = None

    def size(self) -> int:
        return 1

    def hire(self) -> str:
        opened = attempt(self.work.open)
        self.do = getattr(opened, "result", None)
        self.events.append(("me", Ready("here") if self.do else opened))  # type: ignore[arg-type]
        return "me"

    def give(self, worker: str, part: Any) -> None:
        self.events.append((worker, attempt(lambda: self.do(part))))

    def wait(self, seconds: float) -> list[tuple[Any, Event]]:
        out, self.events = self.events, []
        return out

    def dismiss(self, worker: str) -> None:
        pass


def parts(output: Path) -> bytes:
    """All that a job wrote, in order."""
    return b"".join(path.read_bytes() for path in sorted(output.glob("part-*")))
