"""A job: inputs in shards, an output folder with a part for each, in order, and a manifest.

    job.json       the task, the model, the input files: a folder belongs to one job, for ever
    _done/         a record a shard, written after its part: such a shard is finished
    part-*         the rows
    manifest.json  all parts in order, with their sizes and fingerprints; written at the end

One process at a time works on the folder. A job that was stopped goes on with the shards that have no record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from anyorder import pool
from anyorder.corpus import formats, places
from anyorder.corpus.task import Task, absolute
from anyorder.corpus.work import DONE, JOB, LOCK, MANIFEST, Report, Shard, Work, cut, key_of
from anyorder.errors import UsageError
from anyorder.files import ASIDE, FileError, agree, open_claimed
from anyorder.text.load import identity

VERSION = 1
FLAT = ("text", "csv", "fasta")  # formats of one value a field
Progress = Callable[[Shard, Report | str], None]  # told of every shard: its report, or why there is none


@dataclass
class Outcome:
    """The result of a job."""

    reports: dict[int, Report] = field(default_factory=dict)  # by the number of the shard
    failed: dict[int, str] = field(default_factory=dict)
    kept: int = 0  # shards that were finished before

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return sum(report.rows for report in self.reports.values())

    @property
    def bad_rows(self) -> int:
        """Rows that failed, of all shards."""
        return sum(report.failed for report in self.reports.values())


class Job:
    """A task on files, cut into shards; nothing is written before `run`."""

    def __init__(self, task: Task, place: str, output: str, kind: str | None = None, size: int | None = None) -> None:
        self.task, self.output = replace(task.check(), model=absolute(task.model)), places.absolute(output)
        self.inputs = places.find(place)
        places.apart(self.inputs, place, output)
        came = formats.one_kind(self.inputs)
        self.kind = kind or ("jsonl" if came == "fasta" and task.name == "score" else came)
        if self.kind not in (came, "text", "jsonl"):
            raise UsageError(f"rows of {came} can be written as {came}, text or jsonl, not as {self.kind}")
        if task.n > 1 and self.kind in FLAT:
            raise UsageError(f"{task.n} texts a row have no place in {self.kind}: write jsonl (--format jsonl)")
        self.shards = cut(self.inputs, size)
        self.identity = identity(task.model, task.plan)
        places_of = {file: i for i, file in enumerate(self.inputs)}
        self.said: dict[str, Any] = {
            "anyorder": VERSION, **self.identity, "task": _plain(asdict(self.task)), "format": self.kind,
            "inputs": [list(vars(file).values()) for file in self.inputs],
            "shards": [[places_of[s.file], *s.span] for s in self.shards],
        }  # fmt: skip

    @property
    def work(self) -> Work:
        """The work, as it is sent to each worker."""
        return Work(self.task, self.output, self.kind, key_of(self.said), self.identity)

    def run(self, workers: pool.Pool, progress: Progress = lambda shard, report: None) -> Outcome:
        """Do the shards that are not finished; then write the manifest."""
        with self._claimed():
            self._agree()
            outcome = self._finished()
            outcome.kept = len(outcome.reports)
            for shard in self.shards:
                if shard.number in outcome.reports:
                    progress(shard, outcome.reports[shard.number])
            todo = [shard for shard in self.shards if shard.number not in outcome.reports]
            if todo:
                places.remove(self._path(MANIFEST))
            for shard, result in pool.run(workers, self.work, todo):
                if isinstance(result, pool.Failed):
                    outcome.failed[shard.number] = result.reason
                else:
                    outcome.reports[shard.number] = result
                progress(shard, result.reason if isinstance(result, pool.Failed) else result)
            if not outcome.failed:
                places.write(self._path(MANIFEST), self._manifest(outcome))
        return outcome

    def _path(self, *names: str) -> str:
        return places.join(self.output, *names)

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """The folder is this job's while it runs; in stores nothing can be claimed, but two runs write the same."""
        if not places.is_local(self.output):
            yield
            return
        there = places.names(self.output)
        if there and JOB not in there and LOCK not in there:
            raise FileError(f"{self.output} is not empty, and no folder of `anyorder map`: choose another")
        places.make_folder(self.output)
        with open_claimed(Path(places.file_system(self._path(LOCK))[1])):
            yield

    def _agree(self) -> None:
        """Note the job in its folder; refuse the folder of another job."""
        places.make_folder(self._path(DONE))
        content = places.read(self._path(JOB))
        if content is None:
            places.write(self._path(JOB), json.dumps(self.said, ensure_ascii=False).encode())
            return
        try:
            said = json.loads(content)
            if said["anyorder"] != VERSION:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            what = f"{self._path(JOB)} is of no job that this version can go on with"
            raise FileError(f"{what}: choose another folder") from None
        agree(self.output, said, self.said, "Choose another folder, or remove this one")

    def _finished(self) -> Outcome:
        """The shards that have a record and an unchanged part; incomplete files of a killed run are removed."""
        outcome, there = Outcome(), set(places.names(self.output))
        records = set(places.names(self._path(DONE)))
        for path in [*((name,) for name in there), *((DONE, name) for name in records)]:
            if path[-1].startswith(ASIDE):
                places.remove(self._path(*path))
        for shard in self.shards:
            if shard.record not in records or shard.name(self.kind) not in there:
                continue
            report = _report(places.read(self._path(DONE, shard.record)))
            if report is None:
                continue
            part = places.read(self._path(shard.name(self.kind)))
            if part is None or hashlib.sha256(part).hexdigest() != report.sha256:
                raise FileError(
                    f"{self._path(shard.name(self.kind))} was changed after it was written: remove it, and it will be "
                    "written anew"
                )
            outcome.reports[shard.number] = report
        return outcome

    def _manifest(self, outcome: Outcome) -> bytes:
        """The same bytes on any workers, however often the job was stopped."""
        parts = [
            {
                "file": shard.name(self.kind), "input": shard.file.path, "span": list(shard.span),
                **{k: v for k, v in outcome.reports[shard.number].said().items() if k != "seconds"},
            }
            for shard in self.shards
        ]  # fmt: skip
        totals = {key: sum(part[key] for part in parts) for key in ("rows", "failed", "bytes", "passes", "head_rows")}
        return json.dumps({"anyorder": VERSION, **totals, "parts": parts}, indent=1, ensure_ascii=False).encode()


def _report(content: bytes | None) -> Report | None:
    """The report of a record; None if the record is damaged."""
    try:
        said = json.loads(content or b"")
        return Report(**{**said, "errors": {int(row): e for row, e in said["errors"].items()}})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _plain(task: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in task.items() if value is not None}
