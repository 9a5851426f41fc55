"""How fast training is, how much of the machine's matrix-product rate it reaches, and where its time goes.

    python -m benchmarks.studies.training -o docs/results/training-speed.md

The rate of the machine is measured on the very matrix shapes of training, interleaved with training updates, so that
other load on the machine hits both alike. Sizes are the shipped models' unless others are given.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from anyorder.data.ragged import Ragged
from anyorder.lab.tables import table
from anyorder.machine import keep_freed_memory
from anyorder.models.architecture import Architecture
from anyorder.models.translation import SpecialIds
from anyorder.models.weights import classes
from anyorder.training.masking import Corruption
from anyorder.training.objectives import Corpus
from anyorder.training.optimizer import optimizers
from anyorder.training.run import OBJECTIVES
from benchmarks._profile import profile
from benchmarks._publish import publish

Update = Callable[[], None]
INTRODUCTION = """Written by `python -m benchmarks.studies.training`: {pairs} pairs of {length} symbols per batch, {dim}
units, {layers} layers (in encoder and decoder each, where there are two), a vocabulary of {vocabulary:,}, {optimizer},
{threads} thread{s}, dropout {dropout:g}. Tokens are those that run through the model: a source once, each copy of its
target too. *Machine* is the rate of the same matrix products alone, measured in turn with the updates; *share* is how
much of it the products of an update reach, all else that an update does included in its time (the optimizer's own
products too, which do not count). Medians of {updates} updates."""
PROFILED = "On one thread. Products that orthogonalise Muon's steps are among the matrix products."
KINDS = {  # of operations in an update; the first that is part of an operation's name
    "matrix products": ("addmm", "aten::mm", "bmm", "linear"),
    "attention": ("scaled_dot_product", "flash_attention"),
    "softmax and cross-entropy": ("softmax", "nll", "logsumexp", "exp"),
    "GELU": ("gelu",),
    "layer norm": ("layer_norm",),
    "other operations of the optimizer": ("adam", "foreach", "norm"),
    "copies, sums and gathers": ("copy", "index", "gather", "cat", "scatter", "add", "sum", "mul", "embedding"),
}


class Learned(NamedTuple):
    """A row: an objective and how its batches are made."""

    name: str
    kind: str
    corruption: Corruption


def objectives(copies: int) -> list[Learned]:
    """What the shipped models were trained for."""
    half = 0.5 if copies > 1 else 0.0
    return [
        Learned("masked-translation", "masked-translation", Corruption()),
        Learned("autoregressive", "autoregressive", Corruption()),
        Learned(f"cmlm, {copies} copies", "cmlm", Corruption(copies=copies, own=half)),
        Learned(f"cmlm, {copies} copies, half forwards too", "cmlm", Corruption(copies=copies, own=half, forwards=0.5)),
    ]


def products(
    kind: str, a: Architecture, source: int, target: int, read: int, predicted: int, forwards: int
) -> list[tuple[int, int, int]]:
    """The (rows, in, out) of each forward matrix product of a batch; a backward pass does each twice more.

    A masked model's last layer has keys and values everywhere, the rest of it at `read` columns only. `target` and
    `read` count all masked copies; `forwards` columns are learned from left to right.
    """
    layer = [(a.dim, 3 * a.dim), (a.dim, a.dim), (a.dim, a.ffn), (a.ffn, a.dim)]
    head = [(predicted, a.dim, a.vocabulary)]
    last = [(a.dim, a.dim), (a.dim, a.dim), (a.dim, a.ffn), (a.ffn, a.dim)]
    if kind == "masked-translation":
        whole = [(source + target, i, o) for i, o in layer] * (a.layers - 1) + [(source + target, a.dim, 2 * a.dim)]
        return whole + [(read, i, o) for i, o in last] + head
    deep, own = a.decoder.layers, [(a.dim, a.dim)] * 2  # the decoder's own part of attention to the source
    both = [(source, i, o) for i, o in layer] * a.layers + [(source, a.dim, 2 * a.dim)] * deep
    if kind == "autoregressive":
        return both + [(target, i, o) for i, o in [*layer, *own]] * deep + head
    below = [(target, i, o) for i, o in [*layer, *own]] * (deep - 1) + [(target, a.dim, 2 * a.dim)]
    below += [(forwards, i, o) for i, o in [*layer, *own] if forwards] * deep
    return both + below + [(read, i, o) for i, o in [*last, *own]] + head


def gemm_rate(shapes: set[tuple[int, int, int]]) -> float:
    """FLOP/s of one forward and two backward products of each shape."""
    flops, seconds = 0.0, 0.0
    for n, i, o in sorted(shapes):
        x, w, g = torch.randn(n, i), torch.randn(o, i), torch.randn(n, o)
        tick = time.perf_counter()
        _ = x @ w.T, g @ w, g.T @ x
        seconds += time.perf_counter() - tick
        flops += 6 * n * i * o
    return flops / seconds


class Speed(NamedTuple):
    """Medians over updates."""

    tokens: float  # per second
    rate: float  # FLOP/s of an update's matrix products
    share: float  # of the rate that the machine reaches on the same products


def measured(learned: Learned, a: Architecture, corpus: Corpus, optimizer: str, updates: int) -> tuple[Speed, Update]:
    """How fast an objective is learned, and a function that does one more update."""
    n, length, copies = len(corpus), int(corpus.first.lengths[0]), learned.corruption.copies
    model = classes()[learned.kind](a, SpecialIds(), ("de", "en"))
    objective = OBJECTIVES[learned.kind](model, corpus, 0.1, learned.corruption).train()
    steps = optimizers(objective.model, optimizer, (0.9, 0.98), 0.0)
    generator = torch.Generator().manual_seed(0)

    def update(batch: dict[str, torch.Tensor]) -> None:
        count = batch["count"]
        (objective(**{k: v for k, v in batch.items() if k != "count"}) / count).backward()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        for one in steps:
            one.step()
            one.zero_grad()

    def drawn() -> dict[str, torch.Tensor]:
        return objective.batch(corpus, torch.arange(n), generator)

    found = []
    for k in range(updates + 2):
        batch = drawn()
        tick = time.perf_counter()
        update(batch)
        seconds = time.perf_counter() - tick
        closing = 1 if learned.kind == "autoregressive" else 2
        read = n * int(batch["chosen"].sum(-1).max()) * copies if "chosen" in batch else 0
        forwards = int(batch["forwards"].sum()) * (length + 1) if "forwards" in batch else 0
        source, target = n * (length + 2), copies * n * (length + closing)
        shapes = products(learned.kind, a, source, target, read, int(batch["count"]), forwards)
        rate = sum(6 * r * i * o for r, i, o in shapes) / seconds
        if k >= 2:  # the first ones make room
            found.append(Speed((source + target + forwards) / seconds, rate, rate / gemm_rate(set(shapes))))
    middle = Speed(*(statistics.median(values) for values in zip(*found, strict=True)))
    return middle, lambda: update(drawn())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=192)
    parser.add_argument("--ffn", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--length", type=int, default=15, help="symbols per sentence")
    parser.add_argument("--sentences", type=int, default=80, help="pairs per batch")
    parser.add_argument("--copies", type=int, default=2, help="masked copies of a target for an encoded source")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--optimizer", default="muon")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    sides = torch.randint(5, options.vocabulary, (2, options.sentences, options.length)).tolist()
    corpus = Corpus(Ragged.of(sides[0]), Ragged.of(sides[1]))
    rows: list[list[str]] = []
    for learned in objectives(options.copies):
        a = Architecture(
            options.vocabulary, options.dim, options.layers, options.heads, options.ffn, 128,
            dropout=options.dropout, forwards=learned.corruption.forwards > 0,
        )  # fmt: skip
        speed, again = measured(learned, a, corpus, options.optimizer, options.updates)
        rates = (f"{rate / 1e9:.1f}" for rate in (speed.rate, speed.rate / speed.share))
        rows.append([learned.name, f"{speed.tokens:,.0f}", *rates, f"{speed.share:.0%}"])
    told = {**vars(options), "pairs": options.sentences, "s": "s" if options.threads > 1 else ""}
    columns = ["objective", "tokens/s", "GFLOP/s", "machine", "share"]
    blocks: list[str] = [
        "# How fast training is",
        INTRODUCTION.format(**told),
        table(columns, rows),
        "## Where an update of the last one spends its time",
        PROFILED,
        profile(again, KINDS),
    ]
    publish(blocks, options.output)


if __name__ == "__main__":
    main()
