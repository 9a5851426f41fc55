"""The benchmark: workloads at two sizes, every side, one table of ratios in Markdown."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from anyorder import recipes
from anyorder.core import Decoder
from anyorder.lab import limit, plain
from anyorder.lab.plain import Job
from anyorder.lab.sides import Side, Timing, apart, decode_jobs, interleaved, one_by_one
from anyorder.machine import side_by_side
from anyorder.models import engines
from anyorder.models.layout import to_int8
from anyorder.text.batching import ALIKE, batches
from anyorder.text.plan import Plan
from anyorder.text.results import ranked
from anyorder.text.rows import Input

STEPS = 10
ROUNDS = 7  # of what is compared with other engines, which takes seconds: a machine is slower at some times
BEAM = 4
OURS = {  # beside an autoregressive model
    "as it comes": Plan(),
    f"beam {BEAM}": Plan.of(beam=BEAM),
    "one length": Plan.of("mask-predict(4)", lengths=1),
}
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
    """A randomly initialised model of the paper's size on the same lengths, as it would be loaded."""
    from anyorder.models.architecture import Architecture
    from anyorder.models.layout import as_read
    from anyorder.models.masked_translation import MaskedTranslation
    from anyorder.models.translation import SpecialIds

    torch.manual_seed(0)
    vocabulary = 60_000
    model = MaskedTranslation(Architecture(vocabulary, 1024, 6, 8, 4096), SpecialIds(), ("de", "en")).eval()
    model = as_read(model.requires_grad_(False))
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
        if full is not None:
            plainly = partial(_in_batches, full, fifth)
            sides.append(Side("full logits in a batch", plainly, len(fifth) / len(jobs)))
        timings = interleaved(sides, s.repeats, lambda text, name=name: note(f"{s.name}, {name}, {text}"))  # type: ignore[misc]
        expected = {
            "the paper's way": timings[0].output[::every],
            "full logits in a batch": timings[0].output[::5],
            "ours, int8": timings[0].output,
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
    """What a user would pick instead: the AR baseline under Hugging Face and CTranslate2, beside ours as it comes.

    All are given ids; each engine makes batches in its own way, and CTranslate2 has a process of its own and in bulk a
    worker per thread, which is its fastest. The rows, and what each side wrote.
    """
    language = translator.direction(to, None)
    direction = (translator.languages.index(language[0]), translator.languages.index(language[1]))
    sentences = translator.tokenizer.encode(sources, language[0])
    hf = engines.to_hugging_face(ar.model, direction)
    tokens = ar.tokenizer.tokens(range(ar.model.architecture.vocabulary))
    generator, threads = translator.generator(to), torch.get_num_threads()
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    ours = [f"ours, {generator.settled(plan).name}, {name}" for name, plan in OURS.items()]
    single: dict[str, Callable[[list[int]], list[list[int]]]] = {
        name: partial(_written, generator, plan, sentences) for name, plan in zip(ours, OURS.values(), strict=True)
    }
    rounded = replace(translator, model=to_int8(translator.model)).generator(to)
    single[f"{ours[0]}, int8"] = partial(_written, rounded, Plan(), sentences)
    single["HF generate, AR greedy"] = lambda part: engines.generate(hf, ar.model, [sentences[i] for i in part])
    bulk = dict(single)
    groups = [order[i : i + 64] for i in range(0, len(order), 64)]  # a plain generate is given like sentences
    bulk["HF generate, AR greedy"] = lambda part: [
        row for some in groups for row in single["HF generate, AR greedy"](some)
    ]
    with ExitStack() as stack:
        for quantization, beam in ((None, 1), ("int8", 1), (None, BEAM)):
            name = f"CTranslate2 {quantization or 'float32'}, AR {'greedy' if beam == 1 else f'beam {beam}'}"
            for runs, workers in ((single, 1), (bulk, threads)):
                about = ar.model, direction, tokens, sentences, beam, quantization, workers
                runs[name] = stack.enter_context(apart(_translate2, *about))
        timings = interleaved([Side(name, partial(run, order)) for name, run in bulk.items()], ROUNDS, note)
        rows = [_row("shipped", "a sentence each, bulk", t, timings[0], None) for t in timings]
        quantiles = one_by_one({name: lambda i, run=run: run([i % len(sentences)]) for name, run in single.items()}, 50)  # type: ignore[misc]
        for k, quantile in enumerate(("p50", "p95")):
            what, first = f"a sentence each, one at a time, {quantile}", quantiles[ours[0]][k]
            rows += [Line("shipped", what, name, q[k], q[k] / first, "—") for name, q in quantiles.items()]
    written = {}
    for timing in timings:
        ids = dict(zip(order, timing.output, strict=True))
        written[timing.name] = translator.tokenizer.decode([ids[i] for i in range(len(sentences))], to)
    return rows, written


def _written(generator: Any, plan: Plan, sentences: Sequence[list[int]], part: list[int]) -> list[list[int]]:
    """The best ids of some sentences, without scores, as `anyorder translate` asks for them; CTranslate2 gives none."""
    found = generator.generate([Input(tuple(sentences[i])) for i in part], plan, scores=False)
    return [list(ranked(some)[0].ids) for some in found]


def halves(translator: Any, sources: Sequence[str], to: str, note: Note) -> list[Line]:
    """What one pass costs: the source encoded, and a canvas of the likeliest length through the rest, once; bulk."""
    generator = translator.generator(to)
    encoded = translator.tokenizer.encode(sources, translator.direction(to, None)[0])
    plan = Plan.of("left2right", lengths=1)
    parts = batches([len(ids) for ids in encoded], alike=ALIKE)
    inputs = [[Input(tuple(encoded[i])) for i in part] for part in parts]
    made = [generator.prepare(some, plan) for some in inputs]
    model = generator.model

    def encode() -> None:
        for _ in side_by_side(lambda some: generator.encode([i.source for i in some]), inputs):
            pass

    @torch.inference_mode()
    def states(batch: Any) -> None:
        model.hidden(batch.context, batch.state.tokens)

    def canvas() -> None:
        for _ in side_by_side(states, made):
            pass

    rows = []
    for name, run in (("the sources encoded", encode), ("one pass over the canvases", canvas)):
        timing = interleaved([Side(name, run)], ROUNDS, note)[0]
        bound = limit.seconds(limit.products(run))
        rows.append(Line("shipped", name, "ours", timing.seconds, 1.0, "—"))
        rows.append(Line("shipped", name, "the limit (matrix products)", bound, bound / timing.seconds, "—"))
    return rows


def _translate2(
    model: Any, direction: tuple[int, int], tokens: list[str], sentences: Sequence[list[int]], beam: int, *how: Any
) -> Callable[[list[int]], Any]:
    """CTranslate2 on some of the sentences; `how`: its arithmetic and its workers."""
    with tempfile.TemporaryDirectory() as folder:
        engine = engines.to_ctranslate2(engines.to_hugging_face(model, direction), tokens, Path(folder), *how)
    return lambda part: engines.ctranslate2_run(engine, model, tokens, [sentences[i] for i in part], beam)


def markdown(rows: Sequence[Line]) -> str:
    """One table; the ratio says how many times longer a side takes than ours (the limit: what part of ours it is)."""
    lines = ["| model | workload | side | seconds | × ours | identical |", "|---|---|---|---:|---:|---:|"]
    lines += [
        f"| {r.setting} | {r.workload} | {r.side} | {r.seconds:.4g} | {r.ratio:.2f} | {r.identical} |" for r in rows
    ]
    return "\n".join(lines) + "\n"
