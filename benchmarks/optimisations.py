"""What each optimisation gives, as ratios with both sides interleaved.

    python -m benchmarks.optimisations --paper -o docs/results/optimisations.md

Sizes: a model like the shipped one, and with --paper one of the paper's size. Single passes are measured in the middle
of a generation, where half of the target is written; whole generations are easy-first, T = L.
"""

from __future__ import annotations

import argparse
import copy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder import recipes
from anyorder.core import Cost, Reader, Symbols, begin
from anyorder.lab.plain import Job
from anyorder.lab.sides import decode_batch
from anyorder.machine import keep_freed_memory, side_by_side
from anyorder.models.architecture import Architecture
from anyorder.models.layout import as_read, to_int8
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source, SpecialIds
from anyorder.native import using
from anyorder.text.batching import batches

BAN = (0, 1, 2, 3)
SHIPPED = Architecture(8000, 192, 4, 4, 512, positions=128)
PAPER = Architecture(60_000, 1024, 6, 8, 4096)


def ratio(before: Callable[[], object], after: Callable[[], object], repeats: int) -> float:
    """How many times longer `before` takes: the best of `repeats` turns each."""
    best = [float("inf"), float("inf")]
    with torch.inference_mode():
        before(), after()
        for _ in range(repeats):
            for k, run in enumerate((before, after)):
                start = time.perf_counter()
                run()
                best[k] = min(best[k], time.perf_counter() - start)
    return best[0] / best[1]


