"""Translations of many texts on a pool of workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anyorder.cluster.tasks import Task
from anyorder.core import Cost
from anyorder.pool import Pool, every

CHUNK = 100  # texts that are sent at once


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
        opened = self.task.open()

        def go(part: tuple[int, list[str]]) -> Any:
            before = opened.held.cost
            columns = opened({self.task.column: part[1]})
            return columns, opened.held.cost - before

        return go


def translated(
    pool: Pool, task: Task, texts: Sequence[str], progress: Callable[[int], None] = lambda n: None
) -> Translated:
    """The translations of texts, in order."""
    chunks = [(i, list(texts[i : i + CHUNK])) for i in range(0, len(texts), CHUNK)]
    found: dict[int, dict[str, list[str]]] = {}
    cost = Cost()
    for (start, some), (columns, spent) in every(pool, _Texts(task), chunks):
        found[start] = columns
        cost.add(spent)
        progress(len(some))
    ordered = [columns for _, columns in sorted(found.items())]
    written, errors = ([value for columns in ordered for value in columns[name]] for name in (task.into, task.error))
    return Translated(written, errors, cost)
