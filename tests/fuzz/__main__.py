"""python -m tests.fuzz --cases 100000 --seed 1: a campaign, in pieces; run it again to go on where it stopped."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from tests.fuzz import results  # noqa: E402
from tests.fuzz.families import FAMILIES, Family  # noqa: E402
from tests.fuzz.worker import Worker  # noqa: E402

PIECE = 50  # cases drawn from one seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this long; the same command goes on")
    parser.add_argument("--only", help="families, by commas")
    parser.add_argument("--again", action="store_true", help="first try again what was broken")
    parser.add_argument("--results", type=Path, default=results.FILE)
    asked = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    chosen = [f for f in FAMILIES if asked.only is None or f.name in asked.only.split(",")]
    end = time.monotonic() + asked.minutes * 60
    state = results.read(asked.results, "fuzz", {"seed": asked.seed, "families": {}, "broken": [], "mended": []})
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(Path(folder))
        try:
            if asked.again:
                again(worker, state)
                results.write(asked.results, "fuzz", state)
            go_on(worker, state, chosen, asked.cases, end, asked.results)
        finally:
            worker.stop()
    print({f.name: state["families"].get(f.name, {}).get("ended") for f in chosen}, flush=True)


def go_on(worker: Worker, state: dict[str, Any], chosen: list[Family], cases: int, end: float, where: Path) -> None:
    """Pieces of the family that lags behind most, until all cases are tried or the time is over."""
    total = sum(f.share for f in chosen)
    while time.monotonic() < end:
        done = {f.name: sum(state["families"].get(f.name, {}).get("ended", {}).values()) for f in chosen}
        left = {f.name: round(cases * f.share / total) - done[f.name] for f in chosen}
        family = max(chosen, key=lambda f: left[f.name] / f.share)
        if left[family.name] <= 0:
            return
        entry = state["families"].setdefault(family.name, {"about": family.about, "ended": {}, "seconds": 0.0})
        number = random.Random(f"{state['seed']} {family.name} {done[family.name]}").getrandbits(32)
        size = min(PIECE, left[family.name], max(1, round(PIECE * family.share)))
        tried = worker.ask(family.name, size, number)
        for how, n in tried.ended.items():
            entry["ended"][how] = entry["ended"].get(how, 0) + n
        entry["seconds"] = round(entry["seconds"] + tried.seconds, 1)
        for what in tried.broken:
            state["broken"].append({"family": family.name, "seed": number, "cases": size, "what": what})
            print(family.name, number, what[:1500], flush=True)
        results.write(where, "fuzz", state)


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
