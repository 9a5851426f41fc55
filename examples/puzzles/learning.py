"""What the puzzles share: train a small masked model, learn its order, compare that with handcrafted orders.

A puzzle is a canvas with some symbols written and the one solution it should become. Every order solves the same
held-out puzzles with the same model, so that only the order in which positions are filled differs.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from masked import MaskedModel, Puzzles
from rich.console import Console
from rich.progress import track
from table import NAMES, Results, columns, markdown
from torch import Tensor

from anyorder.core import Order, begin, confidence, decode, leftmost, logp, margin, negent, random
from anyorder.core.coordinates import Coordinates
from anyorder.core.count import ONE, Count
from anyorder.core.decoder import Decoder
from anyorder.core.state import State
from anyorder.core.symbols import Symbols
from anyorder.errors import AnyorderError
from anyorder.models.policy import Policy
from anyorder.training.checkpoint import load_checkpoint
from anyorder.training.learn_order import learn
from anyorder.training.ppo import Settings
from anyorder.training.rollout import Episodes

HANDCRAFTED: dict[str, Order] = {
    "uniform": random,
    "left2right": leftmost,
    "least2most": logp,
    "confidence": confidence,
    "margin": margin,
    "entropy": negent,
    "easy-first": negent + logp,
    "hard-first": -negent + -logp,
    "least confident": -confidence,
}


class PuzzleTask:
    """Puzzles as episodes for the policy trainer; the share of solved ones is what counts."""

    measure = "solved, %"

    def __init__(self, model: MaskedModel, training: Puzzles, held_out: Puzzles, ban: tuple[int, ...] = ()) -> None:
        self.model, self.training, self.held_out = model, training, held_out
        self.symbols = Symbols(ban=(model.mask_id, model.pad_id, *ban))

    def draw(self, count: int, generator: torch.Generator) -> Episodes:
        part = self.training.take(torch.randint(len(self.training.canvas), (count,), generator=generator))
        seed = int(torch.randint(1 << 30, (1,), generator=generator))
        return Episodes(
            part.context, begin(part.canvas, self.model.mask_id, self.model.pad_id, seed=seed), part.solution
        )

    def start(self, puzzles: Puzzles, seed: int = 0) -> State:
        return begin(puzzles.canvas, self.model.mask_id, self.model.pad_id, seed=seed)

    def solved(self, order: Order, puzzles: Puzzles, count: Count = ONE) -> Tensor:
        """(N,) bool"""
        decoder = Decoder(Coordinates(order, count), self.symbols)
        done = decode(self.model, puzzles.context, self.start(puzzles), decoder)
        return (done.tokens == puzzles.solution).all(-1)

    def validate(self, order: Order) -> float:
        count = order.count if isinstance(order, Policy) else ONE
        return 100 * float(self.solved(order, self.held_out, count).float().mean())


@dataclass(frozen=True)
class Puzzle:
    """What one example brings along, for one seed."""

    name: str
    model: MaskedModel
    fit: Callable[[Path | None], float]  # trains the model, its state kept in a file
    task: PuzzleTask  # with puzzles to train the policy on, and others to choose it by
    test: Puzzles  # that nothing is trained on or chosen by
    settings: Settings
    known: Order | None = None  # a best order, where one is known


def arguments(about: str | None, size: tuple[int, ...] = ()) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=about,
        epilog="Run again, a command goes on where it stopped, and repeats what it has measured. "
        "`python examples/puzzles/table.py` joins the columns of all puzzles.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if size:
        parser.add_argument("--size", type=int, default=size[0], choices=size, help="side of the grid")
    parser.add_argument(
        "--method",
        nargs="+",
        default=["ppo", "imitation"],
        choices=list(NAMES),
        help="how to learn the order: ppo or reinforce (from the reward alone), or imitation (a planner that is shown "
        "in each state a position whose greedy symbol is right); default: ppo imitation",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="one model, policy and test each; default: 0")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/puzzles"), help="folder to keep everything in; default: runs/puzzles"
    )
    parser.add_argument(
        "--measure", action="store_true", help="train no policy any further: measure the best one of each run so far"
    )
    return parser.parse_args()


def main(make: Callable[[int], Puzzle], options: argparse.Namespace) -> None:
    """`run`, with a sentence in the place of a traceback where a folder holds something else."""
    try:
        run(make, options)
    except AnyorderError as error:
        raise SystemExit(str(error)) from None


def run(make: Callable[[int], Puzzle], options: argparse.Namespace) -> None:
    """For each seed the model, its policies and the comparison; then the table over seeds."""
    for seed in options.seeds:
        puzzle, started = make(seed), time.monotonic()
        folder = options.out / f"{puzzle.name}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        loss = puzzle.fit(folder / "model.pt")
        say(f"{folder.name}: the model's loss is {loss:.3f}; {time.monotonic() - started:.0f} seconds")
        for method in options.method:
            learned = (so_far if options.measure else trained)(puzzle, method, seed, folder / method)
            compare(puzzle, {NAMES[method]: learned} if learned else {}, folder)
        compare(puzzle, HANDCRAFTED | ({"known best": puzzle.known} if puzzle.known else {}), folder)
        say(f"{folder.name}: {time.monotonic() - started:.0f} seconds")
    print(markdown(columns(options.out, puzzle.name, options.seeds)))


def trained(puzzle: Puzzle, method: str, seed: int, folder: Path) -> Policy:
    """The policy of a method, from its folder or trained there. A planner is shown, so it needs a third of the time."""
    settings = replace(puzzle.settings, seed=seed, method=method)  # type: ignore[arg-type]
    if method == "imitation":
        settings = replace(settings, iterations=settings.iterations // 3)
    about = {"model": puzzle.name, "method": method, "reward": settings.reward}
    policy = learn(puzzle.task, settings.policy(puzzle.model.width, about), settings, folder, NAMES[method])
    policy.save(folder / "policy.safetensors")
    return policy


def so_far(puzzle: Puzzle, method: str, seed: int, folder: Path) -> Policy | None:
    """The best policy of a run that is under way or was stopped; none where no checkpoint was written."""
    state = load_checkpoint(folder / "checkpoint.pt")
    if state is None:
        return None
    policy = replace(puzzle.settings, seed=seed).policy(puzzle.model.width, {})
    policy.load_state_dict(state["best_weights"])
    say(f"{folder}: {state['iteration']} of {state['settings']['iterations']} iterations")
    return policy.eval()


def compare(puzzle: Puzzle, orders: dict[str, Order], folder: Path) -> None:
    """Solve the test's puzzles in each order; what was measured before with the same weights is kept."""
    results, shown = Results(folder / "solved.json"), Console(stderr=True)
    for name, order in track(orders.items(), "orders", console=shown, transient=True, disable=not shown.is_terminal):
        weights = [*puzzle.model.state_dict().values()]
        weights += [*order.state_dict().values()] if isinstance(order, Policy) else []
        same = hashlib.sha256(b"".join(w.numpy().tobytes() for w in [*puzzle.test[1:], *weights])).hexdigest()[:16]
        if not results.has(name, same):
            solved = puzzle.task.solved(order, puzzle.test)
            results.put(name, same, int(solved.sum()), len(solved))


def say(text: str) -> None:
    Console(stderr=True).print(text, highlight=False)
