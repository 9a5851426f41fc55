"""How much of the machine's matrix-product rate training reaches: python benchmarks/training.py [--dim 192 ...].

The rate of the machine is measured on the very matrix shapes of training, interleaved with training updates, so that
other load on the machine hits both alike.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from anyorder.data.ragged import Ragged
from anyorder.models.architecture import Architecture
from anyorder.models.freed import keep_freed_memory
from anyorder.models.translation import SpecialIds
from anyorder.models.weights import classes
from anyorder.training.masking import Corruption
from anyorder.training.objectives import OBJECTIVES, Corpus
from anyorder.training.optimizer import optimizers


def products(
    kind: str, a: Architecture, source: int, target: int, read: int, predicted: int
) -> list[tuple[int, int, int]]:
    """The (rows, in, out) of each forward matrix product of a batch; a backward pass does each twice more.

    A masked model's last layer has keys and values everywhere, the rest of it at `read` columns only. `target` and
    `read` count all masked copies.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=192)
    parser.add_argument("--ffn", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--length", type=int, default=15, help="symbols per sentence")
    parser.add_argument("--sentences", type=int, default=120, help="pairs per batch")
    parser.add_argument("--copies", type=int, default=3, help="masked copies of a target for an encoded source")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--optimizer", default="adam")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--updates", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    a = Architecture(
        options.vocabulary, options.dim, options.layers, options.heads, options.ffn, 128, dropout=options.dropout
    )
    n, length = options.sentences, options.length
    sides = torch.randint(5, options.vocabulary, (2, n, length)).tolist()
    corpus = Corpus(Ragged.of(sides[0]), Ragged.of(sides[1]))
    print(f"{'objective':22}{'tokens/s':>10}{'GFLOP/s':>10}{'machine':>10}{'share':>8}")
    for kind in ("masked-translation", "autoregressive", "cmlm"):
        copies = options.copies if kind == "cmlm" else 1
        drawn = Corruption(copies=copies, own=0.5 if copies > 1 else 0.0)
        objective = OBJECTIVES[kind](classes()[kind](a, SpecialIds(), ("de", "en")), corpus, 0.1, drawn).train()
        steps = optimizers(objective.model, options.optimizer, (0.9, 0.98), 0.0)
        generator = torch.Generator().manual_seed(0)
        ratios, rates, speeds = [], [], []
        for update in range(options.updates + 2):
            batch = objective.batch(corpus, torch.arange(n), generator)
            predicted = int(batch.pop("count"))
            tick = time.perf_counter()
            (objective(**batch) / predicted).backward()
            torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
            for optimizer in steps:
                optimizer.step()
                optimizer.zero_grad()
            seconds = time.perf_counter() - tick
            closing = 1 if kind == "autoregressive" else 2
            read = n * int(batch["chosen"].sum(-1).max()) * copies if "chosen" in batch else 0
            shapes = products(kind, a, n * (length + 2), copies * n * (length + closing), read, predicted)
            rate = sum(6 * r * i * o for r, i, o in shapes) / seconds
            machine = gemm_rate(set(shapes))
            if update >= 2:
                rates.append(rate)
                ratios.append(rate / machine)
                speeds.append(n * (length + 2 + copies * (length + closing)) / seconds)
        rate, ratio, speed = (statistics.median(x) for x in (rates, ratios, speeds))
        print(f"{kind:22}{speed:10,.0f}{rate / 1e9:10.1f}{rate / ratio / 1e9:10.1f}{ratio:8.0%}")


if __name__ == "__main__":
    main()
