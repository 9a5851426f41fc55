"""What each optimisation gives: `python -m benchmarks.optimisations` prints a table of ratios, both sides interleaved.

Sizes: a model like the shipped one, and with --paper one of the paper's size. One sentence in two halves: half of the
target is written, as in the middle of a generation.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from anyorder import recipes
from anyorder.bench.ours import decode_batch
from anyorder.bench.plain import Job
from anyorder.core import Cost, Reader, Symbols, begin
from anyorder.machine import keep_freed_memory, side_by_side
from anyorder.models.int8 import to_int8
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.transformer import Architecture
from anyorder.models.translation import Source
from anyorder.models.translation import Symbols as Ids
from anyorder.search import batches

BAN = (0, 1, 2, 3)


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


def measure(architecture: Architecture, rows: int, repeats: int) -> list[tuple[str, float]]:
    """(optimisation, ratio) at one size."""
    torch.manual_seed(0)
    model = MaskedTranslation(architecture, Ids(), ("de", "en")).eval().requires_grad_(False)
    rounded = to_int8(model)
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
    in_place = tokens[n, i, None]
    reads = frozenset({"entropy", "current"})
    return [
        (
            "vocabulary projection only at masked positions",
            ratio(lambda: model.logits(hidden.flatten(0, 1)), lambda: model.logits(hidden[n, i]), repeats),
        ),
        (
            "statistics from one exponential of each logit",
            ratio(
                lambda: several_passes(logits, in_place),
                lambda: reader.statistics(logits.clone(), state, tokens, n, i, reads, 0),
                repeats,
            ),
        ),
        (
            "last layer only at masked positions (of a whole pass)",
            ratio(lambda: model.hidden(context, tokens), lambda: model.hidden_at(context, tokens, n, i), repeats),
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


def measure_bulk(architecture: Architecture, sentences: int, repeats: int) -> list[tuple[str, float]]:
    """(optimisation, ratio) of decoding many sentences, easy-first, T = L."""
    torch.manual_seed(0)
    model = MaskedTranslation(architecture, Ids(), ("de", "en")).eval().requires_grad_(False)
    sizes = torch.randint(8, 22, (sentences, 2)).tolist()
    jobs = [Job(torch.randint(5, architecture.vocabulary, (s,)).tolist(), length) for s, length in sizes]
    size, steps = [len(j.source) + j.length + 4 for j in jobs], [j.length for j in jobs]

    def run(part: list[int]) -> list[list[int]]:
        return decode_batch(model, [jobs[i] for i in part], (0, 1), BAN, recipes.easy_first)

    def turn(parts: list[list[int]], together: bool = True) -> Callable[[], object]:
        return lambda: list(side_by_side(run, parts) if together else map(run, parts))

    now = turn(batches(size, steps=steps))
    return [
        ("batches side by side, not one after the other", ratio(turn(batches(size, steps=steps), False), now, repeats)),
        ("batches of rows that end together, not of rows of like size", ratio(turn(batches(size)), now, repeats)),
        ("batches of 1,024 tokens, not of 8,192", ratio(turn(batches(size, 8192, steps=steps)), now, repeats)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--paper", action="store_true", help="also a model of 1024 units, 6 layers, 60k symbols")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    print("| optimisation | model | times faster |\n|---|---|---:|")
    sizes = [("shipped", Architecture(8000, 192, 4, 4, 512, positions=128), 64, 15)]
    if arguments.paper:
        sizes.append(("paper's size", Architecture(60_000, 1024, 6, 8, 4096), 16, 5))
    for name, architecture, rows, repeats in sizes:
        more = measure_bulk(architecture, 120, 3) if name == "shipped" else []
        for what, times in measure(architecture, rows, repeats) + more:
            print(f"| {what} | {name} | {times:.2f} |", flush=True)


if __name__ == "__main__":
    main()
