"""One case: the program in this process, under a time and a memory limit, and whether its answer is one it may give."""

from __future__ import annotations

import contextlib
import io
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NamedTuple

from anyorder.cli import main

SECONDS, MEGABYTES = 20, 600  # a case may take that long, and that much more memory than all before it
ALLOWED = {0, 1, 2}


class Broken(AssertionError):
    """An answer that the program must never give."""


class Outcome(NamedTuple):
    """How a case ended."""

    code: int
    out: str
    err: str
    seconds: float


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Not longer, and not larger, than a case may be."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def late(_number: int, _frame: FrameType | None) -> None:
        raise Broken(f"not done after {SECONDS} seconds of computing")

    old = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if grown > MEGABYTES:
        raise Broken(f"took {grown:.0f} MB of memory")


def run(arguments: list[str], stdin: bytes = b"") -> Outcome:
    """A command line in this process; anything but a success or a message is `Broken`."""
    streams = [io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)), "utf-8")]
    streams += [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    saved, begun = (sys.stdin, sys.stdout, sys.stderr), time.process_time()
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        with limited():
            main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved
    out, err = (s.buffer.getvalue().decode("utf-8", "replace") for s in streams[1:])  # type: ignore[attr-defined]
    outcome = Outcome(code, out, err, time.process_time() - begun)
    if code not in ALLOWED or "Traceback" in err:
        raise Broken(f"{arguments!r} → {code}: {err[-2000:]}")
    if code and not err.strip():
        raise Broken(f"{arguments!r} → {code} without a word")
    if "\x1b" in err:
        raise Broken(f"{arguments!r} sends commands to the terminal: {err!r}")
    if outcome.seconds > SECONDS:
        raise Broken(f"{arguments!r} took {outcome.seconds:.0f} seconds")
    return outcome


def refused(errors: tuple[type[Exception], ...], work: Callable[[], object]) -> str:
    """ "ok", or the name of an error of the family; others are ours and go on."""
    try:
        with limited():
            work()
    except errors as error:
        if not str(error).strip():
            raise Broken("an error without a message") from error
        return type(error).__name__
    return "ok"
