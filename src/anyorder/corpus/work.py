"""The work of a worker on a shard: check that its file is unchanged, read, do the task, write the part and a record."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from anyorder.core import Cost
from anyorder.corpus import formats, places
from anyorder.corpus.formats import ENDINGS, Content, Span, size_of, spans
from anyorder.corpus.places import Input
from anyorder.corpus.task import Opened, Task
from anyorder.errors import DataError
from anyorder.files import FileError, fingerprint
from anyorder.pool import Pool, every
from anyorder.text.load import identity

JOB, DONE, LOCK, MANIFEST = "job.json", "_done", "_lock", "manifest.json"
SAID = 20  # errors of rows that a report quotes


@dataclass(frozen=True)
class Work:
    """A task on shards, into a folder; sent to every worker."""

    task: Task
    output: str
    kind: str  # format of the parts
    key: str  # of the job; job.json in the folder must have the same
    identity: dict[str, str]  # of the model, and of this package

    def open(self) -> Worker:
        """Load the model, on the machine that works."""
        here = identity(self.task.model, self.task.plan)
        for name, value in self.identity.items():
            if here[name] != value:
                raise FileError(
                    f"the {name} of {self.task.model} differs from machine to machine ({here[name]}, not {value}): "
                    "all must have the same"
                )
        seen = places.read(places.join(self.output, JOB))
        if seen is None or key_of(json.loads(seen)) != self.key:
            raise FileError(
                f"a machine does not see the folder {self.output} as the one that started the job does: use a file "
                "system that all machines share, or a store (s3://…)"
            )
        return Worker(self, self.task.open())


@dataclass
class Worker:
    """A process that has the model."""

    work: Work
    opened: Opened

    def __call__(self, shard: Shard) -> Report:
        """Do a shard: when its record is there, its part is there, and whole."""
        work, start = self.work, time.perf_counter()
        if places.look(shard.file.path) != shard.file:
            raise DataError(f"{shard.file.path} was changed while it was worked on")
        before = (self.opened.held.cost.canvases, self.opened.held.cost.head_rows)
        content = formats.read(shard.file.path, shard.span)
        new = done(self.opened, content)
        cost = self.opened.held.cost
        made = formats.write(work.kind, content, new, work.task.into, shard.file.path)
        errors = {i: e for i, e in enumerate(new[work.task.error]) if e}
        report = Report(
            len(content.records), len(errors), dict(list(errors.items())[:SAID]), len(made),
            hashlib.sha256(made).hexdigest(), cost.canvases - before[0], cost.head_rows - before[1],
            round(time.perf_counter() - start, 3),
        )  # fmt: skip
        places.write(places.join(work.output, shard.name(work.kind)), made)
        places.write(places.join(work.output, DONE, shard.record), json.dumps(report.said()).encode())
        return report


def done(opened: Opened, content: Content) -> dict[str, list[Any]]:
    """The new columns of a shard's rows; rows that could not be read have only their problem."""
    task, good = opened.task, [i for i in range(len(content.records)) if i not in content.problems]
    names = dict.fromkeys(name for i in good for name in content.records[i])
    columns = {name: [content.records[i].get(name) for i in good] for name in names}
    if task.pairs and set(names) == {"text"}:  # lines of text hold both, separated by a tab
        halves = [str(text).split("\t") for text in columns["text"]]
        columns = {
            task.column: [h[0] for h in halves],
            task.target: [h[1] if len(h) == 2 else None for h in halves],
        }
    found = opened(columns) if good else {name: [] for name in task.columns}
    out: dict[str, list[Any]] = {}
    for name, values in found.items():
        empty: Any = None if name.endswith("score") else ""
        out[name] = [empty] * len(content.records)
        for i, value in zip(good, values, strict=True):
            out[name][i] = value
    for i, problem in content.problems.items():
        out[task.error][i] = problem
    return out


def key_of(job: Any) -> str:
    """A short name of a job: the same for the same job."""
    return fingerprint(json.dumps(job, sort_keys=True))


SMALLEST, LARGEST = 1 << 16, 1 << 22  # bytes of text in a shard: soon something is done; not much is lost
ABOUT = 1000  # shards, where they would be neither too small nor too large


@dataclass(frozen=True)
class Shard:
    """A span of an input, and the number of the output's part that it becomes."""

    number: int
    file: Input
    span: Span
    size: int  # bytes of text, about

    def name(self, kind: str) -> str:
        """The file of its rows; names are in the order of the input."""
        return f"part-{self.number:06d}.{ENDINGS[kind]}"

    @property
    def record(self) -> str:
        """The file that says it is finished."""
        return f"{self.number:06d}.json"

    def __str__(self) -> str:
        return f"shard {self.number} ({self.file.path}, {self.span[0]:,} to {self.span[1]:,})"


@dataclass(frozen=True)
class Report:
    """The report on a shard: rows, errors, bytes, and cost."""

    rows: int
    failed: int  # rows with an error …
    errors: dict[int, str]  # … and the first of them: row from 0 → reason
    bytes: int
    sha256: str
    passes: int  # canvases through the model
    head_rows: int
    seconds: float

    def said(self) -> dict[str, Any]:
        """As JSON can say it."""
        return asdict(self)


def cut(inputs: list[Input], size: int | None = None) -> list[Shard]:
    """The shards of inputs, in order, of about `size` bytes of text each."""
    sizes = [size_of(file) for file in inputs]
    most = size or max(SMALLEST, min(LARGEST, sum(sizes) // ABOUT))
    shards: list[Shard] = []
    for file, total in zip(inputs, sizes, strict=True):
        some = list(spans(file, total, most))
        ends = sum(b - a for a, b in some) or 1
        shards += [Shard(len(shards) + i, file, s, (s[1] - s[0]) * total // ends) for i, s in enumerate(some)]
    return shards


CHUNK = 100  # texts that are sent at once


class Translated(NamedTuple):
    """Texts, their errors (empty where all is well), and the cost."""

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
