"""Traces round-trip, replay to what they say, and bad files are answered with the line."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import trace_examples as examples
from hypothesis import given
from hypothesis import strategies as st

from anyorder.traces import reading
from anyorder.traces import trace as tracing
from anyorder.traces.trace import Trace, TraceError, TraceStep, replay

LONG, HOSTILE = examples.example(target=examples.long()), examples.example(target=examples.HOSTILE)
ALL = [*examples.group(), examples.example("insertion"), LONG, HOSTILE]


def lines_of(*traces: Trace) -> list[str]:
    return [line for trace in traces for line in tracing.to_lines(trace)]


def read_lines(lines: list[str]) -> list[Trace]:
    return reading.read(io.StringIO("\n".join(lines) + "\n"))


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    tracing.write(ALL, tmp_path / "t.jsonl")
    assert reading.read(tmp_path / "t.jsonl") == ALL


def test_header_is_the_documented_one() -> None:
    header, step, *_, end = map(json.loads, lines_of(examples.example()))
    assert " ".join(header) == "type version recipe edit direction source source_tokens canvas length log_length"
    assert " ".join(step) == "type t positions tokens ids logp logz erased alternatives"
    assert " ".join(end) == "type text tokens score forwards head_rows"
    assert header["version"] == 1 and header["length"] == 20 and header["canvas"] == [None] * 20


def small(**changes: object) -> Trace:
    step = TraceStep(t=0, positions=[1], tokens=["b"], ids=[7], logp=[-0.5])
    return replace(Trace("r", ["a", None], [step], ["a", "b"], -0.5, 1, 2), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("recipe", [*examples.ORDERS, "insertion"])
def test_replay_ends_in_the_target(recipe: str) -> None:
    trace = examples.example(recipe)
    canvases = replay(trace)
    assert len(canvases) == len(trace.steps) + 1
    assert canvases[0] == trace.canvas and canvases[-1] == examples.TARGET


def test_replay_writes_then_erases() -> None:
    steps = [
        TraceStep(0, [0, 1], ["x", "y"], [1, 2], [-1.0, -1.0], erased=[1]),
        TraceStep(1, [1], ["z"], [3], [-1.0], erased=[0]),
        TraceStep(2, [0], ["w"], [4], [-1.0]),
    ]
    trace = Trace("r", [None, None], steps, ["w", "z"], -4.0, 3, 4)
    assert replay(trace) == [[None, None], ["x", None], [None, "z"], ["w", "z"]]


def test_replay_inserts_before_the_element_at_the_slot() -> None:
    steps = [
        TraceStep(0, [0], ["m"], [1], [-1.0]),
        TraceStep(1, [0, 1], ["l", "r"], [2, 3], [-1.0, -1.0]),
        TraceStep(2, [3], ["!"], [4], [-1.0]),
    ]
    trace = Trace("r", [], steps, ["l", "m", "r", "!"], -4.0, 3, 4, edit="insert")
    assert replay(trace) == [[], ["m"], ["l", "m", "r"], ["l", "m", "r", "!"]]


def test_minus_infinity_is_null_in_the_file_and_comes_back() -> None:
    step = TraceStep(0, [1], ["b"], [7], [-math.inf], alternatives=[[("b", -math.inf), ("c", -0.1)]])
    trace = small(steps=[step], score=-math.inf)
    assert "Infinity" not in "".join(lines_of(trace))
    assert read_lines(lines_of(trace)) == [trace]


@given(st.lists(st.text(), min_size=1, max_size=6), st.data())
def test_any_text_round_trips(target: list[str], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(target))))
    steps = [TraceStep(t, [i], [target[i]], [0], [-1.0]) for t, i in enumerate(order)]
    trace = Trace("r", [None] * len(target), steps, list(target), -1.0, 1, 1, text=" ".join(target))
    assert read_lines(lines_of(trace)) == [trace]


def edited(line: int, **changes: object) -> list[str]:
    lines = lines_of(small())
    lines[line] = json.dumps({**json.loads(lines[line]), **changes})
    return lines


BAD = {
    "not json": ([*lines_of(small())[:1], "{'t': 0}"], 2, "not JSON"),
    "truncated": (lines_of(small())[:2], 2, "no end line"),
    "no header": (lines_of(small())[1:], 1, "expected a line of \"type\" trace, found 'step'"),
    "not an object": (["[]"], 1, "found None"),
    "two headers": (lines_of(small())[:1] * 2, 2, "expected a line of \"type\" step or end, found 'trace'"),
    "newer": (edited(0, version=2), 1, "version 2"),
    "edit": (edited(0, edit="swap"), 1, "unknown edit 'swap': one of replace, insert"),
    "kind": (edited(0, recipe=3), 1, '"recipe" of the trace line is 3, not text'),
    "bool": (edited(1, t=True), 2, '"t" of the step line is true, not a whole number'),
    "list": (edited(1, positions=[0.5]), 2, '"positions" of the step line is [0.5], not a list of a whole number'),
    "outside": (edited(1, positions=[2]), 2, "step 0 writes position 2 of a canvas of 2 tokens"),
    "negative": (edited(1, positions=[-1]), 2, "step 0 writes position -1"),
    "erases outside": (edited(1, erased=[5]), 2, "step 0 erases position 5"),
    "uneven": (edited(1, tokens=["b", "c"]), 2, "step 0 has 1 positions but 2 tokens"),
    "uneven alternatives": (edited(1, alternatives=[]), 2, "step 0 has 1 positions but 0 alternatives"),
    "pair": (edited(1, alternatives=[[["b"]]]), 2, 'holds ["b"], not a pair'),
    "infinity": (edited(1, logp=[-math.inf]), 2, "-Infinity is not JSON"),
    "end": (edited(2, tokens=["a", "c"]), 3, "the end does not follow from the steps: they leave 'b' at position 1"),
    "end length": (edited(2, tokens=["a"]), 3, "they leave 2 tokens, not 1"),
    "length": (edited(0, length=3), 3, "the header says 3 tokens, the end has 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_name_file_and_line(case: str, tmp_path: Path) -> None:
    lines, number, message = BAD[case]
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(TraceError) as caught:
        reading.read(path)
    assert str(caught.value).startswith(f"{path}, line {number}: ") and message in str(caught.value)


def test_missing_field_is_named() -> None:
    lines = lines_of(small())
    step = json.loads(lines[1])
    del step["logz"]
    with pytest.raises(TraceError, match='line 2: the step line has no "logz"'):
        read_lines([lines[0], json.dumps(step), lines[2]])


def test_steps_must_go_forward() -> None:
    step = TraceStep(3, [1], ["b"], [7], [-0.5])
    with pytest.raises(TraceError, match="line 3: step 3 comes after step 3"):
        read_lines(lines_of(small(steps=[step, step])))


def test_empty_and_binary_files(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(TraceError, match="no trace in it"):
        reading.read(tmp_path / "empty")
    (tmp_path / "binary").write_bytes(b"\x80\x81\xff")
    with pytest.raises(TraceError, match="not UTF-8"):
        reading.read(tmp_path / "binary")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": ["a", "x"]}, "the end does not follow"),
        ({"edit": "swap"}, "unknown edit"),
        ({"score": math.nan}, "not JSON compliant"),
        ({"edit": "insert", "steps": [TraceStep(0, [], [], [], [], erased=[0])]}, "an insertion never erases"),
        ({"steps": [TraceStep(0, [1, 1], ["b", "b"], [7, 7], [-1.0, -1.0])]}, "writes a position twice"),
    ],
)
def test_a_senseless_trace_is_not_written(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        lines_of(small(**changes))
