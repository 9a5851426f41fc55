"""What the puzzles share: train a small masked model, learn its order, compare that with handcrafted orders.

A puzzle is a canvas with some symbols written and the one solution it should become. Every order solves the same
held-out puzzles with the same model, so that only the order in which positions are filled differs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from anyorder.core import Order, Symbols, begin, confidence, decode, leftmost, logp, margin, negent, random
from anyorder.core.coordinates import Coordinates
from anyorder.core.count import ONE, Count
from anyorder.core.decoder import Decoder
from anyorder.core.state import State
from anyorder.models.policy import Policy
from anyorder.training.checkpoint import load_checkpoint, save_checkpoint
from anyorder.training.learn_order import learn
from anyorder.training.ppo import Settings
from anyorder.training.rollout import Episodes

HANDCRAFTED: dict[str, Order] = {
    "uniform": random,
    "left2right": leftmost,
    "confidence": confidence,
    "margin": margin,
    "entropy": negent,
    "easy-first": negent + logp,
    "hard-first": -negent + -logp,
    "least2most": logp,
    "least confident": -confidence,
}


class Puzzles(NamedTuple):
    """N canvases, what they should become, and the inputs of each."""

    context: Any  # has take(rows), as the engine's contexts have
    canvas: Tensor  # (N, L), the model's mask_id where nothing is written
    solution: Tensor  # (N, L)

    def take(self, rows: Tensor) -> Puzzles:
        return Puzzles(self.context.take(rows), self.canvas[rows], self.solution[rows])


class MaskedModel(nn.Module):
    """A Transformer over the sum of embeddings that `embed` gives: p(symbol at each position | what is written)."""

    def __init__(self, symbols: int, mask_id: int, width: int, layers: int, heads: int = 4) -> None:
        super().__init__()
        self.mask_id, self.pad_id, self.width = mask_id, symbols, width
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.symbol = nn.Embedding(symbols + 1, width)
        self.body = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, symbols + 1)

    def encode(self, source: Any) -> Any:
        return source

    def embed(self, context: Any) -> Tensor:
        """What is known of each position beside its symbol: (N, L, width), or (L, width) for all rows."""
        raise NotImplementedError

    def hidden(self, context: Any, tokens: Tensor) -> Tensor:
        """(N, L) → (N, L, width)"""
        states: Tensor = self.body(self.symbol(tokens) + self.embed(context))
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """(M, width) → (M, symbols + 1); <mask> and padding are no symbols to write."""
        logits: Tensor = self.head(hidden)
        return logits.index_fill(-1, torch.tensor([self.mask_id, self.pad_id]), -torch.inf)


def fit(model: MaskedModel, draw: Callable[[], tuple[Any, Tensor]], steps: int, lr: float, seed: int = 0) -> float:
    """Cross-entropy at masked positions, their share uniform in 0–100 %; returns the last smoothed loss.

    `draw` gives a batch: inputs, and the symbols (B, L).
    """
    g = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, lr, total_steps=steps, pct_start=0.1)
    smooth = 0.0
    model.train()
    for step in range(steps):
        context, solved = draw()
        masked = torch.rand(solved.shape, generator=g) < torch.rand(len(solved), 1, generator=g)
        masked[0, 0] = True  # something to learn from in any batch
        hidden = model.hidden(context, solved.masked_fill(masked, model.mask_id))
        loss = nn.functional.cross_entropy(model.logits(hidden[masked]), solved[masked])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        smooth = loss.item() if step == 0 else 0.98 * smooth + 0.02 * loss.item()
    model.eval()
    return smooth


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
    """What one example brings along."""

    name: str
    model: MaskedModel
    fit: Callable[[], float]  # trains the model
    task: PuzzleTask
    test: Puzzles
    settings: Settings
    known: Order | None = None  # a best order, where one is known


def arguments(about: str | None, size: tuple[int, ...] = ()) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    if size:
        parser.add_argument("--size", type=int, default=size[0], choices=size)
    parser.add_argument("--method", choices=["ppo", "reinforce", "imitation"], help="other than the example's own")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder to keep the model and the policy in")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def run(puzzle: Puzzle, options: argparse.Namespace) -> None:
    """Train the model and its policy (or go on where an earlier run stopped), then compare the orders."""
    started, folder = time.monotonic(), options.out / f"{puzzle.name}-{options.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    kept = load_checkpoint(folder / "model.pt")
    if kept is None:
        console.print(f"model: loss {puzzle.fit():.3f}, {time.monotonic() - started:.0f} seconds")
        save_checkpoint(folder / "model.pt", puzzle.model.state_dict())
    else:
        puzzle.model.load_state_dict(kept)
    puzzle.model.eval()
    settings = replace(puzzle.settings, seed=options.seed, method=options.method or puzzle.settings.method)
    about = {"model": puzzle.name, "method": settings.method, "reward": settings.reward}
    policy = learn(puzzle.task, settings.policy(puzzle.model.width, about), settings, folder, puzzle.name)
    policy.save(folder / "policy.safetensors")
    compare(puzzle, policy)
    console.print(f"{time.monotonic() - started:.0f} seconds")


def compare(puzzle: Puzzle, policy: Policy) -> None:
    orders = HANDCRAFTED | {"learned": policy} | ({"known best": puzzle.known} if puzzle.known else {})
    table = Table("order", "solved, %", title=f"{puzzle.name}: {len(puzzle.test.canvas)} held-out puzzles")
    for name, order in orders.items():
        table.add_row(name, f"{100 * float(puzzle.task.solved(order, puzzle.test).float().mean()):.1f}")
    Console().print(table)
