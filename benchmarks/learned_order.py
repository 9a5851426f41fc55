"""What a learned order keeps of the best handcrafted gain over uniform: `python -m benchmarks.learned_order DATA`.

One target length per sentence, so that nothing but the order differs; T = L, and T = 10 with ⌈L/T⌉ symbols per step.
The learned orders were chosen on the first 200 sentences: those are left out.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from anyorder import load
from anyorder.data.test_sets import load_test_set
from anyorder.experiments.evaluate import quality
from anyorder.text.plan import Plan

ORDERS = ("uniform", "left2right", "least2most", "easy-first", "learned")
DIRECTIONS = {"de-en": "De→En", "en-de": "En→De"}
CHOSEN_ON = 200


def bleu(data: Path, direction: str, order: str, steps: int | None, stop: int) -> float:
    torch.set_num_threads(1)
    corpus = load_test_set(data, "val", direction).part(CHOSEN_ON, stop)
    found = load("de-en").translate(corpus.sources, corpus.target_language, plan=Plan.of(order, steps=steps, lengths=1))
    return quality([t.text for t in found], corpus).bleu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with multi30k/")
    parser.add_argument("--limit", type=int, default=1014, help="the last sentence")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    columns = [(direction, steps) for direction in DIRECTIONS for steps in (None, 10)]
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {
            (order, *column): pool.submit(bleu, options.data, column[0], order, column[1], options.limit)
            for order in ORDERS
            for column in columns
        }
        table = {key: future.result() for key, future in cells.items()}
    print(f"Sentences {CHOSEN_ON + 1} to {options.limit} of Multi30k val:\n")
    print("| order | " + " | ".join(f"{DIRECTIONS[d]}, T = {t or 'L'}" for d, t in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for order in ORDERS:
        print(f"| {order} | " + " | ".join(f"{table[order, *column]:.2f}" for column in columns) + " |")
    kept = []
    for column in columns:
        uniform, best = table["uniform", *column], max(table[order, *column] for order in ORDERS[1:-1])
        kept.append(f"{(table['learned', *column] - uniform) / (best - uniform):.0%}")
    print("| the best handcrafted order's gain over uniform that learned keeps | " + " | ".join(kept) + " |")


if __name__ == "__main__":
    main()
