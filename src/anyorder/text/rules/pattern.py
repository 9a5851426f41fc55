"""Regular expressions as people write them in Python, as languages of texts; what is no regular language is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from anyorder.errors import RuleError
from anyorder.text.rules.language import (
    ALL,
    TOP,
    Part,
    Ranges,
    clipped,
    common,
    either,
    empty,
    one_of,
    outside,
    repeated,
    sequence,
)

MOST_CHARACTERS = 10_000  # of an expression
Leaf = Callable[[Ranges], Part]  # how one character of these ranges is written

DIGIT: Ranges = ((48, 57),)
WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACE: Ranges = ((9, 13), (32, 32))
# A position that "\d" may take is an ASCII digit; "\D" leaves out what is a digit anywhere: right under every reading.
_ASCII = {"DIGIT": DIGIT, "WORD": WORD, "SPACE": SPACE}
_LINE_ENDS: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))
DOT = outside(_LINE_ENDS)


def pattern(expression: str) -> Part:
    """The texts that an expression matches as a whole; ^ and $ around it say nothing more."""
    parsed = _parsed(expression)
    return _Reading(expression, one_of, bool(parsed.state.flags & re.DOTALL)).whole(parsed)[0]


def found_in(expression: str, leaf: Leaf) -> Part:
    """The texts in which an expression is found (JSON Schema's way), each character written by `leaf`."""
    parsed = _parsed(expression)
    reading = _Reading(expression, leaf, bool(parsed.state.flags & re.DOTALL))
    return reading.somewhere(parsed, repeated(leaf(ALL), 0, None))


def _parsed(expression: str) -> Any:
    if not isinstance(expression, str):
        raise RuleError(f"a pattern is a text, not {expression!r}")
    if len(expression) > MOST_CHARACTERS:
        raise RuleError(f"the pattern has {len(expression):,} characters, and {MOST_CHARACTERS:,} are read")
    try:
        expression.encode()
        parsed = _parser.parse(expression)
    except (re.error, RecursionError, OverflowError, UnicodeEncodeError) as error:
        raise RuleError(f"{_short(expression)} is no regular expression: {error}") from None
    flags = parsed.state.flags & ~(re.UNICODE | re.DOTALL | re.ASCII)
    if flags:
        raise RuleError(f"{_short(expression)}: flags such as (?i) are not read: write out what may stand there")
    return parsed


def _short(expression: str) -> str:
    return repr(expression if len(expression) <= 60 else expression[:59] + "…")


class _Reading:
    """One expression, as Python's own parser understands it."""

    def __init__(self, expression: str, leaf: Leaf, dotall: bool) -> None:
        self.expression, self.leaf, self.dot = expression, leaf, ALL if dotall else DOT

    def refuse(self, what: str) -> RuleError:
        return RuleError(f"{_short(self.expression)}: {what}")

    # ------------------------------------------------------------------ anchors

    def whole(self, items: Sequence[Any]) -> tuple[Part, bool, bool]:
        """The language without anchors at its ends, and which ends had one."""
        items, left, right = list(items), False, False
        while items and items[0] in ((c.AT, c.AT_BEGINNING), (c.AT, c.AT_BEGINNING_STRING)):
            items, left = items[1:], True
        while items and items[-1] in ((c.AT, c.AT_END), (c.AT, c.AT_END_STRING)):
            items, right = items[:-1], True
        if len(items) == 1 and (branches := self._branches(items[0])) is not None:
            return either(self.whole(branch)[0] for branch in branches), left, right
        return sequence(self.item(*item) for item in items), left, right

    def somewhere(self, items: Sequence[Any], anything: Part) -> Part:
        """The language of texts that contain one of it, at an end where an anchor says so."""
        items, left, right = list(items), False, False
        while items and items[0] in ((c.AT, c.AT_BEGINNING), (c.AT, c.AT_BEGINNING_STRING)):
            items, left = items[1:], True
        while items and items[-1] in ((c.AT, c.AT_END), (c.AT, c.AT_END_STRING)):
            items, right = items[:-1], True
        before, after = empty if left else anything, empty if right else anything
        if len(items) == 1 and (branches := self._branches(items[0])) is not None:
            inner = either(
                self.somewhere([*_mark(left, c.AT_BEGINNING), *branch, *_mark(right, c.AT_END)], anything)
                for branch in branches
            )
            return inner
        return sequence([before, *(self.item(*item) for item in items), after])

    @staticmethod
    def _branches(item: Any) -> list[Any] | None:
        """The alternatives that an item is, if it is nothing else."""
        kind, value = item
        if kind is c.BRANCH:
            return list(value[1])
        if kind is c.SUBPATTERN and not value[1] and not value[2]:
            return [value[3]]
        return None

    # ------------------------------------------------------------------ parts

    def items(self, items: Sequence[Any]) -> Part:
        return sequence(self.item(*item) for item in items)

    def item(self, kind: Any, value: Any) -> Part:
        """The language of one item of the parsed expression."""
        if kind is c.LITERAL:
            return self.characters(((value, value),))
        if kind is c.NOT_LITERAL:
            return self.characters(outside([(value, value)]))
        if kind is c.ANY:
            return self.characters(self.dot)
        if kind is c.IN:
            return self.characters(self._set(value))
        if kind is c.BRANCH:
            return either(self.items(branch) for branch in value[1])
        if kind is c.SUBPATTERN:
            if value[1] or value[2]:
                raise self.refuse("flags such as (?i) are not read: write out what may stand there")
            return self.items(value[3])
        if kind in (c.MAX_REPEAT, c.MIN_REPEAT):
            least, most, inner = value
            return repeated(self.items(inner), int(least), None if most is c.MAXREPEAT else int(most))
        if kind is c.AT:
            raise self.refuse("^ and $ are read at the ends, \\b and anchors elsewhere are not: leave them out")
        what = {
            c.ASSERT: "looking ahead or behind", c.ASSERT_NOT: "looking ahead or behind",
            c.GROUPREF: "going back to a group (\\1)", c.GROUPREF_EXISTS: "a condition on a group",
        }.get(kind, f"{str(kind).lower().replace('_', ' ')}")  # fmt: skip
        raise self.refuse(f"{what} is no part of a regular language and is not read")

    def characters(self, ranges: Ranges) -> Part:
        return self.leaf(clipped(ranges))

    def _set(self, items: Sequence[Any]) -> Ranges:
        negative = bool(items) and items[0][0] is c.NEGATE
        ranges: list[tuple[int, int]] = []
        for kind, value in items[negative:]:
            if kind is c.LITERAL:
                ranges.append((value, value))
            elif kind is c.RANGE:
                ranges.append(value)
            elif kind is c.CATEGORY:
                ranges += _category(str(value).removeprefix("CATEGORY_"), wide=negative)
            else:
                raise self.refuse(f"{kind} within [] is not read")
        return outside(ranges) if negative else clipped(ranges)


def _mark(there: bool, where: Any) -> list[Any]:
    return [(c.AT, where)] if there else []


def _category(name: str, wide: bool) -> Ranges:
    r"""\d \w \s and their opposites; `wide`: what they are under any reading, since the opposite of it is asked for."""
    plain = name.removeprefix("NOT_")
    if name == plain:
        return common(ALL, _unicode(plain)) if wide else _ASCII[plain]
    return outside(_ASCII[plain]) if wide else outside(_unicode(plain))


@cache
def _unicode(name: str) -> Ranges:
    says = {"DIGIT": str.isdigit, "WORD": lambda x: x.isalnum() or x == "_", "SPACE": str.isspace}[name]
    out: list[tuple[int, int]] = [(0xFEFF, 0xFEFF)] if name == "SPACE" else []
    start: int | None = None
    for point in range(TOP + 2):
        inside = point <= TOP and says(chr(point))
        if inside and start is None:
            start = point
        elif not inside and start is not None:
            out.append((start, point - 1))
            start = None
    return clipped(out)
