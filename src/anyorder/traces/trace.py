"""A generation, step by step, as data: `Trace` and `TraceStep`, kept as JSON lines.

A file holds any number of traces, each a header line, a line a step and an end line. Steps mean:

- edit "replace": `positions` are written with `tokens`, then the positions in `erased` are masked again
  (a position in both was written and taken back within the step);
- edit "insert": each token is inserted before the element now at its position (0 … length of the canvas).

A log-probability of minus infinity (a forced symbol) is `null` in the file: JSON has no infinity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, TextIO

from anyorder.errors import DataError

VERSION = 1
EDITS = ("replace", "insert")
Tokens = list[str | None]  # token strings, None where masked


class TraceError(DataError):
    """A trace that can not be read or does not make sense; says which file and line."""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step: which coordinates, which symbols, how likely."""

    t: int
    positions: list[int]
    tokens: list[str]
    ids: list[int]
    logp: list[float]  # log p(y) of each written symbol
    logz: float | None = None  # log p(z) of the choice of coordinates, where defined
    erased: list[int] = field(default_factory=list)
    alternatives: list[list[tuple[str, float]]] | None = None  # for each written position, best first


@dataclass(frozen=True, slots=True)
class Trace:
    """One generation G: the canvas it began with, its steps, what came out and what it cost."""

    recipe: str
    canvas: Tokens
    steps: list[TraceStep]
    tokens: Tokens
    score: float
    forwards: int
    head_rows: int
    edit: str = "replace"
    direction: str | None = None
    source: str | None = None
    source_tokens: list[str] | None = None
    log_length: float | None = None
    text: str | None = None

    def _repr_html_(self) -> str:
        """The viewer, in a notebook."""
        import html

        from anyorder.traces.page import page

        return f'<iframe srcdoc="{html.escape(page([self]))}" width="100%" height="640" style="border:0"></iframe>'

    @property
    def length(self) -> int:
        """Number of tokens at the end."""
        return len(self.tokens)


def replay(trace: Trace) -> list[Tokens]:
    """The canvases Y^0 … Y^T: before the first step, then after each one."""
    canvases = [list(trace.canvas)]
    for step in trace.steps:
        canvases.append(apply(canvases[-1], step, trace.edit))
    return canvases


def apply(canvas: Tokens, step: TraceStep, edit: str) -> Tokens:
    """Y^{t+1} from Y^t. Raises ValueError if the step does not fit the canvas."""
    n, positions = len(canvas), step.positions
    for name, values in (("tokens", step.tokens), ("ids", step.ids), ("logp", step.logp)):
        if len(values) != len(positions):
            raise ValueError(f"step {step.t} has {len(positions)} positions but {len(values)} {name}")
    if step.alternatives is not None and len(step.alternatives) != len(positions):
        raise ValueError(f"step {step.t} has {len(positions)} positions but {len(step.alternatives)} alternatives")
    last = n if edit == "insert" else n - 1
    for position in positions:
        if not 0 <= position <= last:
            raise ValueError(f"step {step.t} writes position {position} of a canvas of {n} tokens")
    for position in step.erased:
        if edit == "insert":
            raise ValueError(f"step {step.t} erases position {position}, but an insertion never erases")
        if not 0 <= position < n:
            raise ValueError(f"step {step.t} erases position {position} of a canvas of {n} tokens")
    if len(set(positions)) != len(positions):
        raise ValueError(f"step {step.t} writes a position twice: {positions}")
    after = list(canvas)
    # from the right, so that earlier insertions do not move later ones
    for position, token in sorted(zip(positions, step.tokens, strict=True), reverse=True):
        if edit == "insert":
            after.insert(position, token)
        else:
            after[position] = token
    for position in step.erased:
        after[position] = None
    return after


# ---------------------------------------------------------------- writing


def to_lines(trace: Trace) -> Iterator[str]:
    """The JSON lines of one trace, without line ends. Raises TraceError for a trace that does not make sense."""
    try:
        if trace.edit not in EDITS:
            raise ValueError(f"unknown edit {trace.edit!r}: one of {', '.join(EDITS)}")
        check_end(replay(trace)[-1], trace.tokens)
        for record in _records(trace):
            yield json.dumps(record, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise TraceError(f"can not write the trace of {trace.recipe!r}: {error}") from None


def write(traces: Iterable[Trace], file: str | PathLike[str] | TextIO) -> None:
    """Write traces one after the other to a path or an open text stream."""
    if isinstance(file, (str, PathLike)):
        with open(file, "w", encoding="utf-8") as stream:
            return write(traces, stream)
    for trace in traces:
        for line in to_lines(trace):
            file.write(line + "\n")


def _records(trace: Trace) -> Iterator[dict[str, Any]]:
    yield {
        "type": "trace", "version": VERSION, "recipe": trace.recipe, "edit": trace.edit, "direction": trace.direction,
        "source": trace.source, "source_tokens": trace.source_tokens, "canvas": trace.canvas,
        "length": trace.length, "log_length": trace.log_length,
    }  # fmt: skip
    for s in trace.steps:
        choices = s.alternatives
        yield {
            "type": "step", "t": s.t, "positions": s.positions, "tokens": s.tokens, "ids": s.ids,
            "logp": [_finite(p) for p in s.logp], "logz": s.logz, "erased": s.erased,
            "alternatives": choices and [[[token, _finite(p)] for token, p in row] for row in choices],
        }  # fmt: skip
    yield {
        "type": "end", "text": trace.text, "tokens": trace.tokens, "score": _finite(trace.score),
        "forwards": trace.forwards, "head_rows": trace.head_rows,
    }  # fmt: skip


def _finite(logp: float) -> float | None:
    return None if logp == -math.inf else logp


def check_end(canvas: Tokens, tokens: Tokens) -> None:
    """Refuse tokens that are not what the steps leave on the canvas."""
    if canvas != tokens:
        at = next((i for i, (a, b) in enumerate(zip(canvas, tokens, strict=False)) if a != b), None)
        where = f"{len(canvas)} tokens, not {len(tokens)}" if at is None else f"{canvas[at]!r} at position {at}"
        raise ValueError(f"the end does not follow from the steps: they leave {where}")
