"""Runs on a Ray cluster of two nodes that something happens to; what each wrote is compared with an undisturbed run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from anyorder.corpus.job import Job, Outcome
from anyorder.pool import Actors
from benchmarks.cluster_runs import ray_cluster, written
from tests import corpus_support
from tests.corpus_support import FULL, Changed, Faulty


def _run(job: Job, when: Callable[[int], None] = lambda done: None, **faults: Any) -> tuple[Outcome, int]:
    """The job with faults; `when` hears how many shards are done. Also how often a shard was begun in vain."""
    diary, counts = Path(f"{job.output}-diary"), iter(range(1, 1 << 30))
    pool = Changed(Actors(), lambda work: Faulty(work, diary, **faults))
    outcome = job.run(pool, lambda shard, report: when(next(counts)))
    return outcome, len(Faulty(None, diary).entries()) - len(outcome.reports)  # type: ignore[arg-type]


def _node(job: Job, third: int) -> str:
    with ray_cluster({}, send=(corpus_support.__name__,)) as cluster:

        def kill(done: int) -> None:
            if done == third:
                cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)

        _, again = _run(job, kill)
    return f"a node is killed with -9 after {third} shards: the other goes on; {again} begun anew"


def _memory(job: Job, third: int) -> str:
    with ray_cluster({}, send=(corpus_support.__name__,)):
        _, again = _run(job, dies_once=(third,), starves_once=(third + 1,))
    return (
        f"a worker is killed by the kernel, as for want of memory, and during another shard one gets no more memory: "
        f"{again} begun anew"
    )


def _disk(job: Job, third: int) -> str:
    with ray_cluster({"env_vars": {FULL: "1"}}, send=(corpus_support.__name__,)):
        _, again = _run(job)
    return f"one node can not write, as with a full disk: {again} attempts there fail, the other does all"


def _shard(job: Job, third: int) -> str:
    with ray_cluster({}, send=(corpus_support.__name__,)):
        outcome, again = _run(job, fails=(third,))
        assert list(outcome.failed) == [third] and not Path(job.output, "manifest.json").exists()
        _run(job)  # what made it fail is gone
    return f"one shard always fails: {again} attempts, then it is reported, all others done; run again, it is too"


def _driver(job: Job, third: int) -> str:
    task = job.task
    with ray_cluster({}) as cluster:
        command = [
            sys.executable, "-m", "anyorder", "map", "translate", job.inputs[0].path, job.output, "--to", "en",
            "-m", task.model, "--order", task.options["order"],
            *(["--lengths", "1"] if "lengths" in task.options else []),
            "--shard-size", str(job.shards[0].span[1]), "--ray", cluster.address,
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        done = partial(Path(job.output, "_done").glob, "*.json")
        while process.poll() is None and len(list(done())) < third:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -9, "it ended before it could be killed"
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    kept = said.split("shards, ")[1].split(" of them")[0]
    return f"the command is killed with -9 and run again: {kept} shards are kept, the rest is done"


FAULTS = {"node": _node, "driver": _driver, "memory": _memory, "disk": _disk, "shard": _shard}


def disturbed(fault: str, job: Job) -> dict[str, Any]:
    """A run with a fault: what happened, and the fingerprint of what was written."""
    third = max(1, len(job.shards) // 3)
    begun = time.perf_counter()
    said = FAULTS[fault](job, third)
    rows = sum(part["rows"] for part in _manifest(job)["parts"])
    return {
        "fault": fault, "rows": rows, "shards": len(job.shards), "said": said, "parts": written(job),
        "seconds": time.perf_counter() - begun,
    }  # fmt: skip


def _manifest(job: Job) -> Any:
    import json

    return json.loads(Path(job.output, "manifest.json").read_text())
