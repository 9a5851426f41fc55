"""The share of puzzles that each order solves, over all puzzles and seeds that were run: a table in Markdown.

python examples/puzzles/table.py             from runs/puzzles
python examples/puzzles/table.py FOLDER …    columns of several folders
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from anyorder.training.checkpoint import write_atomically

NAMES = {"ppo": "learned", "reinforce": "learned by REINFORCE", "imitation": "planner"}
TITLES = {
    "forms": "forms",
    "sudoku-4": "Sudoku 4×4",
    "sudoku-6": "Sudoku 6×6",
    "sudoku-9": "Sudoku 9×9",
    "colouring": "colouring",
}
Column = tuple[str, dict[str, list[float]]]  # its title, and of each order the share of each seed


class Results:
    """What was measured for one puzzle and seed, in a file: of each order how many it solved of how many."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def has(self, name: str, same: str) -> bool:
        """Was it measured, with puzzles and weights of this fingerprint?"""
        return self.rows.get(name, {}).get("same") == same

    def put(self, name: str, same: str, solved: int, puzzles: int) -> None:
        rows = self.rows | {name: {"same": same, "solved": solved, "puzzles": puzzles}}
        write_atomically(self.path, json.dumps(rows, indent=1).encode())


def columns(out: Path, name: str, seeds: list[int] | None = None) -> list[Column]:
    """The column of a puzzle, over these seeds or all that there are; none where nothing was measured."""
    found = {int(f.parent.name.rpartition("-")[2]): Results(f).rows for f in out.glob(f"{name}-*/solved.json")}
    rows = [found[seed] for seed in sorted(found) if seeds is None or seed in seeds]
    if not rows:
        return []
    orders = {order: [100 * r[order]["solved"] / r[order]["puzzles"] for r in rows if order in r] for order in rows[0]}
    count = next(iter(rows[0].values()))["puzzles"]
    many = f"{len(rows)} seeds × " if len(rows) > 1 else ""
    return [(f"{TITLES[name]}, % of {many}{count:,}", orders)]


def markdown(parts: list[Column]) -> str:
    """A row for each order: its share, or the mean over seeds with the smallest and the largest."""
    last = [*NAMES.values(), "known best"]
    found = dict.fromkeys(order for _, shares in parts for order in shares)
    orders = [order for order in found if order not in last] + [order for order in last if order in found]

    def cell(shares: list[float]) -> str:
        mean = sum(shares) / len(shares) if shares else 0.0
        return "" if not shares else f"{mean:.1f}" + (f" ({min(shares):.1f}–{max(shares):.1f})" * (len(shares) > 1))

    lines = [" | ".join(["| order", *(title for title, _ in parts)]) + " |", "|---|" + "---:|" * len(parts)]
    for order in orders:
        lines.append(f"| {order} | " + " | ".join(cell(shares.get(order, [])) for _, shares in parts) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="*", type=Path, default=[Path("runs/puzzles")], help="default: runs/puzzles")
    folders = parser.parse_args().out
    joined = [column for name in TITLES for out in folders for column in columns(out, name)]
    print(markdown(joined) if joined else f"nothing was measured in {', '.join(map(str, folders))}: run a puzzle first")
