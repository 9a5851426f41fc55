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

from benchmarks._publish import publish

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
    "easy-first, one at a time": {"order": "easy-first", "many": -4},
    "annealed(10), one at a time": {"order": "annealed(10)", "many": -6},
}
TRIES = 5  # of each step
STEPS = {  # decoders whose steps are timed without a model, as both states can read them
    "left2right": "Decoder(Coordinates(position))",
    "uniform": "Decoder(Coordinates(random))",
    "easy-first": "Decoder(Coordinates(negent + logp))",
    "most confident, four at a time": "Decoder(Coordinates(confidence, fixed(4)))",
    "annealed(10)": "Decoder(Coordinates(logp, anneal(10), everywhere, reuse=True), steps=10)",
    "mask-predict(10)": "Decoder(Coordinates(stale, anneal(10), everywhere), steps=10)",
}
SERVE = """
import json, sys, time, hashlib
from collections import Counter
import torch
from torch.utils._python_dispatch import TorchDispatchMode
torch.set_num_threads(1)
import anyorder
from anyorder.core import *
from anyorder.core.model import NoContext

class Counted(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations = self.products = 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        name = func.overloadpacket.__name__
        if name in ("linear", "mm", "addmm"):
            x, w = args[1:3] if name == "addmm" else args[:2]
            self.products += x.numel() * (w.shape[0] if name == "linear" else w.shape[1])
        return func(*args, **(kwargs or {}))

class Idle:  # a model that takes no time
    mask_id, pad_id, table, states = 0, 1, torch.randn(64, 32).log_softmax(-1), torch.zeros(8, 16, 2)
    def hidden(self, context, tokens):
        return self.states[: len(tokens), : tokens.shape[1]]
    def logits(self, hidden):
        return self.table[: len(hidden)].clone()

def step(decoder):
    lengths = torch.tensor([14, 13, 13, 12])
    first = begin(canvas(lengths, 0, 1), 0, 1)
    def run():
        return sum(1 for _ in unroll(Idle(), NoContext(), first, decoder))
    run()
    with Counted() as counted:
        steps = run()
    fastest = float("inf")
    for _ in range(40):
        start = time.process_time()
        run()
        fastest = min(fastest, time.process_time() - start)
    return [fastest / steps * 1e6, counted.operations / steps]

lines, model = json.loads(sys.stdin.readline())
translator = anyorder.load(model)
print("ready", anyorder.__file__, flush=True)
for line in sys.stdin:
    options = json.loads(line)
    if "step" in options:
        print(json.dumps(step(eval(options["step"]))), flush=True)
        continue
    many, counting = options.pop("many"), options.pop("counting", False)
    texts = [lines[i % len(lines)] for i in range(abs(many))]
    asked = [texts] if many > 0 else [[text] for text in texts]
    def run():
        return [t.text for some in asked for t in translator.translate(some, "en", source="de", **options)]
    if counting:
        before = translator.cost.forwards, translator.cost.canvases
        with Counted() as counted:
            found = run()
        passes, canvases = translator.cost.forwards - before[0], translator.cost.canvases - before[1]
        digest = hashlib.sha256("\\n".join(found).encode()).hexdigest()[:16]
        print(json.dumps([passes, canvases, counted.operations, counted.products, digest]), flush=True)
    else:
        start = time.process_time()
        run()
        print(json.dumps(time.process_time() - start), flush=True)
"""
PAGE = """# As fast as before?

Written by `python -m benchmarks.before TEXT BEFORE/src --rounds {rounds}`: this state of the code beside that of
`{commit}`, from before the core was made exact in every option, with the same weights (the joint model), German to
English, one thread, {rounds} rounds in turns. Times are CPU seconds of the process; *ratio* is now / before, above 1
is slower: the median round by round with its quartiles, and that of the fastest rounds. Load when it ended: {load:.1f}.

{times}

The median of the medians is {median:.3f}.

## What was done

The same runs counted, which gives the same numbers whatever else the machine does: passes through the model and
operations on tensors in each (the model's included); then, as now / before, all operations, canvases run through the
model, and products of numbers within matrix products. Canvases whose sources are of unlike sizes run apart now, which
takes more passes with less padding in them: more operations in all, fewer products. Which of the two weighs more
depends on the machine.

{counts}

## A step without its model

Of one sentence, that is of four canvases of 12 to 14 positions, with a model that takes no time: what a step of the
core itself costs, in operations and in microseconds (the fastest of {tries} × 40 decodings).

{steps}
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

    def __call__(self, **options: Any) -> Any:
        """The answer to one question."""
        return json.loads(self._ask(options))

    def end(self) -> None:
        """No more questions."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def counted(now: Side, before: Side) -> dict[str, list[list[Any]]]:
    """Of each workload and both sides passes, canvases, operations, products, and a digest of the texts."""
    return {name: [side(**options, counting=True) for side in (now, before)] for name, options in WORKLOADS.items()}


