"""Runs jobs on a pool of workers, one thread each: the same numbers on any number of cores. Stops and resumes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from anyorder.data.test_sets import load_test_set
from anyorder.lab.cells import Job, Store, run
from anyorder.lab.generations import Watch, watch
from anyorder.models.catalog import found
from anyorder.pool import HERE, Pool, every
from anyorder.progress import Bar

Task = Job | Watch


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

    def open(self) -> Callable[[list[Task]], None]:
        """The function that does tasks, one after the other, in a worker."""
        from anyorder.text.load import load

        translator = load(self.model, kind="translation")
        corpora = cache(lambda name, direction: load_test_set(self.data, name, direction))

        def do(tasks: list[Task]) -> None:
            for task in tasks:
                if isinstance(task, Watch):
                    watch(task, self.store, translator, corpora(task.corpus, task.direction))
                else:
                    run(task, self.store, translator, corpora(task.cell.corpus, task.cell.direction))

        return do


def run_all(tasks: Sequence[Task], setting: Setting, pool: Pool = HERE, minutes: float | None = None) -> int:
    """Do those tasks that are not done yet, in this order; returns how many are left when the time is over."""
    store = setting.store
    todo = [task for task in dict.fromkeys(tasks) if not store.of(task).exists()]
    if not todo:
        return 0
    end = None if minutes is None else time.monotonic() + 60 * minutes
    with Bar("decoding", len(todo)) as bar:
        for part, _ in every(pool, _anywhere(setting), _parts(todo), end):
            bar.advance(len(part), part[-1].title)
    return sum(not store.of(task).exists() for task in todo)


def _parts(todo: Sequence[Task]) -> list[list[Task]]:
    """Tasks that are done by one worker: a decoding, then the scorings of its candidates."""
    parts: dict[Task, list[Task]] = {}
    for task in todo:
        first = task.decode if isinstance(task, Job) else task
        parts.setdefault(first, [first] if first in todo else [])
        parts[first] += [task] if task != first else []
    return list(parts.values())


def _anywhere(setting: Setting) -> Setting:
    """The same with absolute paths, which other processes and machines understand."""
    folder = found(setting.model).path.absolute()
    return replace(setting, model=str(folder), data=setting.data.absolute(), cache=setting.cache.absolute())
