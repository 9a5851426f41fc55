"""'threshold(0.9)' as a name and what is in its brackets: counts, regions and recipes; each mistake pointed at."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from anyorder.errors import PlanError, near, pointer

Made = TypeVar("Made")
MOST = 2**40  # what a number in brackets may be
_CALL = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\(([^()]*)\))?\s*")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_NUMERIC = ("int", "float", int, float)


class Argument(NamedTuple):
    """What stands in brackets between two commas: 4, or size=4; and where in the text."""

    name: str | None
    value: int | float | str
    at: int


class Call(NamedTuple):
    """A name, and what is in its brackets."""

    text: str
    name: str
    arguments: list[Argument]


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
        at = len(text) - len(text.lstrip())
        raise pointed(f"no {what} {name!r}; {near(name, known)}there are {', '.join(known)}", text, at)
    if match is None:
        raise pointed(f"{what} {name}: expected one pair of brackets, with numbers in it", text, text.index("("))
    if match[2] is None or not match[2].strip():
        return Call(text, name, [])
    arguments, at = [], match.start(2)
    for part in match[2].split(","):
        arguments.append(_argument(part, text, at + len(part) - len(part.lstrip())))
        at += len(part) + 1
    return Call(text, name, arguments)


def _argument(part: str, text: str, at: int) -> Argument:
    name, equals, value = part.rpartition("=")
    if equals and not name.strip().isidentifier():
        raise pointed("what stands before = in brackets must be a name", text, at)
    return Argument(name.strip() if equals else None, _value(value.strip(), text, at), at)


def _value(said: str, text: str, at: int) -> int | float | str:
    try:
        value = float(said)
    except ValueError:
        if _WORD.fullmatch(said):
            return said
        raise pointed("what is in the brackets must be numbers or words", text, at) from None
    if not math.isfinite(value) or abs(value) > MOST:
        raise pointed(f"a number in brackets must be finite, and at most {MOST:,}", text, at)
    return int(value) if value == int(value) else value


def written(make: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters that brackets can give: numbers and words."""
    return [p for p in inspect.signature(make).parameters.values() if p.annotation in (*_NUMERIC, "str", str)]


def made(make: Callable[..., Made], said: Call) -> Made:
    """What the call makes; a mistake in it is pointed at."""
    known = {p.name: p for p in written(make)}
    takes = f"{said.name}({', '.join(known)})" if known else f"{said.name}, without brackets"
    end = len(said.text.rstrip())
    end -= said.text.rstrip()[-1:] == ")"
    given: dict[str, Argument] = {}
    for k, argument in enumerate(said.arguments):
        if argument.name is None and (k >= len(known) or any(a.name for a in said.arguments[:k])):
            raise pointed(f"{said.name} takes other numbers: {takes}", said.text, argument.at)
        name = argument.name or list(known)[k]
        if name not in known or name in given:
            problem = f"{name} is given twice" if name in given else f"{said.name} has no {name}"
            raise pointed(f"{problem}: {takes}", said.text, argument.at)
        _check_kind(said, known[name], argument)
        given[name] = argument
    if any(p.default is p.empty and name not in given for name, p in known.items()):
        raise pointed(f"{said.name} takes other numbers: {takes}", said.text, end)
    try:
        return make(**{name: argument.value for name, argument in given.items()})
    except ValueError as error:
        raise pointed(str(error), said.text, said.arguments[0].at if said.arguments else 0) from None


def _check_kind(said: Call, p: inspect.Parameter, argument: Argument) -> None:
    word = p.annotation in ("str", str)
    if word != isinstance(argument.value, str):
        raise pointed(f"{p.name} of {said.name} is a {'word' if word else 'number'}", said.text, argument.at)
    if p.annotation in ("int", int) and not isinstance(argument.value, int):
        raise pointed(f"{p.name} of {said.name} is a whole number, not {argument.value}", said.text, argument.at)
