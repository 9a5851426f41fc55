"""Watched generations: their traces, in which orders they were written (clustered), and their energy over time."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anyorder.errors import extra
from anyorder.models.translation import Source
from anyorder.text.plan import Plan
from anyorder.traces import reading
from anyorder.traces import trace as traces
from anyorder.traces.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyorder.data.test_sets import EvalSet
    from anyorder.lab.cells import Store
    from anyorder.text.translator import Translator

DIMENSIONS = 10
CLUSTERS = 5
SHORTEST = 3  # an order of one or two positions says nothing
MOMENTS = 21  # of relative time, 0 … 1


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


# ---------------------------------------------------------------- orders as vectors, clustered (Figure 1)


@dataclass(frozen=True, eq=False)
class Cluster:
    """Generations that went about it alike."""

    centre: NDArray[np.float64]  # (10,) relative position at each tenth of the generation
    share: float
    example: Watched

    @property
    def name(self) -> str:
        """Its shape in words."""
        return describe(self.centre)


def vector(order: Sequence[int], length: int, dimensions: int = DIMENSIONS) -> NDArray[np.float64]:
    """The selected position at each of `dimensions` moments, normalised to 0 … 1, interpolated where needed."""
    relative = np.asarray(order, dtype=np.float64) / max(1, length - 1)
    moments = np.linspace(0, len(relative) - 1, dimensions)
    return np.asarray(np.interp(moments, np.arange(len(relative)), relative))


def clusters(generations: Sequence[Watched], k: int = CLUSTERS, seed: int = 0) -> list[Cluster]:
    """k-means of the orders, largest cluster first; the example is the generation nearest to the centre."""
    with extra("report"):
        from sklearn.cluster import KMeans

    usable = [g for g in generations if len(g.order) >= SHORTEST]
    if not usable:
        return []
    data = np.stack([vector(g.order, len(g.trace.canvas)) for g in usable])
    k = min(k, len(np.unique(data.round(9), axis=0)))
    fit = KMeans(k, n_init=10, random_state=seed).fit(data)
    out = []
    for c in range(k):
        members = np.flatnonzero(fit.labels_ == c)
        distance = ((data[members] - fit.cluster_centers_[c]) ** 2).sum(1)
        nearest = int(members[int(distance.argmin())])
        out.append(Cluster(fit.cluster_centers_[c], len(members) / len(usable), usable[nearest]))
    return sorted(out, key=lambda cluster: -cluster.share)


def describe(centre: NDArray[np.float64]) -> str:
    """left-to-right, right-to-left, outside-in, inside-out, or mixed: by correlations with time."""
    time = np.arange(len(centre), dtype=np.float64)
    forward = _correlation(centre, time)
    towards_edges = _correlation(np.abs(centre - 0.5), time)
    if forward > 0.8:
        return "left-to-right"
    if forward < -0.8:
        return "right-to-left"
    if towards_edges < -0.6:
        return "outside-in"
    if towards_edges > 0.6:
        return "inside-out"
    return "mostly left-to-right" if forward > 0.4 else "mostly right-to-left" if forward < -0.4 else "mixed"


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if np.ptp(a) < 1e-9 or np.ptp(b) < 1e-9:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def monotone_share(generations: Sequence[Watched]) -> float:
    """How many of the steps go to the position right of the last one written: 1 is strictly left to right."""
    steps = [(a, b) for g in generations for a, b in zip(g.order, g.order[1:], strict=False)]
    return sum(b == a + 1 for a, b in steps) / max(1, len(steps))


# ---------------------------------------------------------------- energy over the steps (appendix)


def curve(energy: Sequence[float], moments: int = MOMENTS) -> NDArray[np.float64]:
    """The energy at evenly spaced moments of one generation; nothing is written at time 0, and that has energy 0."""
    known = np.concatenate([[0.0], np.asarray(energy, dtype=np.float64)])
    return np.asarray(np.interp(np.linspace(0, len(known) - 1, moments), np.arange(len(known)), known))


def mean_curve(generations: Sequence[Watched]) -> NDArray[np.float64]:
    """The average over generations."""
    return np.asarray(np.mean([curve(g.energy) for g in generations], axis=0))


def differences(curves: Mapping[str, NDArray[np.float64]], baseline: str = "uniform") -> dict[str, NDArray[np.float64]]:
    """Each curve minus that of the uniform order: below zero is likelier."""
    if baseline not in curves:
        return {}
    return {name: values - curves[baseline] for name, values in curves.items() if name != baseline}
