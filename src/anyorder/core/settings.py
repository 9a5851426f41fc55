"""What the numbers of a setting may be, checked and said in one way: NaN and half steps go no further than here."""

from __future__ import annotations

import math
from typing import Any


def whole_number(name: str, value: Any, least: int = 1) -> None:
    """Raises ValueError unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value}")


def real_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> None:
    """Raises ValueError unless `value` is a number from `low` to `high`; NaN and infinity never are."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if plain and math.isfinite(value) and low <= value <= high:
        return
    bounds = "" if low == -math.inf else f" of at least {low:g}" if high == math.inf else f" from {low:g} to {high:g}"
    raise ValueError(f"{name} must be a number{bounds}, got {value}")
