"""The text form of an order: parse("negent + 0.9*logp") == negent + 0.9*logp."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from anyorder.core.order import FEATURES, Order
from anyorder.errors import UsageError, near, pointer

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][\w-]*)|(?P<op>[-+*()]))"
)

DEEPEST = 50  # brackets in brackets


class OrderError(UsageError):
    """A text that is not an order; the message points at the character."""

    def __init__(self, text: str, at: int, problem: str):
        super().__init__(f"{problem}\n{pointer(text, at)}")
        self.at = at


class _Parser:
    """order := term {('+'|'-') term};  term := {'+'|'-'} (number '*' factor | factor ['*' number]);
    factor := name | '(' order ')'."""

    def __init__(self, text: str, features: Mapping[str, Order]):
        self.text, self.features = text, features
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise OrderError(text, at, f"unexpected character {text[at]!r} in an order")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind], match.start(kind)))
            at = match.end()
        self.next = self.depth = 0

    def peek(self) -> tuple[str, str, int]:
        return self.tokens[self.next] if self.next < len(self.tokens) else ("end", "", len(self.text.rstrip()))

    def accept(self, *values: str) -> str | None:
        value = self.peek()[1]
        if value and value in values:
            self.next += 1
            return value
        return None

    def number(self) -> float | None:
        kind, value, at = self.peek()
        if kind != "number":
            return None
        self.next += 1
        if not math.isfinite(float(value)):
            raise OrderError(self.text, at, "this number is too large")
        return float(value)

    def order(self) -> Order:
        total = self.term()
        while sign := self.accept("+", "-"):
            term = self.term()
            total = total + (-term if sign == "-" else term)
        return total

    def term(self) -> Order:
        flips = 0
        while sign := self.accept("-", "+"):
            flips += sign == "-"
        unsigned = self.unsigned()
        return -unsigned if flips % 2 else unsigned

    def unsigned(self) -> Order:
        weight = self.number()
        if weight is not None:
            if not self.accept("*"):
                raise OrderError(self.text, self.peek()[2], "a number must be followed by '*' and a feature")
            return weight * self.factor()
        factor = self.factor()
        if self.accept("*"):
            weight = self.number()
            if weight is None:
                raise OrderError(self.text, self.peek()[2], "expected a number after '*'")
            return weight * factor
        return factor

    def factor(self) -> Order:
        if self.accept("("):
            self.depth += 1
            if self.depth > DEEPEST:
                raise OrderError(self.text, self.peek()[2], f"brackets can be nested {DEEPEST} deep, not deeper")
            inside = self.order()
            self.depth -= 1
            if not self.accept(")"):
                raise OrderError(self.text, self.peek()[2], "expected ')'")
            return inside
        kind, value, at = self.peek()
        if kind != "name":
            what = f"expected a feature, found {value!r}" if value else "expected a feature, found the end"
            raise OrderError(self.text, at, f"{what}; there are {', '.join(self.features)}")
        if value not in self.features:
            hint = near(value, self.features)
            raise OrderError(self.text, at, f"no feature {value!r}; {hint}there are {', '.join(self.features)}")
        self.next += 1
        return self.features[value]


def parse(text: str, features: Mapping[str, Order] = FEATURES) -> Order:
    """An order from text: features, numbers, + − * and parentheses. Raises OrderError with a pointer."""
    parser = _Parser(text, features)
    order = parser.order()
    kind, value, at = parser.peek()
    if kind != "end":
        raise OrderError(text, at, f"unexpected {value!r} after a complete order")
    return order
