"""The coefficients α of the log-linear order, searched on a validation set: one at a time, the best kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from anyorder.errors import DataError, PlanError, first_line
from anyorder.files import write_whole
from anyorder.lab.cells import Cell, identify
from anyorder.lab.results import Results, Row
from anyorder.lab.runner import Setting, run_all
from anyorder.pool import HERE, Pool
from anyorder.text.plan import Plan

Alpha = tuple[float, float, float]  # of negent, logp, position
NAMES = ("negent", "logp", "position")
START: Alpha = (1.0, 1.0, 0.0)  # easy-first
GRIDS: tuple[tuple[float, ...], ...] = ((0.0, 0.5, 1.0, 2.0), (0.0, 0.5, 0.9, 1.0), (0.0, 0.1, 0.3, 1.0))


@dataclass(frozen=True)
class Tried:
    """One order and its BLEU on the validation set."""

    order: str
    bleu: float
    sentences: int


def order_text(alpha: Alpha) -> str:
    """(1.0, 0.9, 0.0) → 'negent + 0.9*logp'."""
    terms = [name if a == 1 else f"{a:g}*{name}" for a, name in zip(alpha, NAMES, strict=True) if a]
    return " + ".join(terms)


def neighbours(alpha: Alpha, index: int) -> Iterator[Alpha]:
    """The same coefficients with one of them at every value of its grid; not all zero."""
    for value in GRIDS[index]:
        changed = (*alpha[:index], value, *alpha[index + 1 :])
        if any(changed):
            yield changed  # type: ignore[misc]


def tune(
    model: str, data: Path, direction: str, cache: Path, *, corpus: str = "val", limit: int = 100, lengths: int = 1,
    pool: Pool = HERE,
) -> list[Tried]:  # fmt: skip
    """Everything that was tried, best first: each coefficient in turn, starting at easy-first."""
    setting = Setting(model, data, cache, identify(model))
    results = Results(setting.store, data)
    tried: dict[str, Tried] = {}
    best = START
    for index in (2, 1, 0):
        options = {order_text(alpha): alpha for alpha in neighbours(best, index)}
        rows = {text: Row(Cell(corpus, direction, text, lengths=lengths)) for text in options}
        run_all([job for row in rows.values() for job in results.jobs(row, limit)], setting, pool)
        for text, row in rows.items():
            measured = results.measure(row, results.common(rows.values()))
            assert measured is not None
            tried[text] = Tried(text, measured.quality.bleu, len(measured.texts))
        best = options[max(options, key=lambda text: tried[text].bleu)]
    return sorted(tried.values(), key=lambda t: -t.bleu)


def write_tuned(path: Path, direction: str, order: str) -> None:
    """Remember the best order of a direction for `anyorder reproduce`."""
    known: Mapping[str, str] = read_tuned(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({**known, direction: order}, indent=1) + "\n")


def read_tuned(path: Path) -> dict[str, str]:
    """Direction → order; nothing where the file does not exist."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not all(isinstance(order, str) for order in found.values()):
            raise ValueError("it is no object of orders")
        for order in found.values():
            Plan.of(order).check()
    except (ValueError, RecursionError, PlanError) as error:
        raise DataError(f"{path} is not what `anyorder tune` writes: {first_line(error)}") from None
    except OSError as error:
        raise DataError(f"{path} can not be read: {error.strerror}") from None
    return found
