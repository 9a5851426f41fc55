"""Options have the types that they are declared with: what a person typed is checked before anything reads it."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from anyorder.errors import PlanError

_WORDS = {int: "a whole number", float: "a number", str: "a text", NoneType: "None"}


def check_types(part: Any) -> None:
    """Raises PlanError for the first field of a dataclass whose value is of no type that it may have."""
    for field in fields(part):
        value, kinds = getattr(part, field.name), _kinds(part.__class__)[field.name]
        if not any(_fits(value, kind) for kind in kinds):
            words = [word for kind in kinds if kind is not NoneType for word in _said(kind)]
            wanted = " or ".join([", ".join(words[:-1])] * (len(words) > 1) + words[-1:])
            raise PlanError(f"{field.name} must be {wanted}, got {value!r}")


@cache
def _kinds(part: Any) -> dict[str, tuple[Any, ...]]:
    """The types that each field may have."""
    hints = get_type_hints(part).items()
    return {name: get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,) for name, hint in hints}


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (int, float):
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
        return whole or (kind is float and isinstance(value, float) and not math.isnan(value))
    return isinstance(value, kind)


def _said(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else (_WORDS.get(kind) or kind.__name__,)
