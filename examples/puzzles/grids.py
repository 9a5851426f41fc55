"""Sudoku of any box size: solved grids, solution counting, puzzles with exactly one solution."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """A grid of boxes, each `down` × `across` cells; side = down · across. (2, 2) is 4×4 and (3, 3) is 9×9."""

    down: int
    across: int

    @property
    def side(self) -> int:
        return self.down * self.across

    @property
    def cells(self) -> int:
        return self.side**2

    @cached_property
    def units(self) -> list[tuple[int, int, int]]:
        """(row, column, box) of each cell."""
        n = self.side
        return [(i // n, i % n, (i // n) // self.down * self.down + (i % n) // self.across) for i in range(self.cells)]


def solutions(shape: Shape, grid: list[int], limit: int = 2, rng: random.Random | None = None) -> list[list[int]]:
    """Up to `limit` completions of `grid` (0 = empty, symbols 1..side), by backtracking on the tightest cell.

    With `rng` the symbols are tried in random order.
    """
    units, n, full = shape.units, shape.side, (1 << shape.side) - 1
    used = [[0] * n for _ in range(3)]  # bit v−1 of used[kind][index]: symbol v is in that row, column or box
    cells = list(grid)
    for cell, v in enumerate(cells):
        if v:
            for kind in range(3):
                if used[kind][units[cell][kind]] >> (v - 1) & 1:
                    return []
                used[kind][units[cell][kind]] |= 1 << (v - 1)
    found: list[list[int]] = []

    def search(empty: list[int]) -> None:
        if not empty:
            found.append(cells.copy())
            return
        best, free = -1, 0
        for i in empty:
            r, c, b = units[i]
            options = full & ~(used[0][r] | used[1][c] | used[2][b])
            if best < 0 or options.bit_count() < free.bit_count():
                best, free = i, options
            if free.bit_count() <= 1:
                break
        rest = [i for i in empty if i != best]
        values = [v for v in range(1, n + 1) if free >> (v - 1) & 1]
        if rng:
            rng.shuffle(values)
        for v in values:
            for kind in range(3):
                used[kind][units[best][kind]] ^= 1 << (v - 1)
            cells[best] = v
            search(rest)
            cells[best] = 0
            for kind in range(3):
                used[kind][units[best][kind]] ^= 1 << (v - 1)
            if len(found) >= limit:
                return

    search([i for i, v in enumerate(cells) if not v])
    return found


def filled(shape: Shape, count: int, rng: random.Random) -> Tensor:
    """Solved grids (count, cells), symbols 1..side, each by a randomised search of its own."""
    return torch.tensor([solutions(shape, [0] * shape.cells, 1, rng)[0] for _ in range(count)])


def scrambled(shape: Shape, grids: Tensor, g: torch.Generator) -> Tensor:
    """Each solved grid under a random symmetry of Sudoku: symbols renamed, bands, stacks and their lines permuted."""
    count, n, down, across = len(grids), shape.side, shape.down, shape.across
    square = grids.view(count, n, n) - 1

    def lines(groups: int, size: int) -> Tensor:  # (count, n): groups shuffled, and lines shuffled within groups
        outer = torch.rand(count, groups, generator=g).argsort(-1)
        inner = torch.rand(count, groups, size, generator=g).argsort(-1)
        return (outer[..., None] * size + inner).view(count, n)

    rows, columns = lines(n // down, down), lines(n // across, across)
    names = torch.rand(count, n, generator=g).argsort(-1) + 1
    square = square.gather(1, rows[:, :, None].expand(-1, -1, n)).gather(2, columns[:, None, :].expand(-1, n, -1))
    return names.gather(1, square.reshape(count, -1))


def puzzles(shape: Shape, grids: Tensor, rng: random.Random, clues: int) -> Tensor:
    """Each solved grid with cells removed (0) in random order while the solution stays unique, down to `clues`."""
    out = []
    shown = Console(stderr=True)
    for solved in track(grids.tolist(), "puzzles", console=shown, transient=True, disable=not shown.is_terminal):
        order = rng.sample(range(shape.cells), shape.cells)
        at_once = order[: shape.cells - clues]
        grid = [0 if cell in at_once else v for cell, v in enumerate(solved)]
        if len(solutions(shape, grid)) == 1:  # then so had every step on the way here
            out.append(grid)
            continue
        grid, left = list(solved), shape.cells
        for cell in order:
            if left <= clues:
                break
            kept, grid[cell] = grid[cell], 0
            if len(solutions(shape, grid)) == 1:
                left -= 1
            else:
                grid[cell] = kept
        out.append(grid)
    return torch.tensor(out)
