"""The benchmark: workloads at two sizes, every side, one table of ratios in Markdown."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from anyorder import recipes
from anyorder.bench import limit, plain
from anyorder.bench.measure import Side, Timing, interleaved, one_by_one
from anyorder.bench.ours import decode_jobs
from anyorder.bench.plain import Job
from anyorder.core import Decoder
from anyorder.models import engines
from anyorder.models.compiled import to_compiled
from anyorder.models.int8 import to_int8

STEPS = 10
BEAM = 4
BAN = (0, 1, 2, 3, 4)  # <s>, </s>, <pad>, <unk>, <mask>
Note = Callable[[str], None]


@dataclass(frozen=True)
class Workbench:
    """A model, what it is given to do, and how much of it the slow sides do."""

    name: str
    model: Any
    jobs: list[Job]  # one for each (sentence, length)
    direction: tuple[int, int]
    ban: tuple[int, ...]
    part: int  # that many jobs for the one-at-a-time side
    repeats: int
    compiled: bool = False  # also with torch.compile


@dataclass(frozen=True)
class Line:
    """A line of the table: how many times faster we are than a side."""

    setting: str
    workload: str
    side: str
    seconds: float
    ratio: float
    identical: str


def paper_sized(sentences: Sequence[Job], repeats: int = 1) -> Workbench:
    """A randomly initialised model of the paper's size on the same lengths."""
    from anyorder.models.masked_translation import MaskedTranslation
    from anyorder.models.transformer import Architecture
    from anyorder.models.translation import SpecialIds

    torch.manual_seed(0)
    vocabulary = 60_000
    model = MaskedTranslation(Architecture(vocabulary, 1024, 6, 8, 4096), SpecialIds(), ("de", "en")).eval()
    model.requires_grad_(False)
    jobs = [Job(torch.randint(5, vocabulary, (len(j.source),)).tolist(), j.length) for j in sentences]
    return Workbench("paper's size", model, jobs, (0, 1), BAN, 2, repeats)


def workloads(s: Workbench) -> Iterator[tuple[str, Decoder, int, Any, Any]]:
    """(name, our decoder, beam, the paper's loop, the full-logits loop) of each workload."""
    m, d, ban = s.model, s.direction, s.ban
    yield (
        "easy-first T = L", recipes.easy_first, 1,
        lambda jobs: plain.paper_easy_first(m, jobs, d, ban),
        lambda jobs: plain.full_logits_easy_first(m, jobs, d, ban),
    )  # fmt: skip
    yield (
        f"annealed T = {STEPS}", recipes.annealed(STEPS), 1,
        lambda jobs: plain.paper_annealed(m, jobs, d, ban, STEPS),
        lambda jobs: plain.full_logits_annealed(m, jobs, d, ban, STEPS),
    )  # fmt: skip
    yield f"beam {BEAM}", recipes.easy_first, BEAM, lambda jobs: plain.paper_beam(m, jobs, d, ban, BEAM), None


