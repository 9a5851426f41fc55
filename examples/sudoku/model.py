"""A small masked model of Sudoku grids: a Transformer whose position encoding is a cell's row, column and box."""

from __future__ import annotations

from typing import Any

import torch
from grids import Shape
from torch import Tensor, nn

from anyorder.core.model import NoContext


class GridModel(nn.Module):
    """p(symbol at each cell | the filled cells), as the engine's Model: canvas ids 0 = <mask>, 1..side = symbols."""

    mask_id = 0

    def __init__(self, shape: Shape, width: int = 64, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.shape, self.width = shape, width
        self.pad_id = shape.side + 1
        self.symbol = nn.Embedding(shape.side + 2, width)
        self.row, self.column, self.box = (nn.Embedding(shape.side, width) for _ in range(3))
        self.register_buffer("units", torch.tensor(shape.units), persistent=False)  # (cells, 3)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, shape.side + 2)

    def encode(self, source: Any = None) -> NoContext:
        return NoContext()

    def hidden(self, context: Any, tokens: Tensor) -> Tensor:
        """(N, cells) → (N, cells, width)"""
        row, column, box = self.units.unbind(-1)
        return self.body(self.symbol(tokens) + self.row(row) + self.column(column) + self.box(box))

    def logits(self, hidden: Tensor) -> Tensor:
        """(M, width) → (M, side + 2)"""
        return self.head(hidden)


def train(model: GridModel, grids: Tensor, steps: int, batch: int, lr: float, seed: int, progress: Any = None) -> float:
    """Cross-entropy at masked cells, the share of masked cells uniform in 0–100 %; returns the last smoothed loss."""
    g = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, lr, total_steps=steps, pct_start=0.1)
    smooth = 0.0
    model.train()
    for step in range(steps):
        solved = grids[torch.randint(len(grids), (batch,), generator=g)]
        masked = torch.rand(solved.shape, generator=g) < torch.rand(batch, 1, generator=g)
        hidden = model.hidden(None, solved.masked_fill(masked, model.mask_id))
        loss = nn.functional.cross_entropy(model.logits(hidden[masked]), solved[masked])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        smooth = loss.item() if step == 0 else 0.98 * smooth + 0.02 * loss.item()
        if progress:
            progress(step + 1, smooth)
    model.eval()
    return smooth
