"""The Sudoku example: its grids obey the rules, its puzzles have one solution, its model fits the engine."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "sudoku"))
from grids import Shape, puzzles, random_grids, solutions
from model import GridModel, train
from solve import HANDCRAFTED, SudokuTask

from anyorder.core import Model


@pytest.mark.parametrize("shape", [Shape(2, 2), Shape(2, 3), Shape(3, 3)])
def test_every_row_column_and_box_holds_every_symbol(shape: Shape) -> None:
    grids = random_grids(shape, 20, random.Random(0), seeds=3)
    for kind in range(3):
        index = torch.tensor([unit[kind] for unit in shape.units])
        for unit in range(shape.side):
            symbols = grids[:, index == unit].sort(-1).values
            assert torch.equal(symbols, torch.arange(1, shape.side + 1).expand_as(symbols))
    assert len(grids.unique(dim=0)) > 10


def test_puzzles_have_exactly_the_solution_they_came_from() -> None:
    shape, rng = Shape(2, 2), random.Random(1)
    grids = random_grids(shape, 10, rng)
    made = puzzles(shape, grids, rng, clues=4)
    for puzzle, grid in zip(made.tolist(), grids.tolist(), strict=True):
        assert solutions(shape, puzzle, limit=5) == [grid]
        assert 4 <= sum(v > 0 for v in puzzle) < 9
    assert len(solutions(shape, [0] * 16, limit=1000)) == 288  # all 4×4 grids
    assert solutions(shape, [1, 1] + [0] * 14) == []


def test_the_model_learns_and_every_order_fills_the_grid() -> None:
    shape, rng = Shape(2, 2), random.Random(2)
    grids = random_grids(shape, 200, rng)
    torch.manual_seed(0)
    model = GridModel(shape, width=16, layers=1)
    assert isinstance(model, Model)
    first = train(model, grids, 1, 64, 3e-3, 0)
    assert train(model, grids, 60, 64, 1e-2, 0) < 0.9 * first
    made = puzzles(shape, grids[:8], rng, clues=6)
    task = SudokuTask(model, (made, grids[:8]), (made, grids[:8]))
    for order in HANDCRAFTED.values():
        assert 0 <= task.validate(order) <= 100
    episodes = task.draw(4, torch.Generator().manual_seed(0))
    clues = ~episodes.state.open
    assert torch.equal(episodes.state.tokens[clues], episodes.references[clues])
