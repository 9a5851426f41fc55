"""Two choices that the paper makes otherwise than we do, measured side by side: which length, and how to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyorder.experiments.cells import Cell, Criterion
from anyorder.experiments.results import Row

if TYPE_CHECKING:
    from anyorder.experiments.grid import Scope

CHOSEN: dict[str, tuple[Criterion, bool]] = {  # how one of the length candidates is chosen: by what, and is it a sum?
    "written": ("written", False),
    "pll": ("pll", False),
    "ar": ("ar", False),
    "Eq. 4 (sum)": ("written", True),
    "the paper's (PLL, sum)": ("pll", True),
}
BOTH = ("written", "the paper's (PLL, sum)")  # compared for every order
AGAIN = (  # where written positions are judged, so that it matters how: (name, order, steps, count)
    ("least2most, L→1, T = 10", "least2most", 10, "anneal"),
    ("easy-first, L→1, T = 10", "easy-first", 10, "anneal"),
    ("least2most, L→1, T = 20", "least2most", 20, "anneal"),
    ("easy-first, T = 2L", "easy-first", "2L", None),
)


def criteria(scope: Scope, direction: str) -> dict[str, Row]:
    """How the choice among the length candidates matters (easy-first, on val)."""
    cell = Cell(scope.val, direction, "easy-first")
    return {
        name: Row(cell, criterion, plain=plain)
        for name, (criterion, plain) in CHOSEN.items()
        if criterion != "ar" or scope.autoregressive
    }


def lengths_chosen(scope: Scope, direction: str) -> dict[tuple[str, ...], Row]:
    """Table 1's first rows (b = 1, T = L), the length chosen by our rule and by the paper's: by (chosen by, order)."""
    orders = {} if scope.quick else {name: scope.order(name, direction) for name in scope.columns}
    return {
        (how, name): Row(Cell(scope.main, direction, order), CHOSEN[how][0], plain=CHOSEN[how][1])
        for name, order in orders.items()
        if order is not None
        for how in BOTH
    }


def conditionals(scope: Scope, direction: str) -> dict[tuple[str, ...], Row]:
    """Positions judged as they stand and, as the paper defines it, masked: by (decoder, conditionals)."""
    return {
        (name, how): Row(Cell(scope.main, direction, order, steps, count, conditionals=how), scope.criterion)
        for name, order, steps, count in ([] if scope.quick else AGAIN)
        for how in ("visible", "masked")
    }
