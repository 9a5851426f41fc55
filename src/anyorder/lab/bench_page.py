"""The benchmark's report: every measurement as a section of one Markdown page."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from anyorder.errors import extra
from anyorder.lab import bench as run
from anyorder.lab.plain import Job
from anyorder.models.layout import to_int8
from anyorder.native import kernels
from anyorder.text.plan import Plan

Note = Callable[[str], None]
LENGTHS = 4
PAPER_SENTENCES = 5  # that many at the paper's size
ROUNDED = 300  # sentences whose BLEU in int8 is compared
SINGLE = 60  # canvases decoded one at a time


@dataclass(frozen=True)
class Asked:
    """What to measure."""

    sources: list[str]
    references: list[str]  # empty: no BLEU
    to: str
    sentences: int  # translated in bulk
    repeats: int
    shipped: bool
    paper: bool


def report(translator: Any, asked: Asked, note: Note) -> str:
    """All sections, as Markdown."""
    origin, to = translator.direction(asked.to, None)
    where = (translator.languages.index(origin), translator.languages.index(to))
    lines = asked.sources[: asked.sentences]
    encoded = translator.tokenizer.encode(lines, origin)
    generator = translator.generator(to)
    blanks = generator.propose([len(e) for e in encoded], generator.encode(encoded), LENGTHS)
    jobs = [Job(e, len(blank.tokens)) for e, some in zip(encoded, blanks, strict=True) for blank in some]
    text = [_opening(translator, asked, len(lines))]
    rows: list[run.Line] = []
    if asked.shipped:
        here = run.Workbench("shipped", translator.model, jobs, where, run.BAN, 40, asked.repeats)
        rows += run.throughput(here, note) + run.latency(here, SINGLE, note)
    if asked.paper:
        rows += run.throughput(run.paper_sized(jobs[: LENGTHS * PAPER_SENTENCES]), note)
    text += ["## Beside other undirected decoders, and the limit\n", run.markdown(rows)]
    if not asked.shipped:
        return "\n".join(text)
    if translator.beside is not None:
        rows, written = run.autoregressive(translator, translator.beside(), lines, to, note)
        text += ["## Beside an autoregressive model\n", run.markdown(rows)]
        if asked.references:
            text += [_bleu(written, asked.references[: len(lines)])]
    text += ["## What a pass costs\n", run.markdown(run.halves(translator, lines, to, note))]
    if asked.references:
        text += ["## What int8 changes\n", _rounded(translator, asked, to, note)]
    return "\n".join(text)


def _opening(translator: Any, asked: Asked, sentences: int) -> str:
    paper = f"; at the paper's size {PAPER_SENTENCES} sentences and one round" if asked.paper else ""
    out = "out" if kernels() is None else ""
    return (
        "# Speed\n\n"
        f"Written by `anyorder bench`: model `{translator.name}`, {sentences} sentences with {LENGTHS} target lengths "
        f"each in bulk, medians of {asked.repeats} rounds ({run.ROUNDS} beside other engines), of seconds and of "
        f"ratios{paper}. "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"{platform.machine()} ({torch.backends.cpu.get_cpu_capability()}), ours with{out} kernels in C.\n\n"
        "“× ours” is how many times longer a side takes than ours in float32 (for the limit: what part of ours the "
        "matrix products alone would take). “Identical” counts canvases that are token for token ours.\n"
    )


def _bleu(written: dict[str, list[str]], references: Sequence[str]) -> str:
    with extra("bench"):
        from sacrebleu.metrics.bleu import BLEU

    scores = {name: BLEU().corpus_score(texts, [list(references)]).score for name, texts in written.items()}
    lines = [f"| side | BLEU ({len(references)} sentences) |", "|---|---:|"]
    return "\n".join(lines + [f"| {name} | {score:.2f} |" for name, score in scores.items()]) + "\n"


def _rounded(translator: Any, asked: Asked, to: str, note: Note) -> str:
    """BLEU of float32 and int8."""
    written: dict[str, list[str]] = {}
    for name, model in (("float32", translator), ("int8", replace(translator, model=to_int8(translator.model)))):
        for how, plan in (
            ("easy-first T = L", Plan.of("easy-first", rescore="written")),
            ("annealed T = 10", Plan.of("least2most", count="anneal", steps=10, rescore="written")),
        ):
            note(f"{how}, {name}")
            written[f"{how}, {name}"] = [t.text for t in model.translate(asked.sources[:ROUNDED], to, plan=plan)]
    return _bleu(written, asked.references[:ROUNDED])
