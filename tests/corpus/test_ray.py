"""On a real Ray cluster of several nodes on loopback: machines, workers and drivers are killed, disks are full; what
comes out is, byte for byte, what one process writes."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import corpus_support
import pytest
from corpus_support import FULL, Changed, Faulty, parts

from anyorder.corpus import Fill, Score, Translate
from anyorder.corpus.job import Job, Outcome
from anyorder.corpus.task import Task
from anyorder.pool import HERE, Actors

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'anyorder[cluster]'")
LINES = [f"Ein Hund läuft am Strand {i}." for i in range(160)]
NODE = {
    "num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20, "include_dashboard": False,
}  # fmt: skip


class Setting(NamedTuple):
    """A cluster with one node to begin with, a corpus, and what one process makes of it."""

    cluster: Any
    task: Task
    source: Path
    parts: bytes
    manifest: bytes

    def job(self, output: Path) -> Job:
        return Job(self.task, str(self.source), str(output), size=300)

    def run(self, output: Path, diary: Path, when: Callable[[int], None] = lambda done: None, **faults: Any) -> Outcome:
        """The job, with faults; `when` hears how many shards are done."""
        done = iter(range(1, 1000))
        return self.job(output).run(
            Changed(Actors(), lambda work: Faulty(work, diary, **faults)), lambda shard, report: when(next(done))
        )

    def same(self, output: Path) -> bool:
        return parts(output) == self.parts and (output / "manifest.json").read_bytes() == self.manifest


def _started(make: Any) -> Any:
    """A cluster of one node; Ray gives a node 30 seconds to start, which on a busy machine can take a second try."""
    for again in (True, True, False):
        try:
            return make(initialize_head=True, head_node_args=NODE)
        except Exception as error:
            if not again or "timed out" not in str(error):
                raise


@pytest.fixture(scope="module")
def setting(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    from ray.cluster_utils import Cluster

    folder = tmp_path_factory.mktemp("ray")
    source = folder / "in.de"
    source.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    task = Task("translate", str(models / "tiny"), "en", options={"steps": 2, "lengths": 1})
    Job(task, str(source), str(folder / "one"), size=300).run(HERE)
    cluster = _started(Cluster)
    try:
        ray.cloudpickle.register_pickle_by_value(corpus_support)  # the nodes do not have it
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield Setting(cluster, task, source, parts(folder / "one"), (folder / "one" / "manifest.json").read_bytes())
    finally:
        ray.shutdown()
        cluster.shutdown()
        ray.cloudpickle.unregister_pickle_by_value(corpus_support)


def test_a_node_is_killed_and_a_worker_dies_and_a_shard_always_fails(setting: Setting, tmp_path: Path) -> None:
    node = setting.cluster.add_node(**NODE)
    diary = tmp_path / "diary"
    seen: list[int] = []

    def kill(done: int) -> None:
        machines = {m for _, m, _ in Faulty(None, diary).entries()}  # type: ignore[arg-type]
        if len(machines) == 2 and done >= 4 and not seen:  # both are at work
            seen.append(done)
            setting.cluster.remove_node(node, allow_graceful=False)

    outcome = setting.run(tmp_path / "out", diary, kill, slow=0.2, fails=(5,), dies_once=(2,), starves_once=(1,))
    entries = Faulty(None, diary).entries()  # type: ignore[arg-type]
    assert seen and seen[0] < len(outcome.reports), "the node was not killed in the middle"
    assert outcome.failed.keys() == {5} and "always fails" in outcome.failed[5]
    for number, fault in ((2, "died-2"), (1, "starved-1")):
        assert (tmp_path / fault).exists() and [n for n, _, _ in entries].count(number) >= 2
    assert not (tmp_path / "out" / "manifest.json").exists()
    again = setting.job(tmp_path / "out").run(HERE)  # on one machine: it is the same job
    assert again.kept == len(again.reports) - 1 and setting.same(tmp_path / "out")


def test_a_full_disk_on_one_node(setting: Setting, tmp_path: Path) -> None:
    node = setting.cluster.add_node(**NODE, env_vars={FULL: "1"})
    try:
        outcome = setting.run(tmp_path / "out", tmp_path / "diary", slow=0.3)
    finally:
        setting.cluster.remove_node(node, allow_graceful=False)
    entries = Faulty(None, tmp_path / "diary").entries()  # type: ignore[arg-type]
    tried: dict[str, int] = {}
    for _, machine, _ in entries:
        tried[machine] = tried.get(machine, 0) + 1
    assert not outcome.failed and setting.same(tmp_path / "out")
    assert len(tried) == 2 and len(entries) > len(outcome.reports), "the full node never tried"
    assert sorted(tried.values())[1] == len(outcome.reports)  # all was done by the other


def test_the_driver_is_killed_and_run_again(setting: Setting, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "anyorder", "map", "translate", str(setting.source), str(out), "--to", "en",
        "-m", setting.task.model, "--steps", "2", "--lengths", "1", "--shard-size", "300",
        "--ray", setting.cluster.address,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(list(out.glob("_done/*.json"))) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = {p.name: p.stat().st_mtime_ns for p in out.glob("_done/*.json")}
    assert process.returncode == -9 and 2 <= len(done) < len(setting.job(out).shards)
    again = setting.run(out, tmp_path / "diary")
    assert again.kept >= len(done) and not again.failed and setting.same(out)
    assert all((out / "_done" / name).stat().st_mtime_ns == at for name, at in done.items())


def test_batches_of_a_dataset_of_rays(setting: Setting, models: Path) -> None:
    """As people's own pipelines use it: columns in and out, a bad row among good ones."""
    rows = [{"id": i, "text": text} for i, text in enumerate([*LINES[:5], "xyz " * 100])]
    made = Translate(to="en", model=setting.task.model, steps=2, lengths=1)
    found = ray.data.from_items(rows).map_batches(made, concurrency=(1, 2), num_cpus=0.4, batch_size=4).take_all()
    found.sort(key=lambda row: row["id"])
    wanted = [line.decode() for line in setting.parts.splitlines()[:5]]
    assert [row["translation"] for row in found[:5]] == wanted and not any(row["error"] for row in found[:5])
    assert found[5]["translation"] == "" and "split the sentence" in found[5]["error"]
    assert found[0]["translation_score"] < 0


