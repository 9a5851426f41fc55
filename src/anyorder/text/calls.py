"""'threshold(0.9)' as a name and its numbers: how counts, regions and recipes are written, each mistake pointed at."""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from anyorder.errors import PlanError, pointer

Made = TypeVar("Made")
MOST = 2**40  # what a number in brackets may be
_CALL = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\(([^()]*)\))?\s*")
_NUMERIC = ("int", "float", int, float)


class Call(NamedTuple):
    """A name, the numbers in its brackets, and where each of them stands in the text."""

    text: str
    name: str
    numbers: list[int | float]
    at: list[int]


def pointed(problem: str, text: str, at: int) -> PlanError:
    """An error that shows the text and points at a character of it."""
    return PlanError(f"{problem}\n{pointer(text, at)}")


def named(text: str) -> tuple[str, bool] | None:
    """What a call is a call of, and whether it has brackets; None where it is none."""
    match = _CALL.fullmatch(text)
    return None if match is None else (match[1].replace("_", "-"), match[2] is not None)


def call(text: str, known: Mapping[str, object], what: str) -> Call:
    """The call that a text is, of one of the names known; `what` they are."""
    match = _CALL.fullmatch(text)
    name = match[1].replace("_", "-") if match else text.split("(")[0].strip()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        at = len(text) - len(text.lstrip())
        raise pointed(f"no {what} {name!r}; {hint}there are {', '.join(known)}", text, at)
    if match is None:
        raise pointed(f"{what} {name}: expected one pair of brackets, with numbers in it", text, text.index("("))
    if match[2] is None or not match[2].strip():
        return Call(text, name, [], [])
    numbers, places, at = [], [], match.start(2)
    for part in match[2].split(","):
        here = at + len(part) - len(part.lstrip())
        numbers.append(_number(part, text, here))
        places.append(here)
        at += len(part) + 1
    return Call(text, name, numbers, places)


def _number(part: str, text: str, at: int) -> int | float:
    try:
        value = float(part)
    except ValueError:
        raise pointed("what is in the brackets must be numbers", text, at) from None
    if not math.isfinite(value) or abs(value) > MOST:
        raise pointed(f"a number in brackets must be finite, and at most {MOST:,}", text, at)
    return int(value) if value == int(value) else value


def made(make: Callable[..., Made], said: Call) -> Made:
    """What the call makes; a mistake in it is pointed at."""
    wanted = []
    for p in inspect.signature(make).parameters.values():
        if p.annotation not in _NUMERIC:
            break  # only numbers can be written in brackets
        wanted.append(p)
    needed = sum(p.default is p.empty for p in wanted)
    end = len(said.text.rstrip())
    if not needed <= len(said.numbers) <= len(wanted):
        takes = f"{said.name}({', '.join(p.name for p in wanted)})" if wanted else f"{said.name}, without brackets"
        at = said.at[len(wanted)] if len(said.numbers) > len(wanted) else end - (bool(said.text.rstrip()[-1:] == ")"))
        raise pointed(f"{said.name} takes other numbers: {takes}", said.text, at)
    for p, value, at in zip(wanted, said.numbers, said.at, strict=False):
        if p.annotation in ("int", int) and not isinstance(value, int):
            raise pointed(f"{p.name} of {said.name} is a whole number, not {value}", said.text, at)
    try:
        return make(*said.numbers)
    except ValueError as error:
        raise pointed(str(error), said.text, said.at[0] if said.at else 0) from None
