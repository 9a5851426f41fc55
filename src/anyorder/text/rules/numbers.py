"""Numbers between bounds, as languages of their decimal digits: exactly, without a sign or digits too many."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache

import torch

from anyorder.core import Automaton
from anyorder.errors import RuleError
from anyorder.text.rules.language import (
    BYTES,
    Part,
    automaton_of,
    either,
    empty,
    literal,
    nothing,
    one_of,
    repeated,
    sequence,
    within,
)

DIGITS = 15  # of a whole number: what a double holds exactly
WHOLE, PLACES = 9, 6  # digits before and after the point of a number with bounds: together what a double tells apart
MOST = 10**DIGITS - 1
MOST_MULTIPLE = 1000
ANY = one_of(((48, 57),))


def digits(low: str, high: str) -> Part:
    """Strings of digits from `low` to `high`, all as long as these."""
    if low > high:
        return nothing
    if not low:
        return empty
    if set(low) == {"0"} and set(high) == {"9"}:
        return repeated(ANY, len(low), len(low))
    a, z = low[0], high[0]
    if a == z:
        return sequence([literal(a), digits(low[1:], high[1:])])
    rest = len(low) - 1
    parts = [sequence([literal(a), digits(low[1:], "9" * rest)]), sequence([literal(z), digits("0" * rest, high[1:])])]
    if ord(z) - ord(a) > 1:
        middle = one_of(((ord(a) + 1, ord(z) - 1),))
        parts.append(sequence([middle, repeated(ANY, rest, rest)]))
    return either(parts)


def natural(low: int, high: int) -> Part:
    """Whole numbers from low ≥ 0 to high, without leading zeros."""
    parts = []
    for size in range(len(str(low)), len(str(max(high, 0))) + 1):
        first, last = max(low, 10 ** (size - 1) if size > 1 else 0), min(high, 10**size - 1)
        if first <= last:
            parts.append(digits(str(first), str(last)))
    return either(parts)


def whole(low: int | None, high: int | None, multiple: int | None = None) -> Part:
    """Whole numbers from low to high (None: of up to 15 digits), and of them the multiples of a number."""
    if low is None and high is None and multiple in (None, 1):
        nonzero = sequence([one_of(((49, 57),)), repeated(ANY, 0, DIGITS - 1)])
        return either([literal("0"), sequence([repeated(literal("-"), 0, 1), nonzero])])
    low, high = -MOST if low is None else max(low, -MOST), MOST if high is None else min(high, MOST)
    parts = []
    if high >= 0:
        parts.append(natural(max(low, 0), high))
    if low < 0:
        parts.append(sequence([literal("-"), natural(max(-high, 1), -low)]))
    numbers = either(parts)
    if multiple in (None, 1):
        return numbers
    assert multiple is not None
    return within(automaton_of(numbers) & _multiples(multiple))


def _multiples(m: int) -> Automaton:
    """Digits, perhaps behind a sign, whose number is a multiple of m."""
    if m > MOST_MULTIPLE:
        raise RuleError(f"multipleOf {m} is not read: up to {MOST_MULTIPLE} is")
    step = torch.full((BYTES, m + 1), m + 1)  # state 0: the start, 1 + r: the remainder r
    remainder = torch.arange(m)
    for digit in range(10):
        step[48 + digit, 0] = 1 + digit % m
        step[48 + digit, 1:] = 1 + (remainder * 10 + digit) % m
    step[45, 0] = 0
    accept = torch.zeros(m + 1, dtype=torch.bool)
    accept[1] = True
    return Automaton.of_steps(step, accept)


@cache
def number() -> Part:
    """Any JSON number that a double holds without overflow."""
    fraction = sequence([literal("."), repeated(ANY, 1, DIGITS)])
    sign = repeated(one_of(((43, 43), (45, 45))), 0, 1)
    exponent = sequence([one_of(((69, 69), (101, 101))), sign, repeated(ANY, 1, 2)])
    return within(automaton_of(sequence([whole(None, None), repeated(fraction, 0, 1), repeated(exponent, 0, 1)])))


def decimal(low: Fraction | None, high: Fraction | None, above: bool, below: bool) -> Part:
    """Numbers from low to high (`above`: more than low, `below`: less than high), without an exponent."""
    most = Fraction(10**WHOLE - 1)
    low, above = (-most, False) if low is None or low < -most else (low, above)
    high, below = (most, False) if high is None or high > most else (high, below)
    parts = []
    if high >= 0:
        parts.append(_positive(max(low, Fraction(0)), high, above and low >= 0, below))
    if low < 0:
        negative = _positive(max(-high, Fraction(0)), -low, below and high <= 0, above, zero=False)
        parts.append(sequence([literal("-"), negative]))
    return either(parts)


def _positive(low: Fraction, high: Fraction, above: bool, below: bool, zero: bool = True) -> Part:
    """Numbers from low ≥ 0 to high; without `zero` at all, if that is not wanted."""
    if low > high:
        return nothing
    first, last = int(low), int(high)
    parts = []
    for start, end in ((first, first), (first + 1, last - 1), (last, last)) if last > first else ((first, first),):
        if start > end:
            continue
        least = _places(low - start) if start == first else None
        most = _places(high - start) if end == last else None
        fraction = _fraction(least, above and least is not None, most, below and most is not None)
        if start == 0 and not zero:  # −0 is no other number than 0
            small = _fraction(least or "", above or low == 0, most, below and most is not None)
            parts.append(sequence([literal("0"), small]))
            if end > 0:
                parts.append(sequence([natural(1, end), fraction]))
        else:
            parts.append(sequence([natural(start, end), fraction]))
    return either(parts)


def _places(rest: Fraction) -> str:
    """The digits behind the point, without zeros at the end."""
    text = f"{Decimal(rest.numerator) / Decimal(rest.denominator):f}"
    return text.split(".")[1].rstrip("0") if "." in text else ""


def _fraction(least: str | None, above: bool, most: str | None, below: bool) -> Part:
    """Nothing, or a point and digits, of a value from 0.least to 0.most (None: no bound)."""
    low = None if least is None else least.ljust(PLACES, "0")
    high = None if most is None else most.ljust(PLACES, "0")
    one = 1 if above else 0
    start = 0 if low is None else int(low) + one
    end = 10**PLACES - 1 if high is None else int(high) - (1 if below else 0)
    if start > end:
        return nothing
    parts: list[Part] = [empty] if start == 0 else []
    for size in range(1, PLACES + 1):  # 0.5 is 0.500000: each number of places by itself
        unit = 10 ** (PLACES - size)
        first, last = -(-start // unit), end // unit
        if first <= last:
            parts.append(sequence([literal("."), digits(str(first).zfill(size), str(last).zfill(size))]))
    return either(parts)
