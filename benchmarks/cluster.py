"""Corpora on local processes and on Ray: scaling, overhead, time to the first part, memory; a table for the docs.

    python -m benchmarks.cluster train.de.gz --sentences 20000 -o docs/results/cluster.md

Each run is a process of its own; Ray's nodes have one CPU each, on loopback. Runs are kept in --runs, and a second
start does only those that are missing. Of a busy machine only ratios mean something.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.cluster.crew import Crew, Event, Ready
from anyorder.cluster.job import Job
from anyorder.cluster.processes import Processes
from anyorder.cluster.tasks import Task
from anyorder.files import digest

SHARD = 1 << 14  # bytes: small shards, so that the overhead of each is seen
NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20}


@dataclass(frozen=True)
class Watched:
    """Work whose workers write down the most memory that they had."""

    inner: Any
    folder: str

    def open(self) -> Callable[[Any], Any]:
        do = self.inner.open()

        def go(part: Any) -> Any:
            out = do(part)
            Path(self.folder, str(os.getpid())).write_text(str(_peak()))
            return out

        return go


class Clock:
    """A crew, with the time between giving a part and hearing of it that was not spent on the part."""

    def __init__(self, crew: Crew) -> None:
        self.crew, self.given, self.lost, self.ready = crew, dict[Any, float](), list[float](), list[float]()
        self.size, self.hire, self.dismiss = crew.size, crew.hire, crew.dismiss

    def give(self, worker: Any, part: Any) -> None:
        self.given[worker] = time.perf_counter()
        self.crew.give(worker, part)

    def wait(self, seconds: float) -> list[tuple[Any, Event]]:
        out = self.crew.wait(seconds)
        now = time.perf_counter()
        for worker, event in out:
            if isinstance(event, Ready):
                self.ready.append(now)
            elif worker in self.given:
                self.lost.append(now - self.given.pop(worker) - event.result.seconds)  # type: ignore[union-attr]
        return out


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB


def one(how: str, workers: int, source: Path, output: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One run."""
    begun, marks, clocks = time.perf_counter(), list[tuple[float, int]](), list[Clock]()
    task = Task("translate", options.model, "en", options={"order": options.order, "lengths": 1})
    memory = output.with_name(output.name + "-memory")
    memory.mkdir()

    def who(make: Any) -> Callable[[Any], Crew]:
        def hired(work: Any) -> Crew:
            clocks.append(Clock(make(Watched(work, str(memory)), workers)))
            return clocks[0]  # type: ignore[return-value]

        return hired

    def done(shard: Any, report: Any) -> None:
        marks.append((time.perf_counter(), report.rows))

    job = Job(task, str(source), str(output), size=SHARD)
    if how == "processes":
        outcome = job.run(who(Processes), done)
    else:
        import ray
        from ray.cluster_utils import Cluster

        from anyorder.cluster.on_ray import Actors

        cluster = Cluster(initialize_head=True, head_node_args=NODE)
        try:
            for _ in range(workers - 1):
                cluster.add_node(**NODE)
            ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            begun = time.perf_counter()  # Ray's own start is not counted
            outcome = job.run(who(Actors), done)
        finally:
            ray.shutdown()
            cluster.shutdown()
    first, last = marks[0], marks[-1]
    return {
        "how": how, "workers": workers, "rows": outcome.rows, "failed": len(outcome.failed), "shards": len(job.shards),
        "rate": sum(rows for _, rows in marks[1:]) / (last[0] - first[0]),
        "work_rate": outcome.rows / sum(r.seconds for r in outcome.reports.values()),
        "ready": clocks[0].ready[0] - begun, "first": first[0] - begun, "seconds": last[0] - begun,
        "lost": sum(clocks[0].lost), "driver": _peak(),
        "worker": max(float(file.read_text()) for file in memory.iterdir()), "load": os.getloadavg()[0],
        "parts": digest(*sorted(output.glob("part-*"))),
    }  # fmt: skip


def corpus(source: Path, sentences: int, path: Path) -> Path:
    """That many lines: those of the source, over and over."""
    data = source.read_bytes()
    lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8").splitlines()
    path.write_text("".join(lines[i % len(lines)] + "\n" for i in range(sentences)), encoding="utf-8")
    return path


def table(runs: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """What was measured, as Markdown."""
    base = next(r for r in runs if r["how"] == "processes" and r["workers"] == 1 and r["rows"] == options.sentences)
    lines = [
        "| | workers | sentences | sentences/s | of ideal | first part after | lost to sending, per sentence | "
        "driver | worker | load |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in runs:
        ideal = r["rate"] / r["workers"] / base["rate"]
        lines.append(
            f"| {r['how']} | {r['workers']} | {r['rows']:,} | {r['rate']:.1f} | {ideal:.0%} | {r['first']:.1f} s | "
            f"{1e6 * r['lost'] / r['rows']:.0f} µs | {r['driver']:.0f} MiB | {r['worker']:.0f} MiB | {r['load']:.1f} |"
        )
    same = {rows: len({r["parts"] for r in runs if r["rows"] == rows}) == 1 for rows in {r["rows"] for r in runs}}
    identical = "The parts of all runs over the same sentences are identical, byte for byte."
    return "\n".join([*lines, "", identical if all(same.values()) else "NOT all runs wrote the same parts."])


PAGE = """# Corpora on many workers, measured

Written by `python -m benchmarks.cluster TEXT --sentences {sentences} --order '{order}'`: German to English with
`{model}`, `{order}` at one length per sentence, one thread per worker, shards of 16 KiB, on {cores} cores that other
work shared (the column load: how many processes wanted them when a run ended), so read ratios, and no more into them
than that.

{table}

- *sentences/s* is counted from the first finished shard to the last, so it leaves starting out; *of ideal* is per
  worker, against one local process.
- *first part after* is from the start of the command (Ray's own start not counted) to the first part on disk: it is
  mostly the import of torch in the worker, loading the model, and one shard.
- *lost to sending* is the time between handing a shard to a worker and hearing that it is done, less the time the
  worker spent on it.
- *driver* and *worker* are the most memory that either had: ten times the input takes neither more.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="German sentences, a line each")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--order", default="mask-predict(2)")
    parser.add_argument("--runs", type=Path, default=Path("cluster-runs.jsonl"), help="where runs are kept")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.one:
        how, workers, rows = options.one.split(":")
        with tempfile.TemporaryDirectory() as folder:
            text = corpus(options.source, int(rows), Path(folder, "corpus.de"))
            print(json.dumps(one(how, int(workers), text, Path(folder, "out"), options)))
        return
    kept = [json.loads(line) for line in options.runs.read_text().splitlines()] if options.runs.exists() else []
    few, many = options.sentences // 10, options.sentences
    wanted = [
        ("processes", 1, few), ("ray", 1, few), ("processes", 1, many), ("ray", 1, many), ("ray", 2, many),
        ("processes", 2, many),
    ]  # fmt: skip
    environment = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    for how, workers, rows in wanted:
        if any((r["how"], r["workers"], r["rows"]) == (how, workers, rows) for r in kept):
            continue
        arguments = ["--model", options.model, "--order", options.order, "--one", f"{how}:{workers}:{rows}"]
        command = [sys.executable, "-m", "benchmarks.cluster", str(options.source), *arguments]
        said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        kept.append(json.loads(said.splitlines()[-1]))
        with options.runs.open("a") as file:
            file.write(json.dumps(kept[-1]) + "\n")
    kept.sort(key=lambda r: (r["rows"], r["how"], r["workers"]))
    page = PAGE.format(cores=os.cpu_count(), table=table(kept, options), **vars(options))
    if options.output:
        options.output.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
