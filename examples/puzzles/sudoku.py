"""Sudoku: train a small masked model of it, learn its order from the model's hidden states, compare solve rates.

python examples/puzzles/sudoku.py            4×4, a few minutes on two cores; run again to go on
python examples/puzzles/sudoku.py --size 9   9×9
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from grids import Shape, puzzles, random_grids
from learning import MaskedModel, Puzzle, Puzzles, PuzzleTask, arguments, fit, run
from torch import Tensor, nn

from anyorder.core import NoContext
from anyorder.training.ppo import Settings

MASK = 0  # symbols 1..side


class GridModel(MaskedModel):
    """A masked model whose position encoding is a cell's row, column and box."""

    def __init__(self, shape: Shape, width: int, layers: int) -> None:
        super().__init__(shape.side + 1, MASK, width, layers)
        self.row, self.column, self.box = (nn.Embedding(shape.side, width) for _ in range(3))
        self.register_buffer("units", torch.tensor(shape.units), persistent=False)  # (cells, 3)

    def embed(self, context: NoContext) -> Tensor:
        row, column, box = self.units.unbind(-1)  # type: ignore[operator, union-attr]
        place: Tensor = self.row(row) + self.column(column) + self.box(box)
        return place


@dataclass(frozen=True)
class Recipe:
    """What one run does for a size of grid."""

    shape: Shape
    clues: int  # puzzles keep at least that many cells
    width: int
    layers: int
    steps: int  # of the model's training
    batch: int
    grids: int  # solved grids to learn from
    puzzles: int  # of them that the policy is trained on
    policy: Settings


POLICY = Settings(
    iterations=300, generations=256, group=8, buffer=0, update_batch=1024, updates=8, gamma=0.3, value_weight=0.0,
    hidden=256, attention=32, learning_rate=2e-3, entropy=0.01, entropy_end=0.0, cooldown=True, reward="right-symbols",
    validate_every=10,
)  # fmt: skip
RECIPES = {
    4: Recipe(Shape(2, 2), 4, 32, 1, 400, 128, 20_000, 2000, POLICY),
    6: Recipe(Shape(2, 3), 10, 64, 3, 3000, 64, 200_000, 2000, POLICY),
    9: Recipe(Shape(3, 3), 30, 96, 4, 8000, 64, 400_000, 2000, POLICY),
}


def sudoku(size: int, seed: int, tested: int = 1000) -> Puzzle:
    """The model, its training and the task. A quarter of the grids is never shown to the model."""
    recipe, rng = RECIPES[size], random.Random(seed)
    shape = recipe.shape
    torch.manual_seed(seed)
    everything = random_grids(shape, recipe.grids, rng).unique(dim=0)
    everything = everything[torch.randperm(len(everything))]
    unseen, seen = everything[: len(everything) // 4], everything[len(everything) // 4 :]
    model = GridModel(shape, recipe.width, recipe.layers)

    def some(grids: Tensor, count: int) -> Puzzles:
        solution = grids[torch.randint(len(grids), (count,))]
        return Puzzles(NoContext(), puzzles(shape, solution, rng, recipe.clues), solution)

    held_out = some(unseen, 500 + tested)
    task = PuzzleTask(model, some(seen, recipe.puzzles), held_out.take(torch.arange(500)))
    g = torch.Generator().manual_seed(seed)

    def draw() -> tuple[NoContext, Tensor]:
        return NoContext(), seen[torch.randint(len(seen), (recipe.batch,), generator=g)]

    test = held_out.take(torch.arange(500, 500 + tested))
    return Puzzle(
        f"sudoku-{size}", model, lambda: fit(model, draw, recipe.steps, 3e-3, seed), task, test, recipe.policy
    )


if __name__ == "__main__":
    options = arguments(__doc__, tuple(RECIPES))
    run(sudoku(options.size, options.seed), options)
