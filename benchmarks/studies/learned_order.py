"""Learned orders against handcrafted ones, one position per step: `python -m benchmarks.studies.learned_order DATA`.

One target length per sentence, the same model, the same greedy symbols: nothing but the order differs. Each order is
compared with `uniform` and with the best handcrafted one of the table by paired bootstrap. The last row is an oracle:
for each sentence the best translation of the handcrafted orders' and some uniform ones'.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from anyorder.lab.metrics import Difference, bleu_of, paired
from benchmarks.studies._order_cells import DIRECTIONS, Cells, Found, Way

UNIFORM, HANDCRAFTED = "uniform", ("left2right", "right2left", "least2most", "easy-first", "confidence", "margin")
SEEDS = 2  # of uniform
TESTS = ("test_2016_flickr", "test_2017_flickr")


def arguments(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="folder with multi30k/")
    parser.add_argument("--model", default="de-en", help="a shipped model, or a model folder")
    parser.add_argument("--sets", nargs="+", default=list(TESTS), help="test sets, taken together")
    parser.add_argument("--limit", type=int, default=None, help="sentences of each set; all without it")
    parser.add_argument("--direction", nargs="+", default=list(DIRECTIONS), choices=list(DIRECTIONS))
    parser.add_argument("--cache", type=Path, default=Path("runs/orders"), help="where translations are kept")
    return parser


def oracle(cells: list[Found]) -> float:
    """BLEU of the translation of each sentence that has the best sentence BLEU."""
    each = np.stack([c.statistics for c in cells])  # (orders, N, 10)
    best = bleu_of(each).argmax(0)
    return float(bleu_of(each[best, np.arange(len(best))].sum(0)))


def said(d: Difference) -> str:
    return f"{d.delta:+.2f}" + ("*" if d.significant else "")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--policy", nargs=2, action="append", default=[], metavar=("NAME", "FOLDER"),
        help="another policy: FOLDER/policy-de-en.safetensors and FOLDER/policy-en-de.safetensors, or the one there is",
    )  # fmt: skip
    parser.add_argument("--steps", type=int, default=None, help="T, with ⌈L/T⌉ positions per step; without it T = L")
    parser.add_argument("--orders", nargs="+", default=list(HANDCRAFTED), help="handcrafted ones to compare with")
    options = parser.parse_args()
    for direction in options.direction:
        cells = Cells(options.model, options.data, direction, options.sets, options.cache, options.limit)
        random = [cells(Way(UNIFORM, steps=options.steps, seed=k)) for k in range(SEEDS)]
        found = {name: [cells(Way(name, steps=options.steps))] for name in options.orders}
        best = max(found, key=lambda name: found[name][0].bleu)
        policies = {"learned": "learned"} if f"policy-{direction}" in cells.files else {}
        for name, folder in options.policy:
            file = Path(folder) / f"policy-{direction}.safetensors"
            policies |= {name: str(file)} if file.exists() else {}
        pool = random + [f for some in found.values() for f in some]
        found |= {name: [cells(Way(order, steps=options.steps))] for name, order in policies.items()}
        print(f"\n{DIRECTIONS[direction]}, {' and '.join(options.sets)}, {len(cells.sources)} sentences\n")
        print(f"| order | BLEU | against uniform | against {best} |\n|---|---:|---:|---:|")
        print(f"| uniform | {np.mean([r.bleu for r in random]):.2f} | | |")
        for name, (one,) in found.items():
            against = [paired([(one.statistics, r.statistics) for r in random])]
            against += [paired([(one.statistics, found[best][0].statistics)])] if name != best else []
            print(f"| {name} | {one.bleu:.2f} | " + " | ".join(map(said, against)) + (" |" if name != best else " | |"))
        print(f"| an oracle over {len(pool)} orders | {oracle(pool):.2f} | | |")
    print("\n\\* significant at 0.05 (paired bootstrap)")


if __name__ == "__main__":
    main()
