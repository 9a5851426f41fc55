"""A task on rows: translate, fill, infill, generate or score. Small, checked early, sent to any machine.

`Task.open` loads the model; the `Opened` task takes columns and gives new ones. A row that fails has its reason in the
column `error`, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from anyorder.errors import MissingError, ModelError, TextError, TooMuchError, UsageError, first_line, no_memory
from anyorder.machine import Freed, keep_few_operations
from anyorder.models import catalog
from anyorder.models.catalog import DEFAULT
from anyorder.options import Loading, known
from anyorder.text.plan import Plan, planned
from anyorder.text.results import told

Name = Literal["translate", "fill", "infill", "generate", "score"]
INTO: dict[str, str] = {
    "translate": "translation", "fill": "filled", "infill": "infilled", "generate": "generated", "score": "score",
}  # fmt: skip
CHUNK = 1 << 15  # characters of the texts that are worked on at once: long texts come in fewer rows
FINAL = (UsageError, ModelError, MissingError)  # wrong for every row alike


class Answer(NamedTuple):
    """The answer to a row: texts, the best first, and their scores; or an error."""

    texts: Sequence[str] = ()
    scores: Sequence[float | None] = ()
    error: str = ""


@dataclass(frozen=True)
class Task:
    """What to do, with which model, from which column into which; `options` are those of a plan, `loading` those of
    loading the model."""

    name: Name
    model: str
    to: str | None = None  # language of translations that are made or scored
    source: str | None = None  # language that they are made from
    column: str = "text"
    target: str = "translation"  # of translations that are scored
    into: str = ""
    error: str = "error"
    n: int = 1  # texts a row; more than one come as lists
    length: tuple[int, ...] = (20,)  # of generated texts, or lengths that a gap may have
    loading: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "into", self.into or INTO[self.name])
        if self.name == "translate" and self.to is None:
            raise UsageError("say which language to translate into: to (--to)")
        if self.n < 1 or (self.n > 1 and self.name == "score"):
            gives = "one score" if self.n > 1 else "at least one text"
            raise UsageError(f"{self.name} gives {gives} a row, not {self.n}")
        if min(self.length, default=0) < 1:
            raise UsageError(f"lengths are at least 1, got {list(self.length)}")
        if len({self.column, *self.columns}) <= len(self.columns) or (self.pairs and self.target in self.columns):
            raise UsageError(f"the columns {self.column!r} and {', '.join(self.columns)} must have names of their own")

    @property
    def pairs(self) -> bool:
        """Is it translations that are scored?"""
        return self.name == "score" and self.to is not None

    @property
    def translates(self) -> bool:
        """Is it a translation model that is used?"""
        return self.name == "translate" or self.pairs

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (self.column, self.target) if self.pairs else (self.column,)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are added."""
        return (self.into, self.error) if self.name == "score" else (self.into, f"{self.into}_score", self.error)

    @property
    def plan(self) -> Plan:
        """How to generate, as the options say."""
        if self.name == "score":
            return Plan()
        return planned(self.name, None, self.options, **({"nbest": self.n} if self.name == "translate" else {}))

    def check(self) -> Task:
        """This task, if it makes sense; no model is loaded."""
        if self.name == "score" and self.options:
            raise UsageError(f"scoring writes nothing: {', '.join(self.options)} would have no effect")
        self.plan.check()
        return self

    def open(self) -> Opened:
        """Load the model."""
        from anyorder.text.load import load

        keep_few_operations()
        if self.translates:
            held: Any = load(self.model, kind="translation", **self.loading)
            try:
                held.direction(self.to, self.source)
            except TextError as error:
                raise UsageError(str(error)) from None
        else:
            loading = dict(self.loading)
            kind = "diffusion" if loading.pop("diffusion", False) else "language"
            held = load(self.model, kind=kind, **loading)  # type: ignore[call-overload]
        return Opened(self, held)


