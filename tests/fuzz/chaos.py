"""python -m tests.fuzz.chaos --times 100: jobs are disturbed at random moments, resumed, and compared byte for byte."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import torch  # noqa: E402
from cli_support import build_translator  # noqa: E402
from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: E402

import anyorder.training.distill  # noqa: E402
from tests.fuzz import results  # noqa: E402
from tests.fuzz.faults import FAULTS, child, disturbed  # noqa: E402
from tests.fuzz.harness import Broken  # noqa: E402

LINES = "".join(f"Ein Hund läuft am Strand {i}.\n" if i % 7 else "\n" for i in range(60))
CONFIG = """
name = "chaos"
[data]
languages = ["de", "en"]
train = [{ copy = 16, seed = 1 }]
valid = [{ copy = 4, seed = 2 }]
[tokenizer]
vocabulary = 290
[model]
dim = 16
layers = 1
heads = 2
ffn = 32
positions = 48
[[stages]]
name = "masked"
objective = "masked-translation"
steps = 6
tokens = 128
validate = 3
bleu_sentences = 1
save_minutes = 0.0
warmup = 2
"""


computed = 0.0  # seconds of the process that was waited for last
TIMES = ("timings.md",)  # has seconds in it


@dataclass(frozen=True)
class Job:
    """A command that can be run again, and the files that count."""

    name: str
    first: Callable[[Path, Path], list[str]]  # (folder of models, folder of this run) → command line
    again: list[str]  # added when it goes on
    made: Callable[[Path], dict[str, bytes]]
    writes: int = 30  # the disk fails at one of that many


def _translate(models: Path, run: Path) -> list[str]:
    given = ["-m", str(models / "tiny"), "--steps", "2", "--lengths", "1", "-i", str(models / "in.de")]
    return ["translate", "-t", "en", *given, "-o", str(run / "out"), "--trace", str(run / "trace")]


def _train(models: Path, run: Path) -> list[str]:
    return ["train", str(models / "chaos.toml"), "--out", str(run / "out")]


def _distill(models: Path, run: Path) -> list[str]:
    return ["distill", str(models / "chaos.toml"), str(models / "tiny-ar"), str(run / "out")]


def _map(models: Path, run: Path) -> list[str]:
    how = ["-m", str(models / "tiny"), "--steps", "2", "--lengths", "1", "--workers", "2", "--shard-size", "250"]
    return ["map", "translate", str(models / "in.de"), str(run / "out"), "--to", "en", *how]


def _reproduce(models: Path, run: Path) -> list[str]:
    given = ["--data", str(models), "-m", str(models / "tiny"), "--others=", "--quick", "--jobs", "1"]
    return ["reproduce", *given, "--output", str(run / "out")]


def test_set(folder: Path) -> None:
    """A test set of two sentences, laid out as `anyorder reproduce` expects it."""
    (folder / "multi30k" / "parallel").mkdir(parents=True)
    (folder / "multi30k" / "tok").mkdir()
    for language, text in (("de", "Ein Hund.\nZwei.\n"), ("en", "A dog.\nTwo.\n")):
        for name in ("val", "test_2016_flickr"):
            packed = folder / "multi30k" / "parallel" / f"{name}.{language}.gz"
            packed.write_bytes(gzip.compress(text.encode(), mtime=0))
            tokens = folder / "multi30k" / "tok" / f"{name}.lc.norm.tok.{language}"
            tokens.write_text(text.lower().replace(".", " ."))


def _files(*patterns: str) -> Callable[[Path], dict[str, bytes]]:
    def found(run: Path) -> dict[str, bytes]:
        paths = [p for pattern in patterns for p in sorted(run.glob(pattern)) if p.is_file() and p.name not in TIMES]
        every = sorted(str(p.relative_to(run)) for p in run.rglob("*") if p.is_file())  # nothing half done stays
        return {str(p.relative_to(run)): p.read_bytes() for p in paths} | {"names of all files": repr(every).encode()}

    return found


JOBS = [
    Job("translate, a stream", _translate, ["--resume"], _files("out", "trace")),
    Job("train", _train, [], _files("out/masked/best/*", "out/tokenizer.json", "out/lengths.json")),
    Job("distill", _distill, [], _files("out/*.tsv.gz")),
    Job("map", _map, [], _files("out/part-*", "out/manifest.json"), writes=8),
    Job("reproduce", _reproduce, [], _files("out/*.md", "out/*.html", "out/*.svg", "out/results.jsonl")),
]


def undisturbed(job: Job, models: Path, run: Path, log: Path) -> tuple[dict[str, bytes], float]:
    """What the job makes, and how long it takes when this process has imported what it needs."""
    for _ in range(2):
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        begun = time.monotonic()
        code = _wait(child(job.first(models, run), lambda: None, log, models / "imported"))
        made = job.made(run)
        if code or len(made) < 2:
            raise Broken(f"{job.name} undisturbed: {code}, {sorted(made)}: {log.read_text()[-2000:]}")
        seconds = time.monotonic() - begun
        for name in (models / "imported").read_text().split("\n"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    return made, seconds


def _apart(work: Callable[[], object]) -> None:
    """Do something in a process of its own."""
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    if _wait(pid):
        raise Broken("the models could not be made")


def _wait(pid: int) -> int:
    global computed
    _, status, used = os.wait4(pid, 0)
    computed = used.ru_utime + used.ru_stime
    return os.waitstatus_to_exitcode(status)


def one(job: Job, fault: str, models: Path, expected: dict[str, bytes], seconds: float, draw: random.Random) -> Any:
    """(was it struck in the midst, is it equal in the end, what was wrong)."""
    with tempfile.TemporaryDirectory() as folder:
        run, log = Path(folder) / "run", Path(folder) / "log"
        run.mkdir()
        code = disturbed(job.first(models, run), fault, draw, run, seconds, log, job.writes)
        said = log.read_text(errors="replace")
        if code in (70, 98, 99) or "Traceback" in said:
            return True, False, f"{code}: {said[-1500:]}"
        struck = code != 0
        for _ in range(3):
            if job.made(run) == expected and code == 0:
                break
            code = _wait(child([*job.first(models, run), *job.again], lambda: None, log))
        made = job.made(run)
        if made == expected and code == 0:
            return struck, True, ""
        odd = [n for n in {**made, **expected} if made.get(n) != expected.get(n)]
        return struck, False, f"exit {code}, different: {odd}; {log.read_text(errors='replace')[-1500:]}"


def again(state: dict[str, Any], chosen: list[Job], models: Path, expected: dict[str, Any]) -> None:
    """Strike again at the moments at which something was broken: what holds now was mended."""
    for entry in list(state["broken"]):
        job = next((job for job in chosen if job.name == entry["job"]), None)
        if job is not None:
            draw = random.Random(f"{state['seed']} {job.name} {entry['fault']} {entry['n']}")
            if one(job, entry["fault"], models, *expected[job.name], draw)[1]:
                state["broken"].remove(entry)
                state["mended"].append(entry)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="of each fault, for each job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this long; the same command goes on")
    parser.add_argument("--only", help="jobs, by commas")
    parser.add_argument("--results", type=Path, default=results.FILE)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    fork = multiprocessing.get_context("fork")  # a worker of `map` need not load everything anew, either
    multiprocessing.get_context = lambda method=None: fork  # type: ignore[assignment]
    anyorder.training.distill.PART = 4
    ConstrainedLayoutEngine.execute = lambda self, figure: {}  # half of a report's time, and nothing to do with faults
    begun = time.monotonic()
    chosen = [job for job in JOBS if asked.only is None or job.name.split(",")[0] in asked.only.split(",")]
    part = results.part_of(asked.results, "chaos", asked.seed)
    state = results.read(asked.results, part, {"seed": asked.seed, "jobs": {}, "broken": [], "mended": []})
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder)
        _apart(lambda: build_translator(models / "tiny"))  # this process must have no threads when it forks
        (models / "in.de").write_text(LINES)
        (models / "chaos.toml").write_text(CONFIG)
        test_set(models)
        expected = {}
        for job in chosen:
            expected[job.name] = undisturbed(job, models, models / job.name, models / "log")
            print(
                f"{job.name}: {expected[job.name][1]:.1f} seconds undisturbed, {computed:.1f} of computing", flush=True
            )
            shutil.rmtree(models / job.name)
        again(state, chosen, models, expected)
        for n in range(asked.times):
            for job in chosen:
                for fault in FAULTS:
                    count = (
                        state["jobs"].setdefault(job.name, {}).setdefault(fault, {"times": 0, "struck": 0, "equal": 0})
                    )
                    if count["times"] > n or time.monotonic() - begun > asked.minutes * 60:
                        continue
                    draw = random.Random(f"{asked.seed} {job.name} {fault} {n}")
                    struck, equal, problem = one(job, fault, models, *expected[job.name], draw)
                    count["times"] += 1
                    count["struck"] += struck
                    count["equal"] += equal
                    if problem:
                        state["broken"].append({"job": job.name, "fault": fault, "n": n, "what": problem[:3000]})
                        print(state["broken"][-1], flush=True)
                results.write(asked.results, part, state)
    print(state["jobs"], flush=True)


if __name__ == "__main__":
    main()
