"""Sudoku: train a small masked model of it, learn its order from the model's hidden states, compare solve rates.

A puzzle has exactly one solution. The 4×4 model learns from scratch what rows, columns and boxes are; in the larger
ones an attention head sees a cell's row, one its column, one its box and one everything.

    python examples/puzzles/sudoku.py            4×4, a few minutes on a core; run again to go on
    python examples/puzzles/sudoku.py --size 9   9×9, longer
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from grids import Shape, filled, puzzles, scrambled
from learning import Puzzle, PuzzleTask, arguments, main
from masked import MaskedModel, Puzzles, fit
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


class UnitModel(MaskedModel):
    """A masked model whose position encoding is who shares a row, a column, a box with whom."""

    def __init__(self, shape: Shape, width: int, layers: int) -> None:
        super().__init__(shape.side + 1, MASK, width, layers)
        units = torch.tensor(shape.units)  # (cells, 3)
        same = (units[:, None] == units[None]).permute(2, 0, 1)  # (3, cells, cells)
        self.register_buffer("near", torch.cat([same, torch.ones_like(same[:1])])[None], persistent=False)

    def sees(self, context: NoContext) -> Tensor:
        return self.near  # type: ignore[return-value]


@dataclass(frozen=True)
class Recipe:
    """What one run does for a size of grid."""

    shape: Shape
    model: type[GridModel] | type[UnitModel]
    clues: int  # puzzles keep at least that many cells
    width: int
    layers: int
    steps: int  # of the model's training
    batch: int
    grids: int  # solved grids: a quarter of them is never shown to the model
    most: float  # of a grid is masked while the model trains
    policy: Settings
    learning_rate: float = 3e-3
    planned: int = 0  # steps of the learning rate's schedule, where training may stop before its end
    puzzles: int = 2000  # that the policy is trained on
    validated: int = 500  # that it is chosen by
    tested: int = 1000


POLICY = Settings(
    iterations=120, generations=256, group=8, buffer=0, update_batch=1024, updates=16, gamma=0.0, value_weight=0.0,
    hidden=64, learning_rate=1e-2, entropy=0.003, entropy_end=0.0, cooldown=True, reward="right-symbols",
    validate_every=20,
)  # fmt: skip
LARGER = replace(POLICY, iterations=60, generations=32, update_batch=512, validate_every=15)
# fmt: off
RECIPES = {
    4: Recipe(Shape(2, 2), GridModel, 4, 32, 1, 1200, 128, 288, 1.0, POLICY),
    6: Recipe(Shape(2, 3), UnitModel, 10, 48, 3, 3000, 64, 2000, 0.8, LARGER),
    9: Recipe(
        Shape(3, 3), UnitModel, 32, 64, 4, 2800, 32, 4000, 0.7, LARGER,
        learning_rate=2e-3, planned=6000, puzzles=500, validated=100, tested=300,
    ),
}
# fmt: on


def all_grids(recipe: Recipe, rng: random.Random, g: torch.Generator) -> Tensor:
    """(recipe.grids, cells): different ones, each by a search of its own, or for 4×4 all that there are."""
    if recipe.shape.side > 4:
        return filled(recipe.shape, recipe.grids, rng).unique(dim=0)
    few = filled(recipe.shape, 100, rng)
    return scrambled(recipe.shape, few.repeat(200, 1), g).unique(dim=0)


def sudoku(size: int, seed: int) -> Puzzle:
    """The model, its training and the task."""
    recipe, rng = RECIPES[size], random.Random(seed)
    shape, g = recipe.shape, torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = recipe.model(shape, recipe.width, recipe.layers)
    everything = all_grids(recipe, rng, g)
    everything = everything[torch.randperm(len(everything), generator=g)]
    unseen, seen = everything[: len(everything) // 4], everything[len(everything) // 4 :]

    def some(grids: Tensor, count: int) -> Puzzles:
        solution = grids[torch.randint(len(grids), (count,), generator=g)]
        return Puzzles(NoContext(), puzzles(shape, solution, rng, recipe.clues), solution)

    task = PuzzleTask(model, some(seen, recipe.puzzles), some(unseen, recipe.validated))

    def draw(g: torch.Generator) -> tuple[NoContext, Tensor]:
        grids = seen[torch.randint(len(seen), (recipe.batch,), generator=g)]
        return NoContext(), scrambled(shape, grids, g) if size > 4 else grids

    def train(kept: Path | None) -> float:
        return fit(model, draw, recipe.steps, recipe.learning_rate, seed, recipe.most, kept, recipe.planned)

    return Puzzle(f"sudoku-{size}", model, train, task, some(unseen, recipe.tested), recipe.policy)


if __name__ == "__main__":
    options = arguments(__doc__, tuple(RECIPES))
    main(lambda seed: sudoku(options.size, seed), options)
