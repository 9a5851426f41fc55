"""The puzzles' models: a small Transformer whose attention heads may be told who sees whom, and its training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from anyorder.training.checkpoint import ProgressBar, TrainingError, load_checkpoint, save_checkpoint

Draw = Callable[[torch.Generator], tuple[Any, Tensor]]  # a batch: inputs, and the symbols (B, L)


class Puzzles(NamedTuple):
    """N canvases, what they should become, and the inputs of each."""

    context: Any  # has take(rows), as the engine's contexts have
    canvas: Tensor  # (N, L), the model's mask_id where nothing is written
    solution: Tensor  # (N, L)

    def take(self, rows: Tensor) -> Puzzles:
        return Puzzles(self.context.take(rows), self.canvas[rows], self.solution[rows])


class Block(nn.Module):
    """Attention, then two layers on each position; both added to what was there."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, sees: Tensor | None) -> Tensor:
        """(N, L, width); `sees` (N or 1, heads, L, L) bool, none: every head sees everything."""
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, sees)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        added: Tensor = x + self.outer(nn.functional.gelu(self.inner(self.second(x))))
        return added


class MaskedModel(nn.Module):
    """p(symbol at each position | what is written). A puzzle says what is known of positions: `embed`, `sees`."""

    def __init__(self, symbols: int, mask_id: int, width: int, layers: int, heads: int = 4) -> None:
        super().__init__()
        self.mask_id, self.pad_id, self.width, self.heads = mask_id, symbols, width, heads
        self.symbol = nn.Embedding(symbols + 1, width)
        self.body = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols + 1)

    def encode(self, source: Any) -> Any:
        return source

    def embed(self, context: Any) -> Tensor | float:
        """What is known of each position beside its symbol: (N, L, width); 0: nothing."""
        return 0.0

    def sees(self, context: Any) -> Tensor | None:
        """(N or 1, heads, L, L) which positions each head sees from each; none: all."""
        return None

    def hidden(self, context: Any, tokens: Tensor) -> Tensor:
        """(N, L) → (N, L, width)"""
        states: Tensor = self.symbol(tokens) + self.embed(context)
        sees = self.sees(context)
        for block in self.body:
            states = block(states, sees)
        out: Tensor = self.norm(states)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """(M, width) → (M, symbols + 1); <mask> and padding are no symbols to write."""
        logits: Tensor = self.head(hidden)
        return logits.index_fill(-1, torch.tensor([self.mask_id, self.pad_id]), -torch.inf)


def fit(
    model: MaskedModel,
    draw: Draw,
    steps: int,
    lr: float,
    seed: int = 0,
    most: float = 1.0,
    kept: Path | None = None,
    planned: int = 0,
) -> float:
    """Cross-entropy at masked positions, their share uniform in 0 … `most`; returns the last smoothed loss.

    The learning rate rises and falls over the `planned` steps (0: over those that are made). With `kept` the
    state is written there every 200 steps, and a second call goes on from it, to the same end.
    """
    g = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, lr, total_steps=planned or steps, pct_start=0.1)
    start, smooth = 0, 0.0
    state = load_checkpoint(kept) if kept else None
    if state is not None:
        if state["step"] > steps or state["schedule"]["total_steps"] != schedule.total_steps:
            raise TrainingError(f"{kept} was trained for another number of steps: delete it, or use another folder")
        for part, was in ((model, "model"), (optimiser, "optimiser"), (schedule, "schedule")):
            part.load_state_dict(state[was])
        g.set_state(state["generator"])
        start, smooth = state["step"], state["loss"]
    model.train()
    with ProgressBar("model", steps, start, enabled=kept is not None) as bar:
        for step in range(start, steps):
            context, solved = draw(g)
            masked = torch.rand(solved.shape, generator=g) < most * torch.rand(len(solved), 1, generator=g)
            masked[0, 0] = True  # something to learn from in any batch
            hidden = model.hidden(context, solved.masked_fill(masked, model.mask_id))
            loss = nn.functional.cross_entropy(model.logits(hidden[masked]), solved[masked])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            smooth = loss.item() if step == 0 else 0.98 * smooth + 0.02 * loss.item()
            bar.step(loss.item(), solved.numel())
            if kept and ((step + 1) % 200 == 0 or step + 1 == steps):
                parts = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
                more = {"schedule": schedule.state_dict(), "generator": g.get_state(), "step": step + 1, "loss": smooth}
                save_checkpoint(kept, parts | more)
    model.eval()
    return smooth
