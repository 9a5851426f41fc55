"""One measured run of a corpus on local processes or on a Ray cluster of nodes of one CPU each, on loopback."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.cluster.crew import Crew, Event, Ready
from anyorder.cluster.job import Job
from anyorder.cluster.processes import Processes
from anyorder.cluster.tasks import Task

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
    marks, clocks = list[tuple[float, int]](), list[Clock]()
    memory = Path(f"{job.output}-memory")
    memory.mkdir()

    def who(make: Any) -> Callable[[Any], Any]:
        def hired(work: Any) -> Clock:
            clocks.append(Clock(make(Watched(work, str(memory)), workers)))
            return clocks[0]

        return hired

    def done(shard: Any, report: Any) -> None:
        marks.append((time.perf_counter(), report.rows))

    begun = time.perf_counter()
    if how == "processes":
        started = begun
        outcome = job.run(who(Processes), done)
    else:
        from anyorder.cluster.on_ray import Actors

        with ray_cluster(*[{}] * (workers - 1), send=(__name__,)):
            started = time.perf_counter()
            outcome = job.run(who(Actors), done)
    first, last = marks[0], marks[-1]
    said = [[line.split() for line in file.read_text().splitlines()] for file in memory.iterdir()]
    workers_memory = [[(int(rows), float(most)) for rows, most in lines] for lines in said]
    return {
        "how": how, "workers": workers, "rows": outcome.rows, "failed": len(outcome.failed), "shards": len(job.shards),
        "rate": sum(rows for _, rows in marks[1:]) / (last[0] - first[0]), "cluster": started - begun,
        "ready": clocks[0].ready[0] - started, "first": first[0] - started, "seconds": last[0] - started,
        "lost": sum(clocks[0].lost), "driver": _most(),
        "worker": max(most for parts in workers_memory for _, most in parts), "tenths": in_tenths(workers_memory[0]),
        "load": os.getloadavg()[0], "parts": written(job),
    }  # fmt: skip


def written(job: Job) -> str:
    """A fingerprint of all parts and the manifest, less the folder that the input was in."""
    folder = Path(job.output)
    manifest = (folder / "manifest.json").read_text(encoding="utf-8").replace(str(folder.parent), "")
    files = sorted(folder.glob("part-*"))
    return hashlib.sha256(b"".join([*(path.read_bytes() for path in files), manifest.encode()])).hexdigest()[:16]
