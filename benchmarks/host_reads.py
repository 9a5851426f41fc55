"""How often a step waits for the device: `PYTHONPATH=.:tests python -m benchmarks.host_reads` prints a markdown table.

On an accelerator every number that the host reads back (`item`, `tolist`, `nonzero`, an index by a bool mask …) makes
it wait for all that was asked before. They are counted on a device that computes on the CPU (tests/elsewhere.py), for
each recipe on an exact random joint: all reads of a generation, divided by its steps.
"""

from __future__ import annotations

import argparse

import torch
from elsewhere import DEVICE, elsewhere

from anyorder.core import NoContext, begin, canvas, decode
from anyorder.models.table import Table
from anyorder.recipes import every


def reads(name: str, length: int, T: int, rows: int) -> tuple[int, int, dict[str, int]]:
    """(steps, reads of the host, reads by the line that made them) of a recipe."""
    with elsewhere() as mode:
        table = Table(length, 2)
        tokens = canvas(torch.full((rows,), length), table.mask_id, table.pad_id).to(DEVICE)
        state = begin(tokens, table.mask_id, table.pad_id)
        mode.reads.clear()  # what a canvas costs is no step's
        steps = 0

        def count(step: object) -> None:
            nonlocal steps
            steps += 1

        decode(table, NoContext(), state, every(T, 2)[name], watch=count)
        return steps, sum(mode.reads.values()), dict(mode.reads.most_common())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=8, help="canvas length L (at most 12: the joint has 2^L entries)")
    parser.add_argument("--steps", type=int, default=4, help="T of the recipes that have one")
    parser.add_argument("--rows", type=int, default=3, help="canvases at once")
    parser.add_argument("--lines", action="store_true", help="also which lines read")
    a = parser.parse_args()
    print("| recipe | steps | reads | reads per step |\n|---|---|---|---|")
    for name in every(a.steps, 2):
        steps, total, lines = reads(name, a.length, a.steps, a.rows)
        print(f"| {name} | {steps} | {total} | {total / steps:.1f} |")
        if a.lines:
            print(f"  {lines}")


if __name__ == "__main__":
    main()