def timed(now: Side, before: Side, rounds: int) -> dict[str, dict[str, Any]]:
    """Of each workload the ratios."""
    ratios: dict[str, list[float]] = {name: [] for name in WORKLOADS}
    best = {name: [float("inf")] * 2 for name in WORKLOADS}
    for k in range(rounds):
        for name, options in WORKLOADS.items():
            sides = (now, before) if k % 2 else (before, now)
            seconds = {side: side(**options) for side in sides}
            ratios[name].append(seconds[now] / seconds[before])
            best[name] = [min(old, seconds[side]) for old, side in zip(best[name], (now, before), strict=True)]
        print(f"round {k + 1}", file=sys.stderr)
    return {
        name: {
            "ratio": statistics.median(some), "quartiles": statistics.quantiles(some, n=4), "seconds": best[name][1],
            "least": best[name][0] / best[name][1],
        }
        for name, some in ratios.items()
    }  # fmt: skip


def stepped(now: Side, before: Side, tries: int) -> dict[str, list[list[float]]]:
    """Of each decoder of `STEPS` and both sides the fastest microseconds of a step, and its operations."""
    found: dict[str, list[list[float]]] = {}
    for name, decoder in STEPS.items():
        each = [[side(step=decoder) for side in (now, before)] for _ in range(tries)]
        found[name] = [min(some) for some in zip(*each, strict=True)]
    return found


def times_table(found: dict[str, dict[str, Any]]) -> str:
    """The ratios as a table."""
    lines = ["| workload | before, s | ratio | quartiles | fastest |", "|---|--:|--:|--:|--:|"]
    for name, m in found.items():
        low, _, high = m["quartiles"]
        lines.append(f"| {name} | {m['seconds']:.2f} | {m['ratio']:.3f} | {low:.3f}–{high:.3f} | {m['least']:.3f} |")
    return "\n".join(lines)


def counts_table(found: dict[str, list[list[Any]]]) -> str:
    """What both did as a table."""
    lines = [
        "| workload | passes | before | operations a pass | before | operations | canvases | products | same texts |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for name, ((passes, rows, operations, products, text), old) in found.items():
        same = "yes" if text == old[4] else "no"
        lines.append(
            f"| {name} | {passes} | {old[0]} | {operations / passes:.0f} | {old[2] / old[0]:.0f} | "
            f"{operations / old[2]:.2f} | {rows / old[1]:.2f} | {products / old[3]:.2f} | {same} |"
        )
    return "\n".join(lines)


def steps_table(found: dict[str, list[list[float]]]) -> str:
    """A step's cost as a table."""
    lines = ["| decoder | operations | before | µs | before | ratio |", "|---|--:|--:|--:|--:|--:|"]
    for name, ((time_, operations), (their_time, their_operations)) in found.items():
        lines.append(
            f"| {name} | {operations:.0f} | {their_operations:.0f} | {time_:.0f} | {their_time:.0f} | "
            f"{time_ / their_time:.2f} |"
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
    counts, steps = counted(now, before), stepped(now, before, TRIES)
    found = timed(now, before, options.rounds)
    now.end(), before.end()
    commit = subprocess.run(
        ["git", "-C", str(options.before), "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    text = PAGE.format(
        rounds=options.rounds, commit=commit, load=os.getloadavg()[0], times=times_table(found),
        median=statistics.median(m["ratio"] for m in found.values()), counts=counts_table(counts),
        steps=steps_table(steps), tries=TRIES,
    )  # fmt: skip
    publish([text], options.output)
    print(f"{time.perf_counter() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
