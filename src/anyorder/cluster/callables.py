"""Classes for `ray.data.Dataset.map_batches`: each actor makes one, which loads the model, and gives it its batches.

rows = ray.data.read_parquet("de").map_batches(Translate(to="en", order="mask-predict(4)"), concurrency=(1, 8))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from anyorder.cluster.tasks import Opened, Task
from anyorder.models.catalog import DEFAULT
from anyorder.options import Loading, known


class Mapper:
    """A task as Ray wants it: made once in each actor, then called with columns; gives these and the new ones."""

    task: ClassVar[Task]

    def __init__(self) -> None:
        self._opened: Opened = self.task.open()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch of columns with the task's answers as further columns."""
        columns = {name: _texts(batch[name]) for name in batch if name in self.task.needs}
        new: dict[str, Any] = self._opened({**dict.fromkeys(batch, ()), **columns})
        if self.task.n == 1:
            import numpy as np

            for name in new:
                if name.endswith("score"):  # what was not scored is NaN: a column of numbers in every batch
                    new[name] = np.array(new[name], dtype=np.float64)
        return {**batch, **new}


def _texts(values: Sequence[Any]) -> list[Any]:
    return [str(v) if isinstance(v, str) else v for v in values]  # NumPy has strings of its own


def _mapper(task: Task) -> type[Mapper]:
    return type(task.name.capitalize(), (Mapper,), {"task": task.check(), "__module__": __name__})


def parted(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a task as those of loading the model and those of a plan."""
    loading = {name: value for name, value in options.items() if name in known(Loading)}
    return {"loading": loading, "options": {name: v for name, v in options.items() if name not in loading}}


def Translate(
    to: str,
    *,
    model: str = DEFAULT,
    source: str | None = None,
    column: str = "text",
    into: str = "translation",
    error: str = "error",
    n: int = 1,
    **options: Any,
) -> type[Mapper]:
    """Translations of `column` into language `to`; options are those of a plan (order, beam …) and of loading."""
    return _mapper(Task("translate", model, to, source, column, "", into, error, n, **parted(options)))


def Fill(
    model: str, *, column: str = "text", into: str = "filled", error: str = "error", n: int = 1,
    **options: Any,
) -> type[Mapper]:  # fmt: skip
    """The masks of `column` filled jointly; options are those of `LanguageModel.fill`."""
    return _mapper(Task("fill", model, None, None, column, "", into, error, n, **parted(options)))


def Infill(
    model: str, length: int | Iterable[int] = range(1, 6), *, column: str = "text", into: str = "infilled",
    error: str = "error", n: int = 1, **options: Any,
) -> type[Mapper]:  # fmt: skip
    """The gaps {} of `column` written, each of those lengths tried; options are those of `LanguageModel.infill`."""
    lengths = (length,) if isinstance(length, int) else tuple(length)
    return _mapper(Task("infill", model, None, None, column, "", into, error, n, lengths, **parted(options)))


def Generate(
    model: str, length: int = 20, *, column: str = "text", into: str = "generated", error: str = "error", n: int = 1,
    **options: Any,
) -> type[Mapper]:  # fmt: skip
    """Texts of `length` tokens that go on from `column`; options are those of `LanguageModel.generate`."""
    return _mapper(Task("generate", model, None, None, column, "", into, error, n, (length,), **parted(options)))


def Score(
    model: str = DEFAULT, *, to: str | None = None, column: str = "text", target: str = "translation",
    into: str = "score", error: str = "error", **loading: Any,
) -> type[Mapper]:  # fmt: skip
    """Σ log p of the texts of `column`; with `to`, of the translations in `target` given `column`."""
    return _mapper(Task("score", model, to, None, column, target, into, error, loading=loading))
