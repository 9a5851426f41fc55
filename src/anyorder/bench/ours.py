"""Our side of the benchmark: the same jobs through the engine, in buckets under the token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from anyorder.bench.plain import Job
from anyorder.core import Decoder, begin, canvas
from anyorder.models.translation import Source
from anyorder.search import TOKEN_BUDGET, batches, padded, search


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
    decoder = replace(decoder, symbols=replace(decoder.symbols, ban=tuple(ban)))
    out: list[list[int]] = [[] for _ in jobs]
    with torch.inference_mode():
        for part in batches([len(j.source) + j.length + 4 for j in jobs], budget, copies=K):
            chosen = [jobs[i] for i in part]
            context = model.encode(Source(padded([j.source for j in chosen], model.pad_id), *direction))
            blank = canvas(torch.tensor([j.length for j in chosen]), model.mask_id, model.pad_id)
            found = search(model, context, begin(blank, model.mask_id, model.pad_id), decoder, K)
            for i, row, job in zip(part, found.tokens[:, 0].tolist(), chosen, strict=True):
                out[i] = row[: job.length]
    return out
