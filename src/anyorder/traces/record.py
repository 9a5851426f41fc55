"""Recording: the core's steps of one row as a Trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Cost, Insert, State, Step
from anyorder.core.edit import Edit
from anyorder.traces.trace import Trace, TraceStep

Strings = Callable[[Tensor], tuple[str | None, ...]]  # ids (L,) → token strings, None where masked, padding left out


def record(
    steps: Iterable[Step], row: int, strings: Strings, cost: Cost, edit: Edit | None = None, **header: Any
) -> Trace:
    """The trace of row `row` of the first state, from what `unroll` yielded. `header` goes into the Trace."""
    out: list[TraceStep] = []
    first: State | None = None
    last: State | None = None
    for step in steps:
        at = (step.rows == row).nonzero()
        if not len(at):
            continue
        one = step.before.take(at[:, 0])
        first = one if first is None else first
        last = step.state.take(at[:, 0])
        out.append(trace_step(step, int(at[0, 0]), strings, edit))
    if first is None or last is None:
        raise ValueError(f"row {row} took no step: there is nothing to record")
    return Trace(
        canvas=list(strings(first.tokens[0])), steps=out, tokens=list(strings(last.tokens[0])),
        score=_known(float(last.score[0])), forwards=cost.forwards, head_rows=cost.head_rows,
        edit="insert" if isinstance(edit, Insert) else "replace", **header,
    )  # fmt: skip


def _known(score: float) -> float:
    """The score of a path; a trace says −∞ (null) where it is not known."""
    return -math.inf if math.isnan(score) else score


def trace_step(step: Step, n: int, strings: Strings, edit: Edit | None = None) -> TraceStep:
    """What a step did to its n-th row."""
    before, view, after = step.before, step.view, step.state.take(torch.tensor([n], device=step.z.device))
    insert = edit if isinstance(edit, Insert) else None
    where = step.written[n].nonzero()[:, 0]
    erased = []
    if insert is not None:  # a slot that was closed has nothing written in it
        where = where[view.token[n, where] != insert.stop_id]
    else:
        masked = after.masked[0]
        erased = (masked & (step.z[n] | ~before.masked[n])[: len(masked)]).nonzero()[:, 0].tolist()
    alternatives = None
    if view.top_token is not None and view.top_logp is not None:
        alternatives = [
            [(str(s), float(p)) for s, p in zip(strings(view.top_token[n, i]), view.top_logp[n, i], strict=True)]
            for i in where
        ]
    return TraceStep(
        t=int(before.step[n]), positions=where.tolist(), tokens=[str(s) for s in strings(view.token[n, where])],
        ids=view.token[n, where].tolist(), logp=view.logp[n, where].tolist(), logz=float(step.logz[n]),
        erased=erased, alternatives=alternatives,
    )  # fmt: skip


def record_path(
    state: State, path: Tensor, symbol: Tensor, gain: Tensor, score: float, cost: Cost, strings: Strings, **header: Any
) -> Trace:
    """The trace of one hypothesis of a beam, from its path of positions (T,), symbols (T,) and log p (T,)."""
    tokens = state.tokens[0].clone()
    steps = []
    for t, position in enumerate(path.tolist()):
        if position < 0:
            break
        tokens[position] = symbol[t]
        name = [str(s) for s in strings(symbol[t : t + 1])]
        steps.append(TraceStep(t, [position], name, [int(symbol[t])], [float(gain[t])]))
    return Trace(
        canvas=list(strings(state.tokens[0])), steps=steps, tokens=list(strings(tokens)), score=score,
        forwards=cost.forwards, head_rows=cost.head_rows, **header,
    )  # fmt: skip