@dataclass
class Opened:
    """A task with its model: columns in, new columns out."""

    task: Task
    held: Any  # a Translator or a LanguageModel
    freed: Freed = field(default_factory=Freed)

    def __call__(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """The new columns of rows."""
        task = self.task
        taken = [name for name in task.columns if name in columns]
        if taken:
            raise UsageError(f"there is a column {taken[0]!r} already: choose another name for the new one (--into)")
        missing = [name for name in task.needs if name not in columns]
        if missing:
            raise UsageError(f"there is no column {missing[0]!r}; there are {', '.join(columns)}: choose with --column")
        answers: list[Answer] = []
        for rows in _chunks(columns[task.column]):
            answers += self.answers([tuple(columns[name][i] for name in task.needs) for i in rows])
            self.freed.used()  # a worker may live for days
        return columns_of(task, answers)

    def answers(self, rows: list[tuple[Any, ...]]) -> list[Answer]:
        """Each row's answer: all at once; where that fails one by one, to find the row that is wrong."""
        out = [_unfit(row, self.task) for row in rows]
        usable = [i for i, problem in enumerate(out) if problem is None]
        for i, answer in zip(usable, self._answers([rows[i] for i in usable]), strict=True):
            out[i] = answer
        return [answer or Answer() for answer in out]

    def _answers(self, rows: list[tuple[str, ...]]) -> list[Answer]:
        try:
            return DO[self.task.name](self, rows) if rows else []
        except Exception as error:
            if isinstance(error, FINAL) and not isinstance(error, TooMuchError):
                raise
            if len(rows) > 1:
                return [answer for row in rows for answer in self._answers([row])]
            if no_memory(error):  # the machine's fault, not the row's: another may have more, or this one later
                raise
            return [Answer(error=first_line(error))]

    def translate(self, rows: list[tuple[str, ...]]) -> list[Answer]:
        """Translations of a column."""
        task = self.task
        found = self.held.translate([text for (text,) in rows], task.to, source=task.source, plan=task.plan)
        return [Answer([h.text for h in t.hypotheses], [h.score for h in t.hypotheses], t.error or "") for t in found]

    def fill(self, rows: list[tuple[str, ...]]) -> list[Answer]:
        """Fillings of a column of texts with masks."""
        return [_filled(some) for some in self.held.fill([text for (text,) in rows], self.task.n, **self.task.options)]

    def infill(self, rows: list[tuple[str, ...]]) -> list[Answer]:
        """Fillings of a column of texts with gaps."""
        task = self.task
        return [_filled(self.held.infill(text, list(task.length), task.n, **task.options)) for (text,) in rows]

    def generate(self, rows: list[tuple[str, ...]]) -> list[Answer]:
        """Texts that begin with a column of prompts."""
        task = self.task
        return [_filled(self.held.generate(text, length=task.length[0], n=task.n, **task.options)) for (text,) in rows]

    def score(self, rows: list[tuple[str, ...]]) -> list[Answer]:
        """Scores of a column of texts, or of pairs."""
        if self.task.pairs:
            sources, targets = zip(*rows, strict=True)
            return [Answer(scores=[s]) for s in self.held.score(sources, targets, self.task.to)]
        return [Answer(scores=[s.total]) for s in self.held.score([text for (text,) in rows])]


DO: dict[str, Callable[[Opened, list[tuple[str, ...]]], list[Answer]]] = {
    "translate": Opened.translate, "fill": Opened.fill, "infill": Opened.infill, "generate": Opened.generate,
    "score": Opened.score,
}  # fmt: skip


def columns_of(task: Task, answers: Sequence[Answer]) -> dict[str, list[Any]]:
    """Answers as the columns that a task adds."""
    scores = [_one(a.scores, task.n, None) for a in answers]
    errors = [a.error for a in answers]
    if task.name == "score":
        return dict(zip(task.columns, (scores, errors), strict=True))
    return dict(zip(task.columns, ([_one(a.texts, task.n, "") for a in answers], scores, errors), strict=True))


def _one(values: Sequence[Any], n: int, none: Any) -> Any:
    return list(values) if n > 1 else values[0] if values else none


def _unfit(row: tuple[Any, ...], task: Task) -> Answer | None:
    """Why a row can not be worked on; an answer without text where it is blank, as a blank line stays blank."""
    for name, value in zip(task.needs, row, strict=True):
        if not isinstance(value, str):
            return Answer(error=f"the column {name!r} holds no text here: {type(value).__name__}")
    blank = not row[0].strip() and task.name != "generate"
    return Answer() if blank else None


def _filled(fillings: Sequence[Any]) -> Answer:
    return Answer([f.text for f in fillings], [told(f.score) for f in fillings])


def _chunks(texts: Sequence[Any]) -> Iterator[range]:
    """Rows in groups of some number of characters, in order."""
    start = size = 0
    for i, text in enumerate(texts):
        size += len(text) if isinstance(text, str) else 0
        if size >= CHUNK:
            yield range(start, i + 1)
            start, size = i + 1, 0
    if start < len(texts):
        yield range(start, len(texts))


def absolute(model: str) -> str:
    """A model by a name that means the same in every folder."""
    folder = catalog.locate(model)
    return model if folder is None or folder.path.parent == catalog.SHIPPED else str(folder.path.absolute())


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
                if name.endswith("score"):  # a missing score is NaN, so that the column holds numbers in every batch
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
