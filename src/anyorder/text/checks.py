"""Options that are numbers: one that is none, or that makes no sense, is refused with a sentence."""

from __future__ import annotations

import math
import numbers
from typing import Any

from anyorder.errors import PlanError

MOST = 2**40


def whole_number(name: str, value: Any, least: int = 1, most: int = MOST) -> None:
    """Refuse what is not a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise PlanError(f"{name} is a whole number, not {value!r}")
    value = int(value)
    if not least <= value <= most:
        limit = f"at least {least}" if value < least else f"at most {most:,}"
        raise PlanError(f"{name} must be {limit}, got {value}")


def positive(name: str, value: Any, zero: bool = True) -> None:
    """Refuse what is not a finite number from 0 on (above it, without `zero`)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise PlanError(f"{name} is a number, not {value!r}")
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise PlanError(f"{name} must be {'at least' if zero else 'above'} 0, and finite; got {value}")
