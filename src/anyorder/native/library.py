"""The compiled kernels, where there are any that this machine can run."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

NAME = "anyorder.native._kernels"
VERSION = 4  # of the functions and their arguments: a library compiled from an older source is not used
_AT, _LEN = ctypes.c_void_p, ctypes.c_int64
ARGUMENTS: dict[str, list[Any]] = {
    "usable": [_LEN],
    "linear": [_AT, _LEN, _LEN, _LEN, _AT, _AT, _LEN, _AT, _LEN],
    "best": [_AT, _LEN, _LEN, _AT, _AT, _LEN, _AT, _LEN, ctypes.c_float, _LEN, *[_AT] * 8],
    "likeliest": [_AT, _LEN, _LEN, _AT, _AT, _LEN, _AT, _AT, _LEN, _AT, _AT],
    "rounded": [_AT, _LEN, _LEN, _AT, _LEN, _AT, _LEN, _AT, _LEN],
    "column": [_AT, _AT, _LEN, _AT, _AT, _AT, _AT, _LEN],
    "run": [_AT, _AT, _AT, _LEN, _LEN, _AT, _LEN, _LEN, _AT, _AT, _LEN, _AT, _LEN, _AT],
    "remember": [_AT, _LEN, _AT, _LEN, _LEN, _LEN, _LEN, _AT],
}
_instead: list[Any] = []  # the last of them is used, where there is one


def kernels() -> Any:
    """The library, each of whose functions lets other threads run; None where torch has to do."""
    return _instead[-1] if _instead else _library()


@contextmanager
def using(library: Any) -> Iterator[None]:
    """Within the block another library, in all threads; None: torch computes everything, where it can be seen."""
    _instead.append(library)
    try:
        yield
    finally:
        _instead.pop()


@cache
def _library() -> Any:
    found = find_spec(NAME)
    if found is None or found.origin is None:
        return None
    try:
        library = ctypes.CDLL(found.origin)
        library.usable.argtypes = ARGUMENTS["usable"]
        if not library.usable(VERSION):
            return None
    except (OSError, AttributeError):  # for another machine, or not ours
        return None
    for name, arguments in ARGUMENTS.items():  # each says 1 when it is done
        getattr(library, name).argtypes = arguments
        getattr(library, name).restype = ctypes.c_int
    return library
