"""Forms to fill in: totals that the corpus mostly leaves at 0, and a running balance. The right order is known.

A form has `bills` of an amount and its total, and a balance of `chain` lines, its fields in random order. The input
says of each position which field it is, and has a note for it (a digit).

    amount         = its note; but 4 in 10 amounts of the corpus are typing errors (any digit)
    total          = its amount + its note, mod `digits`; 8 in 10 bills of the corpus are blank: amount ∅, total 0
    balance line j = balance line j−1 + its note, mod `digits` (line 1: its note)

A model of this corpus is sure that a total is 0 until its amount is written, and never sure of an amount; of a balance
line it knows nothing until the line before is written. We ask for complete forms (∅ is banned): then an order is right
if it writes each amount before its total, and the balance from line 1 on.

    python examples/puzzles/forms.py            a few minutes on two cores; run again to go on
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from learning import Puzzle, PuzzleTask, arguments, main
from masked import MaskedModel, Puzzles, fit
from torch import Tensor, nn

from anyorder.core import Feature
from anyorder.core.state import State, View
from anyorder.training.ppo import Settings

MASK, BLANK, ZERO = 0, 1, 2  # symbols: <mask>, ∅, and the digits from ZERO on
TYPO, LEFT_BLANK = 0.4, 0.8


class Notes(NamedTuple):
    """The inputs of N forms, and the engine's Context."""

    field: Tensor  # (N, L) which field stands at a position: amount and total of each bill, then the balance's lines
    note: Tensor  # (N, L) digit

    def take(self, rows: Tensor) -> Notes:
        return Notes(self.field[rows], self.note[rows])


@dataclass(frozen=True)
class Layout:
    bills: int = 4
    chain: int = 5
    digits: int = 7

    @property
    def fields(self) -> int:
        return 2 * self.bills + self.chain

    def draw(self, count: int, g: torch.Generator, complete: bool) -> tuple[Notes, Tensor]:
        """Forms as the corpus has them, or complete ones without typing errors: what they should become."""
        note = torch.randint(self.digits, (count, self.fields), generator=g)
        amount, tax = note[:, : 2 * self.bills].view(count, self.bills, 2).unbind(-1)
        blank = torch.zeros(count, self.bills, dtype=torch.bool)
        if not complete:
            typed = torch.randint(self.digits, amount.shape, generator=g)
            amount = torch.where(torch.rand(amount.shape, generator=g) < TYPO, typed, amount)
            blank = torch.rand(amount.shape, generator=g) < LEFT_BLANK
        bills = torch.stack([amount, (amount + tax) % self.digits], -1) + ZERO
        bills = torch.where(blank[..., None], torch.tensor([BLANK, ZERO]), bills).flatten(1)
        balance = note[:, 2 * self.bills :].cumsum(-1) % self.digits + ZERO
        field = torch.rand(count, self.fields, generator=g).argsort(-1)
        return Notes(field, note.gather(1, field)), torch.cat([bills, balance], 1).gather(1, field)

    def puzzles(self, count: int, seed: int) -> Puzzles:
        notes, values = self.draw(count, torch.Generator().manual_seed(seed), complete=True)
        return Puzzles(notes, torch.full_like(values, MASK), values)

    def rank(self, field: Tensor) -> Tensor:
        """A right order as numbers, the first field the largest: amounts, the balance line by line, totals."""
        total = (field < 2 * self.bills) & (field % 2 == 1)
        line = field - 2 * self.bills + 1
        return torch.where(total, -self.fields, torch.where(line > 0, -line, 0)).float()


class FormModel(MaskedModel):
    """A masked model that sees each position's field and note."""

    def __init__(self, layout: Layout, width: int, layers: int) -> None:
        super().__init__(ZERO + layout.digits, MASK, width, layers)
        self.field, self.note = nn.Embedding(layout.fields, width), nn.Embedding(layout.digits, width)

    def embed(self, context: Notes) -> Tensor:
        seen: Tensor = self.field(context.field) + self.note(context.note)
        return seen


SETTINGS = Settings(
    iterations=30, generations=256, group=8, buffer=0, update_batch=1024, updates=8, gamma=1.0, value_weight=0.0,
    hidden=256, learning_rate=1e-3, entropy=0.01, entropy_end=0.0, cooldown=True, reward="right-symbols",
    validate_every=10,
)  # fmt: skip


def forms(seed: int, layout: Layout | None = None, steps: int = 2500) -> Puzzle:
    """The model, its training and the task."""
    layout = layout or Layout()
    torch.manual_seed(seed)
    model = FormModel(layout, 48, 1)
    test = layout.puzzles(2000, 3)
    task = PuzzleTask(model, layout.puzzles(20_000, 1), layout.puzzles(500, 2), ban=(BLANK,))

    def rank(state: State, view: View) -> Tensor:
        return layout.rank(test.context.field[state.row])

    def train(kept: Path | None) -> float:
        return fit(model, lambda g: layout.draw(128, g, complete=False), steps, 3e-3, seed, kept=kept)

    return Puzzle("forms", model, train, task, test, SETTINGS, Feature("known best", rank))


if __name__ == "__main__":
    main(forms, arguments(__doc__))
