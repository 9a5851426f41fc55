"""Traces of what the core did: they replay to the same canvases, survive the file, and carry what it cost."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import torch
from support import Hashed, sentences
from torch import Tensor

from anyorder.core import Cost, NoContext, Symbols, beam, begin, unroll
from anyorder.recipes import STRATEGIES, every, insert_balanced, insert_uniform, two_pass
from anyorder.traces.reading import read
from anyorder.traces.record import record, record_path
from anyorder.traces.trace import replay, write

RECIPES = every(T=4, k=3) | {"two passes": two_pass(STRATEGIES["easy-first"])}


def strings(model: Hashed) -> object:
    def of(ids: Tensor) -> tuple[str | None, ...]:
        return tuple(None if i == model.mask_id else f"w{i}" for i in ids.tolist() if i != model.pad_id)

    return of


def round_trip(trace: object) -> object:
    file = io.StringIO()
    write([trace], file)  # type: ignore[list-item]
    file.seek(0)
    (again,) = read(file)
    return again


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_s_trace_replays_to_its_states(name: str) -> None:
    model = Hashed()
    context, state = sentences(model, [6, 3])
    cost, of = Cost(), strings(model)
    steps = list(unroll(model, context, state, RECIPES[name], cost=cost, alternatives=2))
    for row, length in ((0, 6), (1, 3)):
        trace = record(steps, row, of, cost, recipe=name)  # type: ignore[arg-type]
        mine = [s.state.tokens[int((s.rows == row).nonzero())] for s in steps if (s.rows == row).any()]
        assert replay(trace) == [[None] * length, *(list(of(y)) for y in mine)]  # type: ignore[operator]
        assert round_trip(trace) == trace
        assert trace.forwards == cost.forwards and trace.head_rows == cost.head_rows and None not in trace.tokens
        for step in trace.steps:
            assert step.alternatives is not None and all(len(a) == 2 for a in step.alternatives)


@pytest.mark.parametrize("make", [insert_uniform, insert_balanced])
def test_insertions(make: object) -> None:
    model = Hashed(4)
    decoder = replace(make(2, 6), symbols=Symbols(1.0, ban=(3,)))  # type: ignore[operator]
    state = begin(torch.full((5, 1), 3), model.mask_id, model.pad_id, open=torch.ones(5, 1, dtype=torch.bool))
    cost, of = Cost(), strings(model)
    steps = list(unroll(model, NoContext(), state, decoder, cost=cost))
    for row in range(5):
        trace = record(steps, row, of, cost, decoder.edit, recipe="insertion")  # type: ignore[arg-type]
        mine = [s.state.tokens[int((s.rows == row).nonzero())] for s in steps if (s.rows == row).any()]
        assert replay(trace) == [["w3"], *(list(of(y)) for y in mine)]  # type: ignore[operator]
        assert round_trip(trace) == trace


def test_a_beam_s_path() -> None:
    model = Hashed()
    context, state = sentences(model, [5])
    found = beam(model, context, state, STRATEGIES["easy-first"], K=3, K1=2)
    for k in range(3):
        trace = record_path(
            state, found.path[0, k], found.symbol[0, k], found.gain[0, k], float(found.score[0, k]), found.cost,
            strings(model), recipe="beam",  # type: ignore[arg-type]
        )  # fmt: skip
        assert trace.tokens == list(strings(model)(found.tokens[0, k]))  # type: ignore[operator]
        assert round_trip(trace) == trace


def test_a_row_that_took_no_step() -> None:
    with pytest.raises(ValueError, match="row 3 took no step"):
        record([], 3, lambda ids: (), Cost(), recipe="none")
