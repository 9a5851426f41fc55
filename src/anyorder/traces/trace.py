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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, TextIO

from anyorder.errors import DataError

VERSION = 1
LONGEST = 1 << 26  # characters of one line
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
        _check_end(replay(trace)[-1], trace.tokens)
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


def _number(logp: float | None) -> float:
    return -math.inf if logp is None else float(logp)


def _check_end(canvas: Tokens, tokens: Tokens) -> None:
    if canvas != tokens:
        at = next((i for i, (a, b) in enumerate(zip(canvas, tokens, strict=False)) if a != b), None)
        where = f"{len(canvas)} tokens, not {len(tokens)}" if at is None else f"{canvas[at]!r} at position {at}"
        raise ValueError(f"the end does not follow from the steps: they leave {where}")


# ---------------------------------------------------------------- reading

# name: kinds allowed; a list holds one kind for all its elements
_FIELDS: dict[str, dict[str, Sequence[Any]]] = {
    "trace": {
        "version": (int,), "recipe": (str,), "edit": (str,), "direction": (str, None), "source": (str, None),
        "source_tokens": ([str], None), "canvas": ([str, None],), "length": (int,), "log_length": (float, None),
    },
    "step": {
        "t": (int,), "positions": ([int],), "tokens": ([str],), "ids": ([int],), "logp": ([float, None],),
        "logz": (float, None), "erased": ([int],), "alternatives": ([list], None),
    },
    "end": {
        "text": (str, None), "tokens": ([str, None],), "score": (float, None), "forwards": (int,), "head_rows": (int,),
    },
}  # fmt: skip


def read(file: str | PathLike[str] | TextIO) -> list[Trace]:
    """All traces of a file (or open text stream). Raises TraceError naming file and line if one is not right."""
    if isinstance(file, (str, PathLike)):
        with open(file, encoding="utf-8") as stream:
            return _read(stream, fspath(file))
    return _read(file, getattr(file, "name", "trace"))


def _read(stream: TextIO, name: str) -> list[Trace]:
    traces: list[Trace] = []
    head: dict[str, Any] | None = None
    steps: list[TraceStep] = []
    canvas: Tokens = []
    number = 0
    try:
        while line := stream.readline(LONGEST):
            number += 1
            if len(line) == LONGEST:
                raise ValueError(f"longer than {LONGEST:,} characters: is it a trace?")
            if not line.strip():
                continue
            record = _parse(line, expected=("trace",) if head is None else ("step", "end"))
            if head is None:
                head, steps, canvas = record, [], record["canvas"]
            elif record["type"] == "step":
                step = _step(record)
                if steps and step.t <= steps[-1].t:
                    raise ValueError(f"step {step.t} comes after step {steps[-1].t}")
                steps.append(step)
                canvas = apply(canvas, step, head["edit"])
            else:
                _check_end(canvas, record["tokens"])
                if head["length"] != len(canvas):
                    raise ValueError(f"the header says {head['length']} tokens, the end has {len(canvas)}")
                traces.append(_trace(head, steps, record))
                head = None
        if head is not None:
            raise ValueError("the file stops in the middle of a trace (no end line): was the writer interrupted?")
    except UnicodeDecodeError as error:
        raise TraceError(f"{name}, after line {number}: not UTF-8 text ({error.reason}): is it a trace?") from None
    except ValueError as error:
        raise TraceError(f"{name}, line {number}: {error}") from None
    if not traces:
        raise TraceError(f"{name}: no trace in it (the file is empty)")
    return traces


def _parse(line: str, expected: tuple[str, ...]) -> dict[str, Any]:
    """One line as a checked record of one of the expected types."""
    try:
        record = json.loads(line, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos + 1})") from None
    kind = record.get("type") if isinstance(record, dict) else None
    if kind not in expected:
        raise ValueError(f'expected a line of "type" {" or ".join(expected)}, found {kind!r}')
    for name, kinds in _FIELDS[kind].items():
        if name not in record:
            raise ValueError(f'the {kind} line has no "{name}"')
        if not any(_matches(record[name], one) for one in kinds):
            raise ValueError(f'"{name}" of the {kind} line is {_short(record[name])}, not {_describe(kinds)}')
    if kind == "trace" and record["version"] != VERSION:
        raise ValueError(f"trace version {record['version']}, this anyorder reads version {VERSION}")
    if kind == "trace" and record["edit"] not in EDITS:
        raise ValueError(f"unknown edit {record['edit']!r}: one of {', '.join(EDITS)}")
    return dict(record)


def _matches(value: Any, kind: Any) -> bool:
    if kind is None:
        return value is None
    if isinstance(kind, list):
        return isinstance(value, list) and all(any(_matches(v, k) for k in kind) for v in value)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) and not isinstance(value, bool)


def _describe(kinds: Sequence[Any]) -> str:
    names = {int: "a whole number", float: "a number", str: "text", None: "null", list: "a list"}
    return " or ".join(f"a list of {_describe(k)}" if isinstance(k, list) else names[k] for k in kinds)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON: minus infinity is written as null")


def _step(record: dict[str, Any]) -> TraceStep:
    choices = record["alternatives"]
    for pair in (pair for row in choices or () for pair in row):
        if not (
            isinstance(pair, list)
            and len(pair) == 2
            and _matches(pair[:1], [str])
            and _matches(pair[1:], [float, None])
        ):
            raise ValueError(f'"alternatives" holds {_short(pair)}, not a pair of a token and its log p')
    return TraceStep(
        t=record["t"], positions=record["positions"], tokens=record["tokens"], ids=record["ids"],
        logp=[_number(p) for p in record["logp"]], logz=record["logz"], erased=record["erased"],
        alternatives=choices and [[(token, _number(p)) for token, p in row] for row in choices],
    )  # fmt: skip


def _trace(head: dict[str, Any], steps: list[TraceStep], end: dict[str, Any]) -> Trace:
    return Trace(
        recipe=head["recipe"], canvas=head["canvas"], steps=steps, tokens=end["tokens"], score=_number(end["score"]),
        forwards=end["forwards"], head_rows=end["head_rows"], edit=head["edit"], direction=head["direction"],
        source=head["source"], source_tokens=head["source_tokens"], log_length=head["log_length"], text=end["text"],
    )  # fmt: skip
