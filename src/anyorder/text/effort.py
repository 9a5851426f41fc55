"""What a plan will take for one text, estimated before anything begins: passes through the model, and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from anyorder.core import Decoder
from anyorder.errors import TooMuchError
from anyorder.text.plan import Plan
from anyorder.text.rows import open_end

if TYPE_CHECKING:
    from anyorder.text.generator import Generator
    from anyorder.text.rows import Input

GIGABYTE = 1e9
REWRITES = 3 * 4 * 4  # of a round of polish, for each symbol: canvases, hypotheses of each, and their steps


@dataclass(frozen=True)
class Effort:
    """Estimates, rather too high than too low."""

    passes: int = 0  # of a canvas through the model
    memory: int = 0  # bytes that hypotheses take at once

    def __add__(self, other: Effort) -> Effort:
        """One after the other."""
        return Effort(self.passes + other.passes, max(self.memory, other.memory))

    def allow(self, plan: Plan, name: str) -> None:
        """Refuse what is beyond the plan's limits, before it begins."""
        most, memory = plan.most_passes, plan.most_memory
        if self.passes > most:
            raise TooMuchError(
                f"one text would take about {self.passes:,} passes through {name}, and at most {most:,} are allowed: "
                "take fewer steps, a smaller beam or fewer lengths, or raise most_passes (--most-passes)"
            )
        if self.memory > memory * GIGABYTE:
            raise TooMuchError(
                f"one text would take about {self.memory / GIGABYTE:,.1f} GB of memory, and at most {memory:g} GB are "
                "allowed: take a smaller beam or fewer steps, or raise most_memory (--most-memory)"
            )


def estimate(
    model: Any, plan: Plan, decoder: Decoder, canvases: int, masks: int, width: int, *, causal: bool, keep: bool = False
) -> Effort:
    """Of one order of a plan, on so many canvases with so many masks, each `width` wide with its source."""
    K, K1 = plan.beam, plan.positions
    dim, inner, words = model.sizes
    steps = width if causal else _steps(decoder, masks, width)
    looks = masks if decoder.coordinates.conditionals == "masked" else 1
    passes = canvases * K * steps * (looks + (decoder.coordinates.among.blank is False))
    scores = {"pll": width, "forwards": 1, "ar": 1, "both": 2, "marginal": plan.samples * steps}
    whole = scores.get(plan.rescore or "written", 0)  # passes that the score of one text takes
    passes += canvases * K * whole + plan.polish * width * REWRITES * (1 + whole // 4)
    K2 = min(K, words or K)
    memory = K * width * (12 * dim + 2 * inner) * 4 + (K * width * K2 * 12 + K * K1 * K2 * 64) * plan.searches
    if "full" in decoder.coordinates.reads:
        memory += 8 * K * masks * words
    return Effort(passes, memory + (steps * width * 200 if keep else 0))


def expected(
    generator: Generator, inputs: Sequence[Input], decoders: Sequence[tuple[Plan, Decoder]], keep: bool = False
) -> Effort:
    """The most that one of these inputs will take, before its lengths are known."""
    most, seen = Effort(), set()
    for one in inputs:
        source = len(one.source)
        if one.canvases:
            masks = max(c.tokens.count(generator.model.mask_id) for c in one.canvases)
            count, length = len(one.canvases), max(len(c.tokens) for c in one.canvases)
        else:
            masks = length = min(open_end(source), generator.room)
            count = 1 if generator.causal else min(decoders[0][0].lengths, generator.room)
        if (shape := (count, masks, length + source)) in seen:
            continue
        seen.add(shape)
        total = Effort()
        for plan, decoder in decoders:
            total += estimate(generator.model, plan, decoder, *shape, causal=generator.causal, keep=keep)
        most = Effort(max(most.passes, total.passes), max(most.memory, total.memory))
    return most


def _steps(decoder: Decoder, masks: int, width: int) -> int:
    if decoder.steps is None:
        return masks
    return decoder.steps if isinstance(decoder.steps, int) else int(decoder.steps(torch.tensor([width]))[0])
