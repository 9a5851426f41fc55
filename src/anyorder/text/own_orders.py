"""Orders of your own: `file.py:name`, or the name of an entry point in the group `anyorder.orders`.

An installed package offers its orders to every command, to Python and to the server by its pyproject.toml:

    [project.entry-points."anyorder.orders"]
    outside-in = "my_package.orders:outside_in"
"""

from __future__ import annotations

import importlib.util
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from anyorder.core import Decoder, Order
from anyorder.errors import PlanError, first_line
from anyorder.options import ORDER_FILE

GROUP = "anyorder.orders"


def own_order(text: str) -> Order | Decoder | None:
    """The order that a text names; None if it is neither of a file nor of an installed package."""
    if (found := ORDER_FILE.fullmatch(text)) is not None:
        path, name = Path(found[1]), found[2]
        content = _module(path, path.stat().st_mtime_ns if path.is_file() else 0)
        if not hasattr(content, name):
            known = sorted(k for k, v in vars(content).items() if isinstance(v, (Order, Decoder)))
            raise PlanError(f"{path} has no {name!r}: its orders are {', '.join(known) or 'none'}")
        return _checked(getattr(content, name), text)
    point = installed().get(text)
    return None if point is None else _checked(_loaded(point), text)


@cache
def installed() -> dict[str, EntryPoint]:
    """The orders of installed packages, by their names."""
    return {point.name: point for point in entry_points(group=GROUP)}


def file_of(text: str) -> Path | None:
    """The file that an order comes from, where it is one's own."""
    found = ORDER_FILE.fullmatch(text)
    return None if found is None else Path(found[1])


def shown(text: str) -> str:
    """An order's name as tables show it: of a file without its folder."""
    found = ORDER_FILE.fullmatch(text)
    return text if found is None else f"{Path(found[1]).name}:{found[2]}"


def _checked(value: Any, text: str) -> Order | Decoder:
    if isinstance(value, (Order, Decoder)):
        return value
    raise PlanError(
        f"{text} is no order but a {type(value).__name__}: make one of a function by anyorder.core.Feature, or give a "
        "Decoder"
    )


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise PlanError(f"the order {point.name!r} of {point.value} cannot be loaded: {first_line(error)}") from error


@cache
def _module(path: Path, changed: int) -> Any:
    """A file of Python, run once; again when it has `changed`."""
    if not path.is_file():
        raise PlanError(f"{path} does not exist: an order of your own is FILE.py:NAME")
    spec = importlib.util.spec_from_file_location(f"anyorder_order_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the file does
        raise PlanError(f"{path} cannot be run: {type(error).__name__}: {first_line(error)}") from error
    return module
