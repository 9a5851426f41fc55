"""Faults at a random moment: signals from outside, a full or failing disk and a jumping clock from inside."""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from anyorder.cli import main

SIGNALS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
DISK = {"disk full": errno.ENOSPC, "disk error": errno.EIO}
FAULTS = [*SIGNALS, *DISK, "clock jump"]


class Disk:
    """Files of one folder whose n-th write fails, when half of it is written."""

    def __init__(self, folder: Path, at: int, error: int) -> None:
        self.folder, self.left, self.error = str(folder), at, error
        self.open, self.fsync = io.open, os.fsync

    def install(self) -> None:
        io.open = builtins.open = self._open  # type: ignore[assignment]
        os.fsync = self._fsync

    def strike(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(self.error, os.strerror(self.error))

    def _fsync(self, handle: Any) -> None:
        self.strike()
        self.fsync(handle)

    def _open(
        self, file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
        newline: Any = None, closefd: bool = True, opener: Any = None,
    ) -> IO[Any]:  # fmt: skip
        writes = set(mode) & set("wax+")
        named = os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else os.path.abspath(os.fspath(file))
        if not writes or not named.startswith(self.folder):
            return self.open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        raw.disk = self
        if "b" in mode and buffering == 0:
            return raw  # type: ignore[return-value]
        kind = io.BufferedRandom if "+" in mode else io.BufferedWriter
        buffered: Any = kind(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline)


class Raw(io.FileIO):
    """A file on that disk."""

    disk: Disk

    def write(self, content: Any) -> int:
        if self.disk.left == 1:
            super().write(memoryview(content)[: len(memoryview(content)) // 2])
        self.disk.strike()
        return super().write(content)


def _jumping(at: int, by: float) -> None:
    """After so many looks the clock is another one."""
    real, looks = time.time, [0]

    def now() -> float:
        looks[0] += 1
        return real() + (by if looks[0] > at else 0.0)

    time.time = now


def child(arguments: list[str], before: Callable[[], None], log: Path, imported: Path | None = None) -> int:
    """The program in a child of this process: its process id. What it imported is written down, if asked for."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
        before()
        main(arguments)
    except SystemExit as stop:
        if imported is not None:
            imported.write_text("\n".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(stop.code or 0))
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(99)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(98)


def disturbed(
    arguments: list[str], fault: str, draw: random.Random, folder: Path, seconds: float, log: Path, writes: int
) -> int:
    """Run once with a fault somewhere in the first `seconds`, or writes; the exit status, negative for a signal."""

    def before() -> None:
        if fault in DISK:
            Disk(folder, draw.randint(1, writes), DISK[fault]).install()
        elif fault == "clock jump":
            _jumping(draw.randint(0, 20), draw.choice([-1e9, -3600.0, 3600.0, 1e9]))

    moment = draw.uniform(0, seconds)
    pid = child(arguments, before, log)
    begun = time.monotonic()
    struck = fault not in SIGNALS
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        waited = time.monotonic() - begun
        if not struck and waited >= moment:
            os.kill(pid, SIGNALS[fault])
            struck = True
        if waited > 300:
            os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"{arguments} hangs after {fault}")
        time.sleep(0.002)
