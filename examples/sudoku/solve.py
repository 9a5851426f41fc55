"""Does the order matter? Train a small masked model of Sudoku, a policy on it, and compare solve rates.

    python examples/sudoku/solve.py            4×4, two or three minutes on two cores
    python examples/sudoku/solve.py --size 6   6×6 grids of 2×3 boxes, longer

Every order solves the same held-out puzzles with the same model: only the order in which cells are filled differs.
"""

from __future__ import annotations

import argparse
import random as pyrandom
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from grids import Shape, puzzles, random_grids
from model import GridModel, train
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor

from anyorder.core import NoContext, Order, Symbols, begin, confidence, decode, leftmost, margin, negent, random
from anyorder.core.coordinates import Coordinates
from anyorder.core.decoder import Decoder
from anyorder.models.policy import Policy
from anyorder.training.ppo import PolicyTrainer, Settings
from anyorder.training.rollout import Episodes


@dataclass(frozen=True)
class Recipe:
    """What one run of this example does for a size of grid."""

    shape: Shape
    clues: int  # puzzles keep at least so many cells
    width: int
    layers: int
    steps: int  # of the model's training
    batch: int
    lr: float
    policy: Settings


POLICY = Settings(
    imitate=30, iterations=80, generations=64, buffer=4000, update_batch=512, hidden=128, learning_rate=2e-3,
    features=("margin", "negent"), entropy=0.002, gamma=0.99, reward="right-symbols", validate_every=10,
)  # fmt: skip
RECIPES = {
    4: Recipe(Shape(2, 2), 4, 32, 1, 800, 128, 3e-3, POLICY),
    6: Recipe(Shape(2, 3), 10, 64, 3, 3000, 64, 3e-3, POLICY),
}
HANDCRAFTED: dict[str, Order] = {
    "uniform": random,
    "left2right": leftmost,
    "confidence": confidence,
    "margin": margin,
    "entropy": negent,
}


class SudokuTask:
    """Puzzles as episodes for the policy trainer; the share of solved puzzles is what counts."""

    def __init__(self, model: GridModel, training: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor]) -> None:
        self.model, self.training, self.held_out = model, training, held_out
        self.symbols = Symbols(ban=(model.mask_id, model.pad_id))

    def draw(self, count: int, generator: torch.Generator) -> Episodes:
        rows = torch.randint(len(self.training[0]), (count,), generator=generator)
        seed = int(torch.randint(1 << 30, (1,), generator=generator))
        puzzle, solution = self.training
        return Episodes(
            NoContext(), begin(puzzle[rows], self.model.mask_id, self.model.pad_id, seed=seed), solution[rows]
        )

    def solved(self, order: Order, puzzle: Tensor, solution: Tensor) -> Tensor:
        """(N,) bool"""
        state = begin(puzzle, self.model.mask_id, self.model.pad_id)
        done = decode(self.model, NoContext(), state, Decoder(Coordinates(order), self.symbols))
        return (done.tokens == solution).all(-1)

    def validate(self, order: Order) -> float:
        return 100 * float(self.solved(order, *self.held_out).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=4, choices=sorted(RECIPES))
    parser.add_argument("--method", default="ppo", choices=["ppo", "reinforce", "imitation"])
    parser.add_argument("--puzzles", type=int, default=1000, help="held-out puzzles in the table")
    parser.add_argument("--save", type=Path, help="keep the policy here (a .safetensors file)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    recipe, rng, started = RECIPES[args.size], pyrandom.Random(args.seed), time.monotonic()
    torch.manual_seed(args.seed)
    shape = recipe.shape

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[info]}"), console=Console(stderr=True)) as bar:
        learn = bar.add_task("model ", total=recipe.steps, info="")
        solve = bar.add_task("policy", total=recipe.policy.iterations, info="")

        everything = random_grids(shape, 20_000 if args.size == 4 else 200_000, rng).unique(dim=0)
        everything = everything[torch.randperm(len(everything))]
        cut = len(everything) // 4  # grids that the model never sees
        unseen, seen = everything[:cut], everything[cut:]
        model = GridModel(shape, recipe.width, recipe.layers)
        train(
            model, seen, recipe.steps, recipe.batch, recipe.lr, args.seed,
            lambda step, loss: bar.update(learn, completed=step, info=f"loss {loss:.3f}"),
        )  # fmt: skip

        def some(grids: Tensor, count: int) -> tuple[Tensor, Tensor]:
            solution = grids[torch.randint(len(grids), (count,))]
            return puzzles(shape, solution, rng, recipe.clues), solution

        held_out = some(unseen, args.puzzles + 300)
        choose, test = [x[:300] for x in held_out], [x[300:] for x in held_out]
        task = SudokuTask(model, some(seen, 2000), (choose[0], choose[1]))
        settings = replace(recipe.policy, method=args.method, seed=args.seed)
        about = {"model": f"sudoku {shape.side}×{shape.side}", "method": args.method, "reward": settings.reward}
        policy = Policy(recipe.width, settings.history, settings.hidden, settings.features, about)

        def report(numbers: dict[str, float]) -> None:
            info = f"reward {numbers['reward']:.2f}  solved {numbers['best']:.1f} %"
            bar.update(solve, completed=int(numbers["iteration"]), info=info)

        PolicyTrainer(task, policy, settings).run(report)
        if args.save:
            policy.save(args.save)

    table = Table("order", "solved, %", title=f"{shape.side}×{shape.side} Sudoku, {args.puzzles} held-out puzzles")
    for name, order in {**HANDCRAFTED, "learned": policy}.items():
        table.add_row(name, f"{100 * float(task.solved(order, test[0], test[1]).float().mean()):.1f}")
    Console().print(table)
    Console(stderr=True).print(f"{time.monotonic() - started:.0f} seconds")


if __name__ == "__main__":
    main()
