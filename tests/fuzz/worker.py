"""A process that tries cases, a piece at a time; one that hangs or dies is replaced, and its case is broken."""

from __future__ import annotations

import collections
import multiprocessing
import os
import resource
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.families import FAMILIES, Family
from tests.fuzz.harness import SECONDS
from tests.fuzz.world import World

ROOM = 4 << 30  # bytes that a worker may add to what it begins with: the machine is not ours alone
PATIENCE = 30 * SECONDS  # seconds of waiting for one case, on a machine that may be busy


class Tried(NamedTuple):
    """What came of a piece."""

    ended: dict[str, int]  # how, and how many
    broken: list[str]
    seconds: float  # of computing


def piece(world: World, family: Family, cases: int, number: int, note: Path | None = None) -> Tried:
    """So many cases from one seed: how they ended, and what was wrong. A case is noted before it is tried."""
    ended: collections.Counter[str] = collections.Counter()
    broken: list[str] = []
    begun = time.process_time()

    @seed(number)
    @settings(
        max_examples=cases, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(family.draw(world))
    def go(case: Any) -> None:
        if note is not None:
            note.write_text(repr(case)[:5000], encoding="utf-8", errors="backslashreplace")
        try:
            ended[family.check(world, case)] += 1
        except Exception as problem:
            ended["broken"] += 1
            frames = traceback.extract_tb(problem.__traceback__)[-3:]
            where = "; ".join(f"{f.filename.split('/')[-1]}:{f.lineno}" for f in frames)
            broken.append(f"{case!r}: {type(problem).__name__} {problem} ({where})"[:3000])

    go()
    world.models_untouched()
    return Tried(dict(ended), broken, time.process_time() - begun)


class Worker:
    """A process with models loaded; started when it is needed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.note, self.started = folder, folder / "case", 0
        self.process: Any = None
        self.pipe: Any = None

    def ask(self, family: str, cases: int, number: int) -> Tried:
        """What comes of a piece; of one that ends the process, that case alone."""
        if self.process is None:
            self._start()
        self.pipe.send((family, cases, number))
        seen, since, computed = 0, time.monotonic(), self._computed()
        while not self.pipe.poll(1.0):
            now = self.note.stat().st_mtime_ns if self.note.exists() else 0
            if now != seen:
                seen, since, computed = now, time.monotonic(), self._computed()
            elif time.monotonic() - since > PATIENCE or self._computed() - computed > 3 * SECONDS:
                return self._over("hangs")
        try:
            return Tried(*self.pipe.recv())
        except EOFError:
            return self._over("ended the process")

    def stop(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.started += 1
        where = self.folder / f"world-{self.started}"
        self.process = context.Process(target=_serve, args=(theirs, where, self.note), daemon=True)
        self.process.start()
        theirs.close()

    def _computed(self) -> float:
        """Seconds of computing of the process so far."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _over(self, how: str) -> Tried:
        self.process.join(1)
        status, case = self.process.exitcode, self.note.read_text(encoding="utf-8") if self.note.exists() else "?"
        self.stop()
        return Tried({"broken": 1}, [f"{case}: {how}{'' if status is None else f' ({status})'}"], 0.0)


def _serve(pipe: Any, folder: Path, note: Path) -> None:
    """A worker's life."""
    warnings.simplefilter("ignore")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    known = {f.name: f for f in FAMILIES}
    with World(folder) as world:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, resource.RLIM_INFINITY))
        while True:
            try:
                family, cases, number = pipe.recv()
            except EOFError:
                return
            pipe.send(piece(world, known[family], cases, number, note))
