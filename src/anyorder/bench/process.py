"""What can only be measured from outside: peak memory of a process, and the time until it has started."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

Note = Callable[[str], None]
TORCH = "`import torch` alone"

# Decodes sentences at 4 lengths each, and says by how much the process has grown.
MEMORY = """
import pathlib, re, sys, torch
from anyorder import load, recipes
from anyorder.bench.ours import decode_jobs
from anyorder.bench.plain import Job
sentences, length, budget, threads = map(int, sys.argv[1:])
torch.set_num_threads(threads)
model = load("de-en").model
jobs = [Job(torch.randint(5, 8000, (length,)).tolist(), length) for _ in range(sentences) for _ in range(4)]
decode_jobs(model, jobs[:1], (0, 1), (0, 1, 2, 3, 4), recipes.easy_first)
status = pathlib.Path("/proc/self/status")
before = int(re.search(r"VmRSS:\\s+(\\d+)", status.read_text())[1])
pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak of loading
decode_jobs(model, jobs, (0, 1), (0, 1, 2, 3, 4), recipes.annealed(4), budget=budget)
print((int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) - before) / 1024)
"""


def _python(arguments: Sequence[str]) -> str:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


def memory(threads: int, note: Note) -> str:
    """Peak memory beyond the loaded model, by what is decoded and by the token budget, as Markdown."""
    lines = [
        "| sentences × 4 lengths | symbols each | token budget | MB beyond the loaded model |",
        "|---:|---:|---:|---:|",
    ]
    for sentences, length, budget in (
        (50, 14, 1024), (200, 14, 1024), (800, 14, 1024), (200, 56, 1024), (200, 14, 4096), (200, 14, 16384),
    ):  # fmt: skip
        note(f"memory: {sentences} sentences of {length} symbols, budget {budget}")
        grown = float(_python(["-c", MEMORY, *map(str, (sentences, length, budget, threads))]))
        lines.append(f"| {sentences} | {length} | {budget:,} | {grown:.0f} |")
    return "\n".join(lines) + "\n"


def cold_start(repeats: int, note: Note) -> str:
    """Seconds of whole processes, interleaved, the median of `repeats`, as Markdown."""
    sides = {
        TORCH: ["-c", "import torch"],
        "`anyorder --help`": ["-m", "anyorder", "--help"],
        "`anyorder translate`, one sentence": ["-m", "anyorder", "translate", "Ein Hund läuft.", "--to", "en"],
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, arguments in sides.items():
            note(f"cold start: {name}")
            start = time.perf_counter()
            _python(arguments)
            if turn:
                times[name].append(time.perf_counter() - start)
    median = {name: statistics.median(some) for name, some in times.items()}
    first = median[TORCH]
    lines = ["| process | seconds | × `import torch` |", "|---|---:|---:|"]
    lines += [f"| {name} | {seconds:.2f} | {seconds / first:.2f} |" for name, seconds in median.items()]
    return "\n".join(lines) + "\n"
