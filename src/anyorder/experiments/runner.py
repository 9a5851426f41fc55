"""Runs jobs in several processes, one thread each: the same numbers on any number of cores. Stops and resumes."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.data.test_sets import EvalSet, load_test_set
from anyorder.experiments.cells import Job, Store, run
from anyorder.experiments.generations import Watch, watch
from anyorder.models.catalog import found
from anyorder.models.machine import end_with_parent

if TYPE_CHECKING:
    from anyorder.text.translator import Translator

Task = Job | Watch
Spread = Callable[[Any, Sequence[Any]], Iterator[tuple[Any, Any]]]  # does the parts of a work, somewhere


@dataclass(frozen=True)
class Setting:
    """What every process needs to know."""

    model: str
    data: Path
    cache: Path
    identity: dict[str, str]

    @property
    def store(self) -> Store:
        """Where results are kept, by configuration."""
        return Store(self.cache, self.identity)

    def open(self) -> Callable[[Task], None]:
        """What does tasks, in a process that is nobody else's."""
        return _Worker(self).do


class _Worker:
    """What a process has loaded."""

    def __init__(self, setting: Setting) -> None:
        import torch

        from anyorder.text.load import load

        torch.set_num_threads(1)
        self.setting = setting
        self.translator: Translator = load(setting.model, kind="translation")
        self.corpora: dict[tuple[str, str], EvalSet] = {}

    def corpus(self, name: str, direction: str) -> EvalSet:
        if (name, direction) not in self.corpora:
            self.corpora[name, direction] = load_test_set(self.setting.data, name, direction)
        return self.corpora[name, direction]

    def do(self, task: Task) -> None:
        if isinstance(task, Job):
            run(task, self.setting.store, self.translator, self.corpus(task.cell.corpus, task.cell.direction))
        else:
            watch(task, self.setting.store, self.translator, self.corpus(task.corpus, task.direction))


_worker: _Worker | None = None  # of this process


def _start(setting: Setting) -> None:
    global _worker
    end_with_parent()
    _worker = _Worker(setting)


def _do(task: Task) -> None:
    assert _worker is not None
    _worker.do(task)


def run_all(
    tasks: Sequence[Task],
    setting: Setting,
    jobs: int | None = None,
    minutes: float | None = None,
    spread: Spread | None = None,
) -> int:
    """Do those tasks that are not done yet, in this order; returns how many are left when the time is over.

    On `jobs` processes, or wherever `spread` does the parts of a work: there what needs others' results comes last.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    store = setting.store
    todo = [task for task in dict.fromkeys(tasks) if not store.of(task).exists()]
    if not todo:
        return 0
    count = min(jobs or os.cpu_count() or 1, len(todo))
    end = None if minutes is None else time.monotonic() + 60 * minutes
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_stderr()) as bar:
        shown = bar.add_task("decoding", total=len(todo))
        done = _perform(todo, setting, count, end) if spread is None else _elsewhere(todo, setting, spread, end)
        for task in done:
            bar.update(shown, advance=1, description=task.title)
    return sum(not store.of(task).exists() for task in todo)


def _perform(todo: Sequence[Task], setting: Setting, count: int, end: float | None) -> Any:
    """Each task when it is done."""
    if count == 1:
        worker = _Worker(setting)
        for task in todo:
            if end is not None and time.monotonic() > end:
                return
            worker.do(task)
            yield task
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_start, initargs=(setting,)) as pool:
        waiting, running = list(todo), dict[Future[None], Task]()
        while waiting or running:
            late = end is not None and time.monotonic() > end
            while waiting and not late and len(running) < count:
                ready = _next(waiting, running.values())
                if ready is None:
                    break
                running[pool.submit(_do, ready)] = ready
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                future.result()
                yield task


def _elsewhere(todo: Sequence[Task], setting: Setting, spread: Spread, end: float | None) -> Iterator[Task]:
    """Each task when it is done, the scoring of candidates after all decoding."""
    folder = found(setting.model).path.absolute()
    setting = replace(setting, model=str(folder), data=setting.data.absolute(), cache=setting.cache.absolute())
    last = [task for task in todo if isinstance(task, Job) and task.criterion != "written"]
    for some in ([task for task in todo if task not in last], last):
        for task, _ in spread(setting, some):
            yield task
            if end is not None and time.monotonic() > end:
                return


def _next(waiting: list[Task], running: Any) -> Task | None:
    """The first task that waits for none of the running ones."""
    for i, task in enumerate(waiting):
        needed = task.decode if isinstance(task, Job) and task.criterion != "written" else None
        if needed is None or needed not in running:
            return waiting.pop(i)
    return None


def _stderr() -> Any:
    from rich.console import Console

    return Console(stderr=True)