def throughput(s: Workbench, note: Note) -> list[Line]:
    """All jobs in bulk (a beam: a fifth of them): ours, int8, the paper's way, a full-logits loop, and the limit.

    The slow sides do an even part of the jobs, and their time is scaled up.
    """
    rows = []
    rounded = to_int8(s.model)
    quick = to_compiled(s.model) if s.compiled else None
    for name, decoder, K, slow, full in workloads(s):
        jobs = s.jobs if K == 1 else s.jobs[::5]
        every = max(1, len(jobs) // s.part) | 1  # odd, so that all of a sentence's lengths have their turn
        some, fifth = jobs[::every], jobs[::5]

        def mine(
            model: Any = s.model, jobs: Sequence[Job] = jobs, decoder: Decoder = decoder, K: int = K
        ) -> list[list[int]]:
            return decode_jobs(model, jobs, s.direction, s.ban, decoder, K)

        sides = [
            Side("ours", mine),
            Side("the paper's way", lambda slow=slow, some=some: slow(some), len(some) / len(jobs)),  # type: ignore[misc]
            Side("ours, int8", lambda mine=mine: mine(rounded)),  # type: ignore[misc]
        ]
        if quick is not None:
            sides.append(Side("ours, compiled", lambda mine=mine: mine(quick)))  # type: ignore[misc]
        if full is not None:
            plainly = partial(_in_batches, full, fifth)
            sides.append(Side("full logits in a batch", plainly, len(fifth) / len(jobs)))
        timings = interleaved(sides, s.repeats, lambda text, name=name: note(f"{s.name}, {name}, {text}"))  # type: ignore[misc]
        expected = {
            "the paper's way": timings[0].output[::every],
            "full logits in a batch": timings[0].output[::5],
            "ours, int8": timings[0].output,
            "ours, compiled": timings[0].output,
        }
        rows += [_row(s.name, f"{name}, bulk", t, timings[0], expected.get(t.name)) for t in timings]
        note(f"{s.name}, {name}, the limit")
        bound = limit.seconds(limit.products(mine))
        rows.append(
            Line(s.name, f"{name}, bulk", "the limit (matrix products)", bound, bound / timings[0].seconds, "—")
        )
    return rows


def _in_batches(
    run: Callable[[Sequence[Job]], list[list[int]]], jobs: Sequence[Job], size: int = 64
) -> list[list[int]]:
    """Batches in the order given, as such loops do."""
    return [row for start in range(0, len(jobs), size) for row in run(jobs[start : start + size])]


def _row(setting: str, workload: str, t: Timing, ours: Timing, expected: Any) -> Line:
    same = (
        "—" if expected is None else f"{sum(a == b for a, b in zip(t.output, expected, strict=True))}/{len(expected)}"
    )
    return Line(setting, workload, t.name, t.seconds, t.over(ours), same)


def latency(s: Workbench, n: int, note: Note) -> list[Line]:
    """One job at a time: p50 and p95 of ours and of the other loops."""
    rows = []
    some = s.jobs[:: max(1, len(s.jobs) // n)]
    for name, decoder, K, slow, full in workloads(s):
        note(f"{s.name}, {name}, one at a time")

        def mine(jobs: list[Job], decoder: Decoder = decoder, K: int = K) -> Any:
            return decode_jobs(s.model, jobs, s.direction, s.ban, decoder, K)

        sides = {"ours": mine, "the paper's way": slow} | ({} if full is None else {"full logits in a batch": full})
        found = one_by_one({k: lambda i, run=run: run([some[i % len(some)]]) for k, run in sides.items()}, n)  # type: ignore[misc]
        for k, quantile in enumerate(("p50", "p95")):
            what = f"{name}, one at a time, {quantile}"
            rows += [Line(s.name, what, side, q[k], q[k] / found["ours"][k], "—") for side, q in found.items()]
    return rows


def autoregressive(
    translator: Any, ar: Any, sources: Sequence[str], to: str, note: Note
) -> tuple[list[Line], dict[str, list[str]]]:
    """What a user would pick instead: the AR baseline under Hugging Face and CTranslate2, beside annealed T = 10.

    The rows, and what each side wrote.
    """
    language = translator.direction(to, None)
    direction = (translator.languages.index(language[0]), translator.languages.index(language[1]))
    sentences = translator.tokenizer.encode(sources, language[0])
    hf = engines.to_hugging_face(ar.model, direction)
    tokens = ar.tokenizer.tokens(range(ar.model.architecture.vocabulary))
    counts = translator.lengths["-".join(language)]
    lengths = counts.propose(torch.tensor([len(s) for s in sentences]), 1)[0][:, 0].tolist()
    jobs = [Job(s, length) for s, length in zip(sentences, lengths, strict=True)]
    ours, decoder = f"ours, annealed T = {STEPS}, one length", recipes.annealed(STEPS)
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[str, Callable[[list[int]], list[list[int]]]] = {
            ours: lambda part: decode_jobs(translator.model, [jobs[i] for i in part], direction, BAN, decoder),
            "HF generate, AR greedy": lambda part: engines.generate(hf, ar.model, [sentences[i] for i in part]),
        }
        for quantization in (None, "int8"):
            engine = engines.to_ctranslate2(hf, tokens, Path(folder) / str(quantization), quantization)
            name = f"CTranslate2 {quantization or 'float32'}, AR greedy"
            runs[name] = partial(_translate2, engine, ar.model, tokens, sentences)
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        groups = [order[i : i + 64] for i in range(0, len(order), 64)]
        # An engine has its own batches; a plain generate is given sentences of like length, 64 at a time.
        sides = [
            Side(name, lambda run=run, parts=groups if "HF" in name else [order]: [run(part) for part in parts])  # type: ignore[misc]
            for name, run in runs.items()
        ]
        timings = interleaved(sides, 3, note)
        rows = [_row("shipped", "a sentence each, bulk", t, timings[0], None) for t in timings]
        quantiles = one_by_one({name: lambda i, run=run: run([i % len(jobs)]) for name, run in runs.items()}, 50)  # type: ignore[misc]
        for k, quantile in enumerate(("p50", "p95")):
            what, first = f"a sentence each, one at a time, {quantile}", quantiles[ours][k]
            rows += [Line("shipped", what, name, q[k], q[k] / first, "—") for name, q in quantiles.items()]
    written: dict[str, list[str]] = {}
    for timing in timings:
        ids: list[list[int]] = [[] for _ in sentences]
        for i, row in zip(order, (row for part in timing.output for row in part), strict=True):
            ids[i] = row
        written[timing.name] = translator.tokenizer.decode(ids, to)
    return rows, written


def _translate2(engine: Any, model: Any, tokens: list[str], sentences: Sequence[list[int]], part: list[int]) -> Any:
    return engines.ctranslate2_run(engine, model, tokens, [sentences[i] for i in part])


def markdown(rows: Sequence[Line]) -> str:
    """One table; the ratio says how many times longer a side takes than ours (the limit: what part of ours it is)."""
    lines = ["| model | workload | side | seconds | × ours | identical |", "|---|---|---|---:|---:|---:|"]
    lines += [
        f"| {r.setting} | {r.workload} | {r.side} | {r.seconds:.4g} | {r.ratio:.2f} | {r.identical} |" for r in rows
    ]
    return "\n".join(lines) + "\n"
