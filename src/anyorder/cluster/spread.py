"""The project's own long jobs on a Ray cluster: parts of any work, and translations of many texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from anyorder.cluster.crew import CrewError, Failed, Work, run
from anyorder.cluster.on_ray import Actors, cluster
from anyorder.cluster.tasks import Task
from anyorder.core import Cost

CHUNK = 100  # texts that are sent at once
Spread = Callable[[Work, Sequence[Any]], Iterator[tuple[Any, Any]]]  # each part with its result, as they come


@contextmanager
def on_ray(address: str) -> Iterator[Spread]:
    """A cluster as something that does the parts of a work; a part that can not be done is an error."""

    def spread(work: Work, parts: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        for part, event in run(Actors(work), parts):
            if isinstance(event, Failed):
                raise CrewError(f"a part could not be done: {event.reason}")
            yield part, event.result

    with cluster(address):
        yield spread


class Translated(NamedTuple):
    """Texts with their errors (empty where all is well), and what they cost."""

    texts: list[str]
    errors: list[str]
    cost: Cost


@dataclass(frozen=True)
class _Texts:
    """Work on texts in chunks: (number, texts) → their columns, and the cost."""

    task: Task

    def open(self) -> Callable[[tuple[int, list[str]]], Any]:
        import torch

        torch.set_num_threads(1)
        opened = self.task.open()

        def go(part: tuple[int, list[str]]) -> Any:
            before = opened.held.cost
            was = (before.forwards, before.canvases, before.head_rows)
            columns = opened({self.task.column: part[1]})
            now = opened.held.cost
            spent = (now.forwards, now.canvases, now.head_rows)
            return columns, Cost(*(b - a for a, b in zip(was, spent, strict=True)))

        return go


def translated(
    spread: Spread, task: Task, texts: Sequence[str], progress: Callable[[int], None] = lambda n: None
) -> Translated:
    """The translations of texts, in order."""
    chunks = [(i, list(texts[i : i + CHUNK])) for i in range(0, len(texts), CHUNK)]
    found: dict[int, dict[str, list[str]]] = {}
    cost = Cost()
    for (start, some), (columns, spent) in spread(_Texts(task), chunks):
        found[start] = columns
        cost.add(spent)
        progress(len(some))
    every = [columns for _, columns in sorted(found.items())]
    written, errors = ([value for columns in every for value in columns[name]] for name in (task.into, task.error))
    return Translated(written, errors, cost)
