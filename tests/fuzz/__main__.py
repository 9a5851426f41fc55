"""python -m tests.fuzz --cases 100000 --seed 1: a campaign, in pieces; run it again to go on where it stopped."""

from __future__ import annotations

import argparse
import collections
import random
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from tests.fuzz import results  # noqa: E402
from tests.fuzz.families import FAMILIES, Family  # noqa: E402
from tests.fuzz.world import World  # noqa: E402

PIECE = 50  # cases drawn from one seed


def piece(world: World, family: Family, cases: int, number: int) -> tuple[collections.Counter[str], list[str]]:
    """So many cases from one seed: how they ended, and what was wrong."""
    ended: collections.Counter[str] = collections.Counter()
    broken: list[str] = []

    @seed(number)
    @settings(
        max_examples=cases, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(family.draw(world))
    def go(case: Any) -> None:
        try:
            ended[family.check(world, case)] += 1
        except Exception as problem:
            ended["broken"] += 1
            frames = traceback.extract_tb(problem.__traceback__)[-3:]
            where = "; ".join(f"{f.filename.split('/')[-1]}:{f.lineno}" for f in frames)
            broken.append(f"{family.name}, seed {number}: {case!r}: {type(problem).__name__} {problem} ({where})")

    go()
    return ended, broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this long; the same command goes on")
    parser.add_argument("--only", help="families, by commas")
    parser.add_argument("--results", type=Path, default=results.FILE)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [f for f in FAMILIES if asked.only is None or f.name in asked.only.split(",")]
    total = sum(f.share for f in chosen)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, World(Path(folder)) as world:
        state = results.read(asked.results, "fuzz", {"seed": asked.seed, "families": {}, "broken": []})
        while time.monotonic() - begun < asked.minutes * 60:
            done = {f.name: sum(state["families"].get(f.name, {}).get("ended", {}).values()) for f in chosen}
            left = {f.name: round(asked.cases * f.share / total) - done[f.name] for f in chosen}
            family = max(chosen, key=lambda f: left[f.name] / f.share)
            if left[family.name] <= 0:
                break
            entry = state["families"].setdefault(family.name, {"about": family.about, "ended": {}, "seconds": 0.0})
            started = time.process_time()
            number = random.Random(f"{asked.seed} {family.name} {done[family.name]}").getrandbits(32)
            ended, broken = piece(world, family, min(PIECE, left[family.name]), number)
            for how, n in ended.items():
                entry["ended"][how] = entry["ended"].get(how, 0) + n
            entry["seconds"] = round(entry["seconds"] + time.process_time() - started, 1)
            state["broken"] += broken
            world.models_untouched()
            results.write(asked.results, "fuzz", state)
            for line in broken:
                print(line[:1500], flush=True)
        print({f.name: state["families"].get(f.name, {}).get("ended") for f in chosen}, flush=True)


if __name__ == "__main__":
    main()
