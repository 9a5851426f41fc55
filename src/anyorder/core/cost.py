"""What a generation cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Cost:
    """What a generation cost; part of every result."""

    forwards: int = 0  # looks at the model: sequential passes, folded rows of one look counted once
    canvases: int = 0  # canvas rows passed through the model
    head_rows: int = 0  # rows projected onto the vocabulary

    @classmethod
    def total(cls, costs: Iterable[Cost]) -> Cost:
        """Of several things together."""
        out = cls()
        for cost in costs:
            out.add(cost)
        return out

    def __sub__(self, before: Cost) -> Cost:
        """What was spent since `before`."""
        return Cost(self.forwards - before.forwards, self.canvases - before.canvases, self.head_rows - before.head_rows)

    def add(self, other: Cost) -> None:
        """What something else cost, as well."""
        self.forwards += other.forwards
        self.canvases += other.canvases
        self.head_rows += other.head_rows
