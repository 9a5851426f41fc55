"""Is it as fast as it was? This state of the code beside an earlier one, the same weights, in turns.

    git worktree add BEFORE COMMIT
    python -m benchmarks.before TEXT BEFORE/src --model de-en-joint --their-model de-en -o docs/results/before.md

Each state is a process of its own, of one thread, that stays; every round asks both for each workload, who is first
changes, and what is reported is the ratio round by round. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WORKLOADS: dict[str, dict[str, Any]] = {  # options of `translate`, and how many sentences (negative: one at a time)
    "easy-first, T = L": {"order": "easy-first", "many": 12},
    "least2most, T = L": {"order": "least2most", "many": 12},
    "left2right, T = L": {"order": "left2right", "many": 12},
    "uniform, T = L": {"order": "uniform", "many": 12},
    "learned, T = L": {"order": "learned", "many": 12},
    "easy-first, T = 2L": {"order": "easy-first", "steps": "2L", "many": 6},
    "easy-first, beam 4": {"order": "easy-first", "beam": 4, "many": 4},
    "annealed(10)": {"order": "annealed(10)", "many": 12},
    "mask-predict(10)": {"order": "mask-predict(10)", "many": 12},
    "threshold(0.6)": {"order": "confidence", "count": "threshold(0.6)", "many": 16},
    "adaptive-gibbs(20)": {"order": "adaptive-gibbs(20)", "many": 6},
    "easy-first, pseudo log-likelihood": {"order": "easy-first", "rescore": "pll", "many": 6},
    "easy-first, one at a time": {"order": "easy-first", "many": -2},
    "annealed(10), one at a time": {"order": "annealed(10)", "many": -3},
}
SERVE = """
import json, sys, time, hashlib
import torch
torch.set_num_threads(1)
import anyorder
lines, model = json.loads(sys.stdin.readline())
translator = anyorder.load(model)
print("ready", anyorder.__file__, flush=True)
for line in sys.stdin:
    options = json.loads(line)
    many = options.pop("many")
    texts = [lines[i % len(lines)] for i in range(abs(many))]
    asked = [texts] if many > 0 else [[text] for text in texts]
    before, start = translator.cost.canvases, time.process_time()
    found = [t.text for some in asked for t in translator.translate(some, "en", source="de", **options)]
    seconds = time.process_time() - start
    digest = hashlib.sha256("\\n".join(found).encode()).hexdigest()[:16]
    print(json.dumps([seconds, translator.cost.canvases - before, digest]), flush=True)
"""
PAGE = """# As fast as before?

Written by `python -m benchmarks.before TEXT BEFORE/src --rounds {rounds}`: this state of the code beside that of
`{commit}`, from before the core was made exact in every option, with the same weights (the joint model), German to
English, one thread, {rounds} rounds in turns. Times are CPU seconds of the process; *ratio* is now / before, above 1
is slower: the median round by round with its quartiles, and that of the fastest rounds. Load when it ended: {load:.1f}.

{table}

The median of the medians is {median:.3f}.
"""


class Side:
    """A process with one state of the code."""

    def __init__(self, path: Path, lines: list[str], model: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(path.resolve()), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        said = self._ask([lines, model]).split()
        assert said[0] == "ready" and Path(said[1]).is_relative_to(path.resolve()), f"{said} is not in {path}"

    def _ask(self, what: Any) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def __call__(self, options: dict[str, Any]) -> tuple[float, int, str]:
        seconds, passes, digest = json.loads(self._ask(options))
        return seconds, passes, digest

    def end(self) -> None:
        """No more questions."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measured(now: Side, before: Side, rounds: int) -> dict[str, dict[str, Any]]:
    """Of each workload the ratios, and whether both do and write the same."""
    ratios: dict[str, list[float]] = {name: [] for name in WORKLOADS}
    best = {name: [float("inf")] * 2 for name in WORKLOADS}
    first = {name: (now(options), before(options)) for name, options in WORKLOADS.items()}
    for k in range(rounds):
        for name, options in WORKLOADS.items():
            sides = (now, before) if k % 2 else (before, now)
            seconds = {side: side(options)[0] for side in sides}
            ratios[name].append(seconds[now] / seconds[before])
            best[name] = [min(old, seconds[side]) for old, side in zip(best[name], (now, before), strict=True)]
        print(f"round {k + 1}", file=sys.stderr)
    return {
        name: {
            "ratio": statistics.median(some), "quartiles": statistics.quantiles(some, n=4), "seconds": best[name][1],
            "least": best[name][0] / best[name][1], "passes": first[name][0][1] / first[name][1][1],
            "same": first[name][0][2] == first[name][1][2],
        }
        for name, some in ratios.items()
    }  # fmt: skip


def table(found: dict[str, dict[str, Any]]) -> str:
    """The ratios as a table."""
    lines = [
        "| workload | before, s | ratio | quartiles | fastest | passes | same texts |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for name, m in found.items():
        low, _, high = m["quartiles"]
        lines.append(
            f"| {name} | {m['seconds']:.2f} | {m['ratio']:.3f} | {low:.3f}–{high:.3f} | {m['least']:.3f} | "
            f"{m['passes']:.2f} | {'yes' if m['same'] else 'no'} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="German sentences, a line each")
    parser.add_argument("before", type=Path, help="the src folder of the earlier state")
    parser.add_argument("--model", default="de-en-joint", help="of this state")
    parser.add_argument("--their-model", default="de-en", help="the same weights, in the earlier state")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with gzip.open(options.text, "rt", encoding="utf-8") as file:
        lines = [next(file).rstrip("\n") for _ in range(max(abs(w["many"]) for w in WORKLOADS.values()))]
    begun = time.perf_counter()
    now = Side(Path(__file__).parent.parent / "src", lines, options.model)
    before = Side(options.before, lines, options.their_model)
    found = measured(now, before, options.rounds)
    now.end(), before.end()
    commit = subprocess.run(
        ["git", "-C", str(options.before), "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    text = PAGE.format(
        rounds=options.rounds, commit=commit, load=os.getloadavg()[0], table=table(found),
        median=statistics.median(m["ratio"] for m in found.values()),
    )  # fmt: skip
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    print(text)
    print(f"{time.perf_counter() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