def several_passes(logits: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
    """Entropy, log p of the symbol in place, best symbol: each by its own definition, pass after pass."""
    current = logits.log_softmax(-1).gather(-1, tokens)
    allowed = logits.index_fill(-1, torch.tensor(BAN), -1e4)
    logp = allowed.log_softmax(-1)
    return -(logp.exp() * logp).sum(-1), current, logp.argmax(-1), logp.amax(-1)


def arithmetics(architecture: Architecture) -> tuple[Any, Any, Any]:
    """A model as it is loaded, as torch alone would have it, and in int8."""
    torch.manual_seed(0)
    model = MaskedTranslation(architecture, SpecialIds(), ("de", "en")).eval().requires_grad_(False)
    rounded = to_int8(model)
    with using(None):
        plain = as_read(copy.deepcopy(model))
    return as_read(model), plain, rounded


def measure(architecture: Architecture, rows: int, repeats: int) -> list[tuple[str, float]]:
    """(optimisation, ratio) at one size."""
    model, plain, rounded = arithmetics(architecture)
    source = torch.randint(5, architecture.vocabulary, (rows, 15))
    tokens = torch.full((rows, 14), model.mask_id)
    tokens[:, ::2] = 7
    n, i = (tokens == model.mask_id).nonzero(as_tuple=True)
    state = begin(tokens, model.mask_id, model.pad_id)
    reader = Reader(model, Symbols(ban=BAN), Cost())
    with torch.inference_mode():
        context, other = model.encode(Source(source, 0, 1)), rounded.encode(Source(source, 0, 1))
        hidden = model.hidden(context, tokens)
        logits = model.logits(hidden[n, i])
        by_torch = plain.encode(Source(source, 0, 1))
    in_place = tokens[n, i, None]
    reads = frozenset({"entropy", "current"})

    def look(model: Any, context: Any) -> Callable[[], object]:
        reader = Reader(model, Symbols(ban=BAN), Cost())
        return lambda: reader.look(context, state, tokens == model.mask_id, reads=reads)

    return [
        (
            "kernels in C, not torch (a pass, its projection and statistics)",
            ratio(look(plain, by_torch), look(model, context), repeats),
        ),
        (
            "vocabulary projection only at masked positions",
            ratio(lambda: model.logits(hidden.flatten(0, 1)), lambda: model.logits(hidden[n, i]), repeats),
        ),
        (
            "all statistics from one softmax",
            ratio(
                lambda: several_passes(logits, in_place),
                lambda: reader.statistics(logits.clone(), state, tokens, n, i, reads, 0),
                repeats,
            ),
        ),
        (
            "last layer only at masked positions (of a whole pass)",
            ratio(lambda: model.states(context, tokens), lambda: model.hidden_at(context, tokens, n, i), repeats),
        ),
        (
            "last layer without the source (of a whole pass)",
            ratio(lambda: model.states(context, tokens), lambda: model.hidden(context, tokens), repeats),
        ),
        (
            "int8 (a pass and its projection; not exact)",
            ratio(
                lambda: model.logits(model.hidden_at(context, tokens, n, i)),
                lambda: rounded.logits(rounded.hidden_at(other, tokens, n, i)),
                repeats,
            ),
        ),
    ]


class Bulk:
    """Many sentences of made-up symbols, decoded in batches."""

    def __init__(self, architecture: Architecture, sentences: int) -> None:
        self.model, self.plain, _ = arithmetics(architecture)
        lengths = torch.randint(8, 22, (sentences, 2)).tolist()
        self.jobs = [Job(torch.randint(5, architecture.vocabulary, (s,)).tolist(), length) for s, length in lengths]
        self.sizes = [len(j.source) + j.length + 4 for j in self.jobs]
        self.steps = [j.length for j in self.jobs]

    def turn(self, parts: list[list[int]], model: Any = None, together: bool = True) -> Callable[[], object]:
        """All parts, side by side or one after the other."""
        chosen = model or self.model

        def run(part: list[int]) -> list[list[int]]:
            return decode_batch(chosen, [self.jobs[i] for i in part], (0, 1), BAN, recipes.easy_first)

        return lambda: list(side_by_side(run, parts) if together else map(run, parts))

    def measure(self, repeats: int) -> list[tuple[str, float]]:
        """(optimisation, ratio) of whole generations."""
        parts = batches(self.sizes, steps=self.steps)
        now = self.turn(parts)
        others = {
            "kernels in C, not torch": self.turn(parts, self.plain),
            "batches side by side, not one after the other": self.turn(parts, together=False),
            "batches of rows that end together, not of rows of like size": self.turn(batches(self.sizes)),
            "batches of 1,024 tokens, not of 8,192": self.turn(batches(self.sizes, 8192, steps=self.steps)),
        }
        return [(what, ratio(before, now, repeats)) for what, before in others.items()]


def seconds(keep: bool) -> float:
    """The time of a bulk in a process of its own, which keeps freed memory or gives it back."""
    here = [sys.executable, "-m", "benchmarks.optimisations", "--alone", "keep" if keep else "give-back"]
    return float(subprocess.run(here, capture_output=True, text=True, check=True).stdout)


def alone(keep: bool) -> float:
    if keep:
        keep_freed_memory()
    bulk = Bulk(SHIPPED, 120)
    turn = bulk.turn(batches(bulk.sizes, steps=bulk.steps))
    turn()
    start = time.perf_counter()
    turn()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--paper", action="store_true", help="also a model of 1024 units, 6 layers, 60k symbols")
    parser.add_argument("-o", "--output", type=Path, help="write the page here too")
    parser.add_argument("--alone", choices=["keep", "give-back"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.alone:
        print(alone(arguments.alone == "keep"))
        return
    keep_freed_memory()
    page = ["# What each optimisation gives", ""]
    command = f"python -m benchmarks.optimisations{' --paper' * arguments.paper}"
    page += [f"Written by `{command}`: {arguments.threads} threads, torch {torch.__version__}."]
    page += ["", "| optimisation | model | times faster |", "|---|---|---:|"]
    print("\n".join(page), flush=True)

    def add(what: str, model: str, times: float) -> None:
        page.append(f"| {what} | {model} | {times:.2f} |")
        print(page[-1], flush=True)

    for what, times in measure(SHIPPED, 64, 15) + Bulk(SHIPPED, 120).measure(3):
        add(what, "shipped", times)
    turns = [(seconds(False), seconds(True)) for _ in range(3)]
    add("freed memory kept, not given back", "shipped", min(a for a, _ in turns) / min(b for _, b in turns))
    if arguments.paper:
        for what, times in measure(PAPER, 16, 5):
            add(what, "paper's size", times)
    if arguments.output:
        arguments.output.write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
