"""Watched generations: the steps of each sentence as a trace, and the energy of what stood there after each step."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from anyorder.models.translation import Source
from anyorder.text.plan import Plan
from anyorder.traces import reading
from anyorder.traces import trace as traces
from anyorder.traces.trace import Trace

if TYPE_CHECKING:
    from anyorder.data.test_sets import EvalSet
    from anyorder.experiments.cells import Store
    from anyorder.text.translator import Translator


@dataclass(frozen=True)
class Watch:
    """Sentences start … stop − 1 of a corpus, written one position at a time at their likeliest length."""

    corpus: str
    direction: str
    order: str
    start: int
    stop: int

    @property
    def title(self) -> str:
        """What progress is shown under."""
        return f"watching {self.order} {self.direction}"


@dataclass(frozen=True)
class Watched:
    """A generation and the energy after each of its steps."""

    trace: Trace
    reference: str
    energy: list[float]

    @property
    def order(self) -> list[int]:
        """The positions in the order in which they were written."""
        return [position for step in self.trace.steps for position in step.positions]


def watch(task: Watch, store: Store, translator: Translator, corpus: EvalSet) -> None:
    """Do it and store what was seen."""
    part = corpus.part(task.start, task.stop)
    seen = []
    for source, reference in zip(part.sources, part.references, strict=True):
        plan = Plan.of(task.order, lengths=1)
        trace = translator.trace(source, part.target_language, source=part.source_language, plan=plan)
        file = io.StringIO()
        traces.write([trace], file)
        energy = [round(e, 4) for e in energies(translator, trace, part.source_language, part.target_language)]
        seen.append({"trace": file.getvalue(), "reference": reference, "energy": energy})
    store.write(store.of(task), seen)


def watched(task: Watch, store: Store) -> list[Watched] | None:
    """What was seen, None if it was not done yet."""
    content: Any = store.read(store.of(task))
    if content is None:
        return None
    return [Watched(reading.read(io.StringIO(s["trace"]))[0], s["reference"], s["energy"]) for s in content]


def energies(translator: Translator, trace: Trace, source_language: str, target_language: str) -> list[float]:
    """The energy of the intermediate sequences Y^1 … Y^T of a generation: −Σ logit of its symbols, over those written.

    All of them are looked at in one pass, each as it stood.
    """
    model, languages = translator.model, list(translator.languages)
    canvases = torch.tensor(_canvases(trace, model.mask_id))  # (T, L)
    assert trace.source is not None
    source = torch.tensor(translator.tokenizer.encode([trace.source], source_language))
    where = languages.index(source_language), languages.index(target_language)
    with torch.inference_mode():
        context = model.encode(Source(source, *where)).take(torch.zeros(len(canvases), dtype=torch.int64))
        hidden = model.hidden(context, canvases)  # (T, L, D)
        t, i = (canvases != model.mask_id).nonzero(as_tuple=True)
        logits = model.logits(hidden[t, i]).gather(-1, canvases[t, i, None])[:, 0]
    total = torch.zeros(len(canvases)).index_add(0, t, logits)
    return [float(-e) for e in total]


def _canvases(trace: Trace, mask_id: int) -> list[list[int]]:
    """Token ids after each step."""
    canvas, out = [mask_id] * len(trace.canvas), []
    for step in trace.steps:
        for position, symbol in zip(step.positions, step.ids, strict=True):
            canvas[position] = symbol
        out.append(list(canvas))
    return out
