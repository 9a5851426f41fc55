"""One case: the program under a time and a memory limit, and whether its answer is one it may give."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from anyorder.cli import main

SECONDS, MEGABYTES = 20, 600  # a case may compute that long, and take that much more memory than there was before it
ALLOWED = {0, 1, 2}
SOURCE = Path(__file__).parents[2] / "src"


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
    before = _peak(anew=True)

    def late(_number: int, _frame: FrameType | None) -> None:
        raise Broken(f"not done after {SECONDS} seconds of computing")

    old = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
    grown = _peak() - before
    if grown > MEGABYTES:
        raise Broken(f"took {grown:.0f} MB of memory")


def _peak(anew: bool = False) -> float:
    """The most memory that this process ever had, in MB; `anew` forgets what was before, where the system can."""
    if anew:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    return _peak_of("self") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _peak_of(process: int | str) -> float:
    """The most memory that a process had since it began its program, in MB; 0 where the system does not say."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{process}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    return 0.0


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
    return judged(arguments, Outcome(code, out, err, time.process_time() - begun))


def run_apart(arguments: list[str], stdin: bytes, folder: Path) -> Outcome:
    """A command line in a process of its own, as a shell starts it."""
    words = [sys.executable, "-m", "anyorder", *(a.encode("utf-8", "surrogateescape") for a in arguments)]
    there = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(words, stdin=given, stdout=out, stderr=err, cwd=folder, env=there)
        end, peak = time.monotonic() + 30 * SECONDS, 0.0  # of waiting: the machine may be busy
        while not (found := os.wait4(process.pid, os.WNOHANG))[0]:
            if time.monotonic() > end:
                process.kill()
                process.wait()
                raise Broken(f"{arguments!r} hangs")
            peak = max(peak, _peak_of(process.pid))  # ru_maxrss counts what the process that forked it had, too
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(found[1])
        used = found[2]
        out.seek(0)
        err.seek(0)
        said = [file.read().decode("utf-8", "replace") for file in (out, err)]
    if peak > 2 * MEGABYTES:  # with everything that is imported
        raise Broken(f"{arguments!r} took {peak:.0f} MB of memory")
    return judged(arguments, Outcome(process.returncode, *said, used.ru_utime + used.ru_stime))


def judged(arguments: list[str], outcome: Outcome) -> Outcome:
    """The outcome, if it is one that the program may have."""
    code, err = outcome.code, outcome.err
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
