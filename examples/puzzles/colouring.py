"""Graph colouring: some nodes have their colour, neighbours must differ, the rest follows. The graph is the position.

A node has no number and no place: what a model knows of it is who its neighbours are. Half of the attention heads see
a node's neighbours only, the others every node. A puzzle has exactly one solution.

    python examples/puzzles/colouring.py         a few minutes on two cores; run again to go on
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from learning import Puzzle, PuzzleTask, arguments, main
from masked import MaskedModel, Puzzles, fit
from sudoku import POLICY
from torch import Tensor

MASK = 0  # symbols: <mask>, then the colours 1 …


class Graphs(NamedTuple):
    """N graphs, and the engine's Context."""

    edges: Tensor  # (N, L, L) bool, symmetric

    def take(self, rows: Tensor) -> Graphs:
        return Graphs(self.edges[rows])


@dataclass(frozen=True)
class Family:
    """Random graphs with a colouring: nodes of different colours are neighbours with probability `density`."""

    nodes: int = 16
    colours: int = 3
    density: float = 0.4

    def draw(self, count: int, g: torch.Generator) -> tuple[Graphs, Tensor]:
        colour = torch.randint(self.colours, (count, self.nodes), generator=g) + 1
        differ = colour[:, :, None] != colour[:, None, :]
        upper = (torch.rand(differ.shape, generator=g) < self.density).triu(1) & differ
        return Graphs(upper | upper.mT), colour

    def puzzles(self, count: int, seed: int) -> Puzzles:
        """Colours taken away in random order while the solution stays the only one; of half of the nodes at least."""
        g = torch.Generator().manual_seed(seed)
        graphs, colour = self.draw(3 * count, g)
        canvas = colour.clone()
        kept: list[int] = []
        for n in range(3 * count):
            near = [row.nonzero()[:, 0].tolist() for row in graphs.edges[n]]
            now = colour[n].tolist()
            for node in torch.randperm(self.nodes, generator=g).tolist():
                was, now[node] = now[node], 0
                if colourings(near, now, self.colours) > 1:
                    now[node] = was
            canvas[n] = torch.tensor(now)
            if 2 * now.count(0) >= self.nodes:
                kept.append(n)
            if len(kept) == count:
                return Puzzles(graphs, canvas, colour).take(torch.tensor(kept))
        raise ValueError(f"too few of these graphs have one colouring only: a density above {self.density} helps")


def colourings(near: list[list[int]], colour: list[int], colours: int, limit: int = 2) -> int:
    """How many ways there are to colour the nodes that have 0, up to `limit`; the tightest node first."""
    free: set[int] = set()
    tightest = -1
    for node, c in enumerate(colour):
        if not c:
            left = set(range(1, colours + 1)) - {colour[m] for m in near[node]}
            if tightest < 0 or len(left) < len(free):
                tightest, free = node, left
    if tightest < 0:
        return 1
    found = 0
    for c in free:
        colour[tightest] = c
        found += colourings(near, colour, colours, limit - found)
        if found >= limit:
            break
    colour[tightest] = 0
    return found


class GraphModel(MaskedModel):
    """A masked model whose position encoding is the graph: who sees whom."""

    def __init__(self, colours: int, width: int, layers: int) -> None:
        super().__init__(colours + 1, MASK, width, layers)

    def sees(self, context: Graphs) -> Tensor:
        near = context.edges | torch.eye(context.edges.shape[1], dtype=torch.bool)  # itself too: every node sees one
        return torch.stack([near, torch.ones_like(near)], 1).repeat(1, self.heads // 2, 1, 1)  # (N, H, L, L)


def colouring(seed: int, family: Family | None = None, steps: int = 500, puzzles: int = 2000) -> Puzzle:
    """The model, its training and the task."""
    family = family or Family()
    torch.manual_seed(seed)
    model = GraphModel(family.colours, 32, 1)
    task = PuzzleTask(model, family.puzzles(puzzles, 1), family.puzzles(500, 2))

    def train(kept: Path | None) -> float:
        return fit(model, lambda g: family.draw(128, g), steps, 3e-3, seed, kept=kept)

    return Puzzle("colouring", model, train, task, family.puzzles(1000, 3), POLICY)


if __name__ == "__main__":
    main(colouring, arguments(__doc__))
