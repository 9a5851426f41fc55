"""What a sentence costs: how time grows, memory, cold start, and where the time goes.

    python -m benchmarks.costs test.de -o docs/results/costs.md

Time grows with the length, the batch, the vocabulary, the length candidates and the beam. Medians of --repeats rounds.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from anyorder import load, recipes
from anyorder.data.read import read_texts
from anyorder.lab.plain import Job
from anyorder.lab.sides import decode_jobs
from benchmarks._profile import profile
from benchmarks._publish import publish

BAN, DIRECTION = (0, 1, 2, 3, 4), (0, 1)
Note = Callable[[str], None]
PROFILED = 160  # sentences


@dataclass(frozen=True)
class Growth:
    """Milliseconds a sentence at each value of one variable."""

    variable: str
    values: tuple[int, ...]
    milliseconds: tuple[float, ...]


def growth(model: Any, repeats: int, note: Note) -> list[Growth]:
    """Easy-first, T = L, random sources of 14 symbols, 16 sentences at one length where nothing else is said."""

    def jobs(sentences: int = 16, length: int = 14, copies: int = 1) -> list[Job]:
        generator = torch.Generator().manual_seed(sentences * 1000 + length)
        rows = torch.randint(5, model.architecture.vocabulary, (sentences, length), generator=generator).tolist()
        return [Job(row, length) for row in rows for _ in range(copies)]

    def many(k: int) -> Any:
        from anyorder.models.layout import as_read
        from anyorder.models.masked_translation import MaskedTranslation

        wide = replace(model.architecture, vocabulary=k)
        return as_read(MaskedTranslation(wide, model.special, model.languages).eval().requires_grad_(False))

    longest = model.architecture.positions - 2
    lengths = tuple(n for n in (7, 14, 28, 56, 112) if n <= longest)
    return [
        _measure("target length", lengths, lambda n: (model, jobs(length=n), 1, 16), repeats, note),
        _measure("sentences at once", (1, 4, 16, 64), lambda n: (model, jobs(n), 1, n), repeats, note),
        _measure("vocabulary", (2000, 8000, 32000), lambda n: (many(n), _within(jobs(), n), 1, 16), repeats, note),
        _measure("length candidates", (1, 2, 4, 8), lambda n: (model, jobs(copies=n), 1, 16), repeats, note),
        _measure("beam", (1, 2, 4, 8), lambda n: (model, jobs(), n, 16), repeats, note),
    ]


def _within(jobs: Sequence[Job], vocabulary: int) -> list[Job]:
    return [Job([5 + t % (vocabulary - 5) for t in job.source], job.length) for job in jobs]


def _measure(
    variable: str, values: tuple[int, ...], case: Callable[[int], tuple[Any, list[Job], int, int]], n: int, note: Note
) -> Growth:
    cases = [case(value) for value in values]
    times: list[list[float]] = [[] for _ in values]
    for turn in range(n + 1):  # the first is to warm up
        for value, (model, jobs, beam, sentences), some in zip(values, cases, times, strict=True):
            note(f"growth with {variable}: {value}")
            start = time.perf_counter()
            decode_jobs(model, jobs, DIRECTION, BAN, recipes.easy_first, beam)
            if turn:
                some.append(1000 * (time.perf_counter() - start) / sentences)
    return Growth(variable, values, tuple(statistics.median(some) for some in times))


def markdown(found: Sequence[Growth]) -> str:
    """A line a variable."""
    lines = ["| easy-first, T = L | milliseconds per sentence |", "|---|---|"]
    for g in found:
        cells = ", ".join(f"{v:,}: {ms:.3g}" for v, ms in zip(g.values, g.milliseconds, strict=True))
        lines.append(f"| {g.variable} | {cells} |")
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- from outside: whole processes

TORCH = "`import torch` alone"

# Decodes sentences at 4 lengths each, and says by how much the process has grown.
MEMORY = """
import pathlib, re, sys, torch
from anyorder import load, recipes
from anyorder.lab.sides import decode_jobs
from anyorder.lab.plain import Job
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a file with one sentence a line, plain or .gz")
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--to", default="en")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    translator: Any = load(options.model, kind="translation")
    note: Note = lambda text: print(text, file=sys.stderr)  # noqa: E731
    origin, to = translator.direction(options.to, None)
    encoded = translator.tokenizer.encode(read_texts(options.data).lines[:PROFILED], origin)
    jobs = [Job(e, len(e)) for e in encoded]
    where = (translator.languages.index(origin), translator.languages.index(to))
    note("profile")
    shares = profile(lambda: decode_jobs(translator.model, jobs, where, BAN, recipes.easy_first))
    told = f"torch {torch.__version__}, {platform.machine()} ({torch.backends.cpu.get_cpu_capability()})"
    page = [
        "# What a sentence costs",
        f"Written by `python -m benchmarks.costs DATA --model {options.model}`: medians of {options.repeats} rounds, "
        f"{options.threads} threads, {told}.",
        "## How cost grows",
        markdown(growth(translator.model, options.repeats, note)),
        "## Memory",
        memory(options.threads, note),
        "## Cold start",
        cold_start(options.repeats, note),
        "## Where the time goes: easy-first, T = L, bulk, one thread",
        shares,
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