def test_the_other_callables_by_hand(models: Path) -> None:
    bert = str(models / "bert")
    batch = {"id": [1, 2], "text": ["the [MASK] sat", "no"]}
    filled = Fill(bert)()(batch)
    assert filled["filled"][0].startswith("the ") and filled["error"][0] == "" and "no mask" in filled["error"][1]
    assert list(filled) == ["id", "text", "filled", "filled_score", "error"]
    scored = Score(bert)()({"text": ["the cat", "", None]})
    assert scored["score"][0] < 0 and scored["score"][1] != scored["score"][1] and scored["error"][2]


def test_distilled_parts_are_the_same_elsewhere(setting: Setting, tmp_path: Path) -> None:
    from anyorder.models.folder import ModelFolder
    from anyorder.training.config import Config, Data, Distillation, ParallelText, Sizes, Tokens
    from anyorder.training.distill import distill

    data = Data(languages=["de", "en"], train=[ParallelText(copy=30, seed=1)], valid=[ParallelText(copy=5, seed=2)])
    config = Config("test", data, Tokens(300), Sizes(dim=16, layers=1, heads=2, ffn=32, positions=24), [])
    folder = ModelFolder(Path(setting.task.model))
    here = distill(config, folder, tmp_path / "here", Distillation("x"))
    there = distill(config, folder, tmp_path / "there", Distillation("x"), Actors())
    assert [gzip.decompress(p.read_bytes()) for p in here] == [gzip.decompress(p.read_bytes()) for p in there]
    assert all(gzip.decompress(p.read_bytes()) for p in there)


def test_evaluating_is_spread(setting: Setting, tmp_path: Path) -> None:
    from anyorder.corpus.work import translated

    found = translated(Actors(), setting.task, [*LINES[:120], "xyz " * 100])
    assert [line.encode() for line in found.texts[:120]] == setting.parts.splitlines()[:120]
    assert "split the sentence" in found.errors[120] and found.cost.canvases >= 120


def test_the_cells_of_a_report_are_decoded_elsewhere(setting: Setting, tmp_path: Path) -> None:
    from anyorder.lab.cells import Cell, Job, identify
    from anyorder.lab.runner import Setting as Report
    from anyorder.lab.runner import run_all

    (tmp_path / "tatoeba").mkdir()
    with gzip.open(tmp_path / "tatoeba" / "test.de-en.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\tA dog.\n" for line in LINES[:4])
    cell = Cell("tatoeba-test", "de-en", "mask-predict(2)", lengths=2)
    tasks = [Job(cell, 0, 4, criterion) for criterion in ("written", "pll")]
    model = setting.task.model
    here, there = (Report(model, tmp_path, tmp_path / name, identify(model)) for name in ("here", "there"))
    assert run_all(tasks, here) == 0
    assert run_all(tasks[::-1], there, Actors()) == 0  # what scores others' candidates waits for them
    for task in tasks:
        chunks = [report.store.chunk(task) for report in (here, there)]
        assert chunks[0] and chunks[1] and chunks[0].candidates == chunks[1].candidates
        assert chunks[0].scores == chunks[1].scores and (chunks[0].candidates or chunks[0].scores)
