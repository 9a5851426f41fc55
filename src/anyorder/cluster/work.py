"""What a worker does with a shard: see that the files are the same, read, do the task, write the part, then say so."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

from anyorder.cluster import formats, places
from anyorder.cluster.rows import Content
from anyorder.cluster.shards import Report, Shard
from anyorder.cluster.tasks import Opened, Task
from anyorder.errors import DataError
from anyorder.files import FileError, fingerprint
from anyorder.text.identity import identity

JOB, DONE, LOCK, MANIFEST = "job.json", "_done", "_lock", "manifest.json"
SAID = 20  # errors of rows that a report quotes


@dataclass(frozen=True)
class Work:
    """A task on shards, into a folder; sent to whoever works."""

    task: Task
    output: str
    kind: str  # format of the parts
    key: str  # of the job: what the folder must say too
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
