"""Drafts: target lengths that a text tells which the model writes first, from left to right to an end of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from anyorder.errors import PlanError
from anyorder.text.plan import Plan
from anyorder.text.rows import Canvas, Input

if TYPE_CHECKING:
    from anyorder.text.generator import Generator


def drafted(generator: Generator, inputs: Sequence[Input], n: int) -> list[Input]:
    """Inputs with blank canvases, of the n lengths nearest to that of a draft, the nearest first.

    The lengths of an input are equally likely, log p(L|X) = 0: what is written on them says which was right.
    """
    if any(one.canvases for one in inputs):
        raise PlanError("the canvases are given, so a draft could have no effect: leave draft out")
    if generator.model.forwards is None:
        raise PlanError(f"{generator.name} contains no autoregressive model that could write a draft: leave draft out")
    written = generator.forwards.generate(inputs, Plan(), scores=False)
    lengths = [nearest(len(draft.ids), n, generator.room) for draft, *_ in written]
    blank = generator.model.mask_id
    return [
        replace(one, canvases=tuple(Canvas((blank,) * length) for length in some))
        for one, some in zip(inputs, lengths, strict=True)
    ]


def nearest(length: int, n: int, longest: int) -> list[int]:
    """The n lengths from 1 to `longest` that are nearest to this one, the longer of two first: L, L + 1, L − 1, …"""
    return sorted(range(1, longest + 1), key=lambda other: (abs(other - length), other < length))[:n]
