"""How many positions per pass: a learned count against handcrafted ones.

    python -m benchmarks.studies.learned_count DATA

Each family of counts is a curve of BLEU over passes, by its setting; all of them decode with one target length. At the
passes that the learned count takes, the others are read off their curves, straight between two settings.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from anyorder.lab.metrics import paired
from anyorder.models.policy import Policy
from benchmarks.studies._order_cells import DIRECTIONS, Cells, Found, Way
from benchmarks.studies.learned_order import arguments, said

FAMILIES: dict[str, list[Way]] = {  # the fewest passes first
    "threshold": [Way("confidence", f"threshold({p})") for p in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)],
    "factor": [Way("confidence", f"factor({f})") for f in (4.0, 3.0, 2.2, 1.7, 1.3, 1.0, 0.75, 0.5)],
    "entropy bound": [Way("negent", f"entropy-bound({g})") for g in (9.0, 6.0, 4.0, 2.0, 1.0, 0.5, 0.25)],
    "KLASS": [Way("confidence", f"kl-stable({p}, {e}, 1)") for p, e in ((0.3, 1), (0.4, 0.5), (0.5, 0.1), (0.7, 0.1))],
    "⌈L/T⌉": [Way("confidence", steps=t) for t in (2, 3, 4, 5, 6, 8, 10)],
    "L→1": [Way("confidence", "anneal", t) for t in (2, 3, 4, 5, 6, 8, 10)],
}


def curve_of(ways: list[Way], cells: Cells, most: float) -> list[Found]:
    """A family, up to its first member with more than `most` passes."""
    out: list[Found] = []
    for way in ways:
        if not out or out[-1].passes <= most:
            out.append(cells(way))
    return out


def at(passes: float, curve: list[Found]) -> float:
    """BLEU of a family at so many passes; NaN outside of its settings."""
    points = sorted((f.passes, f.bleu) for f in curve)
    x, y = zip(*points, strict=True)
    return float(np.interp(passes, x, y, left=np.nan, right=np.nan))


def nearest(passes: float, curve: list[Found]) -> Found:
    """The member of a family that takes as many passes at least, and the fewest of those."""
    enough = [f for f in curve if f.passes >= passes]
    return min(enough, key=lambda f: f.passes) if enough else max(curve, key=lambda f: f.passes)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--policies", nargs="*", type=Path, default=[], help="folders of others than the shipped ones")
    parser.add_argument("--cutoffs", nargs="*", type=float, default=[0.0], help="write where f is above this")
    parser.add_argument("--every", type=int, default=1, help="2: every second setting of each family")
    parser.add_argument("--most", type=float, default=float("inf"), help="passes up to which families are measured")
    options = parser.parse_args()
    for direction in options.direction:
        cells = Cells(options.model, options.data, direction, options.sets, options.cache, options.limit)
        shipped = [path for name, path in cells.files.items() if name == f"count-{direction}"]
        files = [folder / f"policy-{direction}.safetensors" for folder in options.policies] or shipped
        files = [file for file in files if file.exists()]
        mine = [cells(Way(str(f), cutoff=c)) for f in files for c in options.cutoffs]
        curves = {name: curve_of(ways[:: options.every], cells, options.most) for name, ways in FAMILIES.items()}
        print(f"\n{DIRECTIONS[direction]}, {' and '.join(options.sets)}, {len(cells.sources)} sentences\n")
        print("| count | " + " | ".join("passes: BLEU" for _ in range(8)) + " |\n|---|" + "---:|" * 8)
        for name, curve in (curves | {"learned": mine}).items():
            cells_ = [f"{f.passes:.2f}: {f.bleu:.2f}" for f in curve]
            print(f"| {name} | " + " | ".join(cells_ + [""] * (8 - len(cells_))) + " |")
        print("\n| passes | learned | " + " | ".join(curves) + " | against the best |")
        print("|---:|" + "---:|" * (len(curves) + 2))
        for one in sorted(mine, key=lambda f: f.passes):
            others = [at(one.passes, curve) for curve in curves.values()]
            best = max(curves.values(), key=lambda curve: np.nan_to_num(at(one.passes, curve)))
            other = nearest(one.passes, best)  # it has no fewer passes: to its advantage
            against = said(paired([(one.statistics, other.statistics)])) + f" at {other.passes:.2f}"
            row = [f"{one.passes:.2f}", f"{one.bleu:.2f}", *(f"{b:.2f}" for b in others), against]
            print("| " + " | ".join(row) + " |")
        for file in files:
            if (policy := Policy.load(file)).crowding:
                gamma = policy.gamma(torch.arange(-3, 4)).tolist()
                print(f"\nγ at distances −3 to 3: {', '.join(f'{g:.2f}' for g in gamma)} ({file.name})")


if __name__ == "__main__":
    main()
