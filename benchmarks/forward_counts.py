"""What every recipe costs: `python -m benchmarks.forward_counts` prints a markdown table.

Measured on an exact random joint, one canvas at a time: passes in sequence, canvas rows put through the model (more
than passes where written positions are folded into rows of their own), and rows projected onto the vocabulary.
"""

from __future__ import annotations

import argparse

import torch

from anyorder.core import Decoder, NoContext, begin, canvas, decode
from anyorder.models.table import Table
from anyorder.recipes import STRATEGIES, every, two_pass


def rows(length: int, T: int, k: int) -> list[tuple[str, int, int, int, int]]:
    """(recipe, steps, forward passes, canvas rows, head rows) of every recipe."""
    table = Table(length, 2)
    recipes: dict[str, Decoder] = every(T, k) | {f"{name}, 2L": two_pass(d) for name, d in STRATEGIES.items()}
    out = []
    for name, decoder in recipes.items():
        state = begin(canvas(torch.tensor([length]), table.mask_id, table.pad_id), table.mask_id, table.pad_id)
        result = decode(table, NoContext(), state, decoder)
        cost = result.cost
        out.append((name, int(result.steps), cost.forwards, cost.canvases, cost.head_rows))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=8, help="canvas length L (at most 12: the joint has 2^L entries)")
    parser.add_argument("--steps", type=int, default=4, help="T of the recipes that have one")
    parser.add_argument("--group", type=int, default=3, help="k of the semi-autoregressive recipe")
    a = parser.parse_args()
    if not 1 <= a.length <= 12:
        parser.error(f"--length must be between 1 and 12, got {a.length}")
    print(f"L = {a.length}, T = {a.steps}, k = {a.group}\n")
    print("| recipe | steps | forward passes | canvas rows | head rows |\n|---|---|---|---|---|")
    for name, *numbers in rows(a.length, a.steps, a.group):
        print(f"| {name} | {' | '.join(map(str, numbers))} |")


if __name__ == "__main__":
    main()
