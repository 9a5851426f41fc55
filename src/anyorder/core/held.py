"""Held: a context whose rows are copied when they are looked at. Hypotheses of a beam take each other's places at every
step; most copies that they would make of what they know would never be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Held:
    """A context, and the row of it that each of M hypotheses has."""

    context: Any
    row: Tensor  # (M,) int64
    size: int  # rows of the context

    @classmethod
    def all(cls, context: Any, rows: Tensor) -> Held:
        """Each hypothesis has the row in its own place, as `rows` (M,) = 0, 1, 2 … say."""
        return cls(context, rows, len(rows))

    def of(self, hypotheses: Tensor) -> Any:
        """The context of these hypotheses (m,): the one that is held, if they are all of its rows in their order."""
        rows = self.row[hypotheses]
        everything = torch.arange(self.size, device=rows.device)
        return self.context if torch.equal(rows, everything) else self.context.take(rows)
