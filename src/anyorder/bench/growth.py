"""How the cost of a sentence grows: with its length, the batch, the vocabulary, the length candidates, the beam."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from anyorder import recipes
from anyorder.bench.ours import decode_jobs
from anyorder.bench.plain import Job

BAN, DIRECTION = (0, 1, 2, 3, 4), (0, 1)
Note = Callable[[str], None]


@dataclass(frozen=True)
class Growth:
    """Milliseconds a sentence at each value of one variable."""

    variable: str
    values: tuple[int, ...]
    milliseconds: tuple[float, ...]


def growth(model: Any, repeats: int, note: Note) -> list[Growth]:
    """Easy-first, T = L, random sources of 14 symbols, 16 sentences at one length where nothing else is said."""

    def jobs(sentences: int = 16, length: int = 14, copies: int = 1) -> list[Job]:
        generator = torch.Generator().manual_seed(sentences * 1000 + length)
        rows = torch.randint(5, model.architecture.vocabulary, (sentences, length), generator=generator).tolist()
        return [Job(row, length) for row in rows for _ in range(copies)]

    def many(k: int) -> Any:
        from anyorder.models.layout import as_read
        from anyorder.models.masked_translation import MaskedTranslation

        wide = replace(model.architecture, vocabulary=k)
        return as_read(MaskedTranslation(wide, model.special, model.languages).eval().requires_grad_(False))

    longest = model.architecture.positions - 2
    lengths = tuple(n for n in (7, 14, 28, 56, 112) if n <= longest)
    return [
        _measure("target length", lengths, lambda n: (model, jobs(length=n), 1, 16), repeats, note),
        _measure("sentences at once", (1, 4, 16, 64), lambda n: (model, jobs(n), 1, n), repeats, note),
        _measure("vocabulary", (2000, 8000, 32000), lambda n: (many(n), _within(jobs(), n), 1, 16), repeats, note),
        _measure("length candidates", (1, 2, 4, 8), lambda n: (model, jobs(copies=n), 1, 16), repeats, note),
        _measure("beam", (1, 2, 4, 8), lambda n: (model, jobs(), n, 16), repeats, note),
    ]


def _within(jobs: Sequence[Job], vocabulary: int) -> list[Job]:
    return [Job([5 + t % (vocabulary - 5) for t in job.source], job.length) for job in jobs]


def _measure(
    variable: str, values: tuple[int, ...], case: Callable[[int], tuple[Any, list[Job], int, int]], n: int, note: Note
) -> Growth:
    cases = [case(value) for value in values]
    times: list[list[float]] = [[] for _ in values]
    for turn in range(n + 1):  # the first is to warm up
        for value, (model, jobs, beam, sentences), some in zip(values, cases, times, strict=True):
            note(f"growth with {variable}: {value}")
            start = time.perf_counter()
            decode_jobs(model, jobs, DIRECTION, BAN, recipes.easy_first, beam)
            if turn:
                some.append(1000 * (time.perf_counter() - start) / sentences)
    return Growth(variable, values, tuple(statistics.median(some) for some in times))


def markdown(found: Sequence[Growth]) -> str:
    """A line a variable."""
    lines = ["| easy-first, T = L | milliseconds per sentence |", "|---|---|"]
    for g in found:
        cells = ", ".join(f"{v:,}: {ms:.3g}" for v, ms in zip(g.values, g.milliseconds, strict=True))
        lines.append(f"| {g.variable} | {cells} |")
    return "\n".join(lines) + "\n"
