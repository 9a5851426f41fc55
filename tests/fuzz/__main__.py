"""python -m tests.fuzz --cases 100000 --seed 1: a campaign, in pieces; run it again to go on where it stopped."""

from __future__ import annotations

import argparse
import collections
import os
import random
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from tests.fuzz import results  # noqa: E402
from tests.fuzz.families import FAMILIES, Family  # noqa: E402
from tests.fuzz.worker import Tried, Worker  # noqa: E402

PIECE = 50  # cases drawn from one seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this long; the same command goes on")
    parser.add_argument("--workers", type=int, default=1, help="processes that try cases")
    parser.add_argument("--only", help="families, by commas")
    parser.add_argument("--again", action="store_true", help="first try again what was broken")
    parser.add_argument("--results", type=Path, default=results.FILE)
    asked = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    chosen = [f for f in FAMILIES if asked.only is None or f.name in asked.only.split(",")]
    end = time.monotonic() + asked.minutes * 60
    part = results.part_of(asked.results, "fuzz", asked.seed)
    state = results.read(asked.results, part, {"seed": asked.seed, "families": {}, "broken": [], "mended": []})
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.workers) as pool:
        workers = [Worker(Path(folder) / str(n)) for n in range(asked.workers)]
        campaign = Campaign(state, chosen, asked.cases, end, asked.results, part)
        try:
            if asked.again:
                again(workers[0], state)
                results.write(asked.results, part, state)
            list(pool.map(campaign.go_on, workers))
        finally:
            for worker in workers:
                worker.stop()
    print({f.name: state["families"].get(f.name, {}).get("ended") for f in chosen}, flush=True)


@dataclass
class Campaign:
    """What is to be tried, by any number of workers, and what came of it."""

    state: dict[str, Any]
    chosen: list[Family]
    cases: int
    end: float
    where: Path
    part: str
    begun: collections.Counter[str] = field(default_factory=collections.Counter)  # cases that workers are at
    lock: threading.Lock = field(default_factory=threading.Lock)

    def go_on(self, worker: Worker) -> None:
        """Pieces, until all cases are tried or the time is over."""
        while time.monotonic() < self.end and (piece := self._next()) is not None:
            name, size, number = piece
            tried = worker.ask(name, size, number)
            with self.lock:
                self.begun[name] -= size
                self._add(name, size, number, tried)

    def _next(self) -> tuple[str, int, int] | None:
        """A piece of the family that lags behind most: its name, its size and its seed."""
        total, known = sum(f.share for f in self.chosen), self.state["families"]
        with self.lock:
            done = {
                f.name: sum(known.get(f.name, {}).get("ended", {}).values()) + self.begun[f.name] for f in self.chosen
            }
            left = {f.name: round(self.cases * f.share / total) - done[f.name] for f in self.chosen}
            family = max(self.chosen, key=lambda f: left[f.name] / f.share)
            size = min(PIECE, left[family.name], max(1, round(PIECE * family.share)))
            if size <= 0:
                return None
            self.begun[family.name] += size
        number = random.Random(f"{self.state['seed']} {family.name} {done[family.name]}").getrandbits(32)
        return family.name, size, number

    def _add(self, name: str, size: int, number: int, tried: Tried) -> None:
        about = next(f.about for f in self.chosen if f.name == name)
        entry = self.state["families"].setdefault(name, {"about": about, "ended": {}, "seconds": 0.0})
        for how, n in tried.ended.items():
            entry["ended"][how] = entry["ended"].get(how, 0) + n
        entry["seconds"] = round(entry["seconds"] + tried.seconds, 1)
        for what in tried.broken:
            self.state["broken"].append({"family": name, "seed": number, "cases": size, "what": what})
            print(name, number, what[:1500], flush=True)
        results.write(self.where, self.part, self.state)


def again(worker: Worker, state: dict[str, Any]) -> None:
    """Try the pieces again that had something broken: what holds now was mended."""
    kept, held = [], {}
    for entry in state["broken"]:
        key = (entry["family"], entry["cases"], entry["seed"])
        if key not in held:
            held[key] = not worker.ask(*key).broken
        (state["mended"] if held[key] else kept).append(entry)
    state["broken"] = kept
    print(f"{len(state['mended'])} mended, {len(kept)} still broken", flush=True)


if __name__ == "__main__":
    main()
