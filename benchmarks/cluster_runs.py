"""One measured run of a corpus on local processes or on a Ray cluster of nodes of one CPU each, on loopback."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.corpus.job import Job
from anyorder.corpus.task import Task
from anyorder.pool import Actors, Pool, Processes, Worker

NODE = {
    "num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20, "include_dashboard": False,
}  # fmt: skip

TENTHS = 10


@dataclass(frozen=True)
class Watched:
    """Work whose workers write down, for each part, its rows and the most memory that they had meanwhile."""

    inner: Any
    folder: str

    def open(self) -> Callable[[Any], Any]:
        do = self.inner.open()

        def go(part: Any) -> Any:
            out = do(part)
            with Path(self.folder, str(os.getpid())).open("a") as file:
                file.write(f"{out.rows} {_most()}\n")
            Path("/proc/self/clear_refs").write_text("5")  # what follows has a most of its own
            return out

        return go


class Clock:
    """A pool, with the time between giving a part and hearing of it that was not spent on the part."""

    def __init__(self, pool: Pool, change: Callable[[Any], Any]) -> None:
        self.pool, self.change, self.lost, self.ready = pool, change, list[float](), list[float]()
        self.size = pool.size

    def start(self, work: Any) -> Worker:
        return Timed(self, self.pool.start(self.change(work)))


class Timed:
    """A worker of that pool."""

    def __init__(self, clock: Clock, worker: Worker) -> None:
        self.clock, self.worker, self.end = clock, worker, worker.end

    def ready(self) -> Future[str]:
        future = self.worker.ready()
        future.add_done_callback(lambda done: self.clock.ready.append(time.perf_counter()))
        return future

    def do(self, part: Any) -> Future[Any]:
        begun, future = time.perf_counter(), self.worker.do(part)
        future.add_done_callback(lambda done: self._heard(time.perf_counter() - begun, done))
        return future

    def _heard(self, seconds: float, done: Future[Any]) -> None:
        if done.exception() is None:
            self.clock.lost.append(seconds - done.result().seconds)


def _most() -> float:
    """The most memory that this process had, in MiB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def in_tenths(parts: list[tuple[int, float]]) -> list[float]:
    """The most memory in each tenth of a worker's rows, from (rows, most) of its parts."""
    total, done, out = sum(rows for rows, _ in parts), 0, [0.0] * TENTHS
    for rows, most in parts:
        tenth = TENTHS * done // total
        out[tenth] = max(out[tenth], most)
        done += rows
    return out


def job_of(source: Path, output: Path, model: str, order: str, shard_size: int) -> Job:
    """German to English; of orders that need a length one per sentence."""
    task = Task("translate", model, "en", options={"order": order} | ({} if order == "forwards" else {"lengths": 1}))
    return Job(task, str(source), str(output), size=shard_size)


@contextmanager
def ray_cluster(*nodes: dict[str, Any], send: tuple[str, ...] = ()) -> Iterator[Any]:
    """A head and further nodes; modules of the names in `send` go to the nodes with what uses them."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  as our own processes; its default is 15
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        for node in nodes:
            cluster.add_node(**NODE, **node)
        for name in send:
            ray.cloudpickle.register_pickle_by_value(sys.modules[name])
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def measured(how: str, workers: int, job: Job) -> dict[str, Any]:
    """One run, from the moment that a command has its cluster, and what it took."""
    marks = list[tuple[float, int]]()
    memory = Path(f"{job.output}-memory")
    memory.mkdir()

    def watched(pool: Pool) -> Clock:
        return Clock(pool, lambda work: Watched(work, str(memory)))

    def done(shard: Any, report: Any) -> None:
        marks.append((time.perf_counter(), report.rows))

    begun = time.perf_counter()
    if how == "processes":
        started = begun
        clock = watched(Processes(workers))
        outcome = job.run(clock, done)
    else:
        with ray_cluster(*[{}] * (workers - 1), send=(__name__,)):
            started = time.perf_counter()
            clock = watched(Actors(workers))
            outcome = job.run(clock, done)
    first, last = marks[0], marks[-1]
    said = [[line.split() for line in file.read_text().splitlines()] for file in memory.iterdir()]
    workers_memory = [[(int(rows), float(most)) for rows, most in lines] for lines in said]
    return {
        "how": how, "workers": workers, "rows": outcome.rows, "failed": len(outcome.failed), "shards": len(job.shards),
        "rate": sum(rows for _, rows in marks[1:]) / (last[0] - first[0]), "cluster": started - begun,
        "ready": clock.ready[0] - started, "first": first[0] - started, "seconds": last[0] - started,
        "lost": sum(clock.lost), "driver": _most(),
        "worker": max(most for parts in workers_memory for _, most in parts), "tenths": in_tenths(workers_memory[0]),
        "load": os.getloadavg()[0], "parts": written(job),
    }  # fmt: skip


def written(job: Job) -> str:
    """A fingerprint of all parts and the manifest, less the folder that the input was in."""
    folder = Path(job.output)
    manifest = (folder / "manifest.json").read_text(encoding="utf-8").replace(str(folder.parent), "")
    files = sorted(folder.glob("part-*"))
    return hashlib.sha256(b"".join([*(path.read_bytes() for path in files), manifest.encode()])).hexdigest()[:16]
