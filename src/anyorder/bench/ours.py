"""Our side of the benchmark: the same jobs through the engine, in buckets under the token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from anyorder.bench.plain import Job
from anyorder.core import Decoder, begin, canvas
from anyorder.machine import side_by_side
from anyorder.models.translation import Source
from anyorder.text.batching import TOKEN_BUDGET, batches, padded
from anyorder.text.search import search


@torch.inference_mode()
def decode_batch(
    model: Any, jobs: Sequence[Job], direction: tuple[int, int], ban: Sequence[int], decoder: Decoder, K: int = 1
) -> list[list[int]]:
    """The best canvas of each job, all in one batch."""
    decoder = replace(decoder, symbols=replace(decoder.symbols, ban=tuple(ban)))
    context = model.encode(Source(padded([j.source for j in jobs], model.pad_id), *direction))
    blank = canvas(torch.tensor([j.length for j in jobs]), model.mask_id, model.pad_id)
    found = search(model, context, begin(blank, model.mask_id, model.pad_id), decoder, K)
    return [row[: job.length] for row, job in zip(found.tokens[:, 0].tolist(), jobs, strict=True)]


def decode_jobs(
    model: Any,
    jobs: Sequence[Job],
    direction: tuple[int, int],
    ban: Sequence[int],
    decoder: Decoder,
    K: int = 1,
    budget: int = TOKEN_BUDGET,
) -> list[list[int]]:
    """The best canvas of each job."""

    def run(part: list[int]) -> list[list[int]]:
        return decode_batch(model, [jobs[i] for i in part], direction, ban, decoder, K)

    out: list[list[int]] = [[] for _ in jobs]
    parts = batches([len(j.source) + j.length + 4 for j in jobs], budget, K, [j.length for j in jobs])
    for part, rows in zip(parts, side_by_side(run, parts), strict=True):
        for i, row in zip(part, rows, strict=True):
            out[i] = row
    return out
