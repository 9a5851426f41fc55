"""Traces from their JSON lines; a line that is not right is named."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any, TextIO

from anyorder.traces.trace import EDITS, VERSION, Tokens, Trace, TraceError, TraceStep, apply, check_end

LONGEST = 1 << 26  # characters of one line

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
                check_end(canvas, record["tokens"])
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


def _number(logp: float | None) -> float:
    return -math.inf if logp is None else float(logp)


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
