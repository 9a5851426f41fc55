"""A crew of processes on this machine, one thread each; one that dies is replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing import connection
from typing import Any

from anyorder.cluster.crew import Event, Failed, Lost, Ready, Work, attempt
from anyorder.files import ctrl_c_waits
from anyorder.models.machine import cores, end_with_parent

HERE = "this machine"


class Processes:
    """As many processes as asked for, or as there are cores."""

    def __init__(self, work: Work, count: int | None = None) -> None:
        self.work, self.count = work, count or cores()
        self._context = multiprocessing.get_context("spawn")
        self._pipes: dict[Any, Any] = {}  # process → our end of its pipe

    def size(self) -> int:
        """How many workers there may be."""
        return self.count

    def hire(self) -> Any:
        """A new process."""
        with ctrl_c_waits():  # within a fork nobody would hear it
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_serve, args=(theirs, self.work), daemon=True)
            process.start()
            theirs.close()  # or the end of the process would not be seen
            self._pipes[process] = ours
        return process

    def give(self, worker: Any, part: Any) -> None:
        """Send a part to a worker."""
        with contextlib.suppress(OSError):  # it is gone: `wait` will say so
            self._pipes[worker].send(part)

    def wait(self, seconds: float) -> list[tuple[Any, Event]]:
        """What has happened within some seconds: (worker, event)."""
        owners = {pipe: process for process, pipe in self._pipes.items()}
        out: list[tuple[Any, Event]] = []
        for ready in connection.wait(list(owners), seconds):
            pipe: Any = ready
            process = owners[pipe]
            try:
                out.append((process, pipe.recv()))
            except (EOFError, OSError):
                out.append((process, Lost(self._end(process))))
        return out

    def dismiss(self, worker: Any) -> None:
        """End a worker."""
        if worker in self._pipes:
            worker.terminate()
            self._end(worker)

    def _end(self, process: Any) -> str:
        """Let go of a process; how it ended."""
        self._pipes.pop(process).close()
        process.join(5)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = process.exitcode
        if code < 0:
            memory = ": was there enough memory?" if code == -signal.SIGKILL else ""
            return f"a process was ended by {signal.Signals(-code).name}{memory}"
        return f"a process ended by itself, with status {code}"


def _serve(pipe: Any, work: Work) -> None:
    """A worker's life."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started us, who ends us
    opened = attempt(work.open)
    if isinstance(opened, Failed):
        pipe.send(opened)
        return
    do: Callable[[Any], Any] = opened.result
    pipe.send(Ready(HERE))
    while True:
        try:
            part = pipe.recv()
        except EOFError:
            return
        pipe.send(attempt(partial(do, part)))
