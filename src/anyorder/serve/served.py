"""Served models: Translator and LanguageModel as everywhere; their generators give their rows to the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Decoder
from anyorder.models.transformer import PACK
from anyorder.options import known
from anyorder.serve.admission import Admission
from anyorder.serve.refusal import wrong
from anyorder.serve.turns import SLICE
from anyorder.serve.work import REQUEST, Size, Work
from anyorder.text.batching import ALIKE, CACHED, Progress, batches, silent
from anyorder.text.draft import drafted
from anyorder.text.effort import expected
from anyorder.text.engine import Rows, Write
from anyorder.text.engine import Written as Hypotheses
from anyorder.text.generator import Generator
from anyorder.text.load import Model, translates
from anyorder.text.plan import WHOLE, Plan
from anyorder.text.rows import Canvas, Input, Whole, row_size
from anyorder.text.scoring import Written

PACKS = 4  # packs in which sources are encoded; where they are more, those of like size come together
PROBES = ((1, 8), (8, 48))  # rows and their length, whose steps are timed when a server starts


class Served(Generator):
    """A generator that gives its rows to the scheduler, and waits: to be used on a thread of a request."""

    def __init__(self, inner: Generator, scheduler: Admission, heard: bool = True) -> None:
        super().__init__(
            inner.model, inner.direction, inner.length, inner.learned, inner.beside, inner.name, inner.cost
        )
        self.inner, self.scheduler = inner, scheduler
        self.heard = heard  # is the request's listener told of its steps?

    def write(
        self,
        inputs: Sequence[Input],
        plan: Plan,
        *,
        keep: bool = False,
        scores: bool = True,
        progress: Progress = silent,
    ) -> Hypotheses:
        """As everywhere. Scores of whole texts are work of their own, so that no other request waits for all of it."""
        carrier, plan = self.inner.carried_by(plan, inputs)
        decoders = carrier.decoders(plan, scores or keep)
        for _, decoder in decoders:
            _check(decoder)
        if not inputs:
            return []
        expected(carrier, inputs, decoders, keep).allow(plan, self.name)
        inputs = drafted(self, inputs, plan.lengths) if plan.draft else inputs
        judged = plan.rescore in WHOLE
        how = replace(plan, rescore="written", polish=0) if judged else plan
        listener = REQUEST.get().listener if self.heard else None
        size = size_of(carrier, inputs, carrier.decoders(plan, scores or keep))
        written: Hypotheses = self._ask(Writes(carrier, inputs, how, keep, scores or keep, listener, size=size))
        if judged:
            written = (self if carrier is self.inner else self.forwards)._judged(inputs, written, plan)
        meters = self.scheduler.meters.tokens
        meters.labels("read").inc(sum(len(one.source) for one in inputs))
        meters.labels("written").inc(sum(len(h.ids) for each in written for some in each for h in some))
        return written

    def _judged(self, inputs: Sequence[Input], written: Hypotheses, plan: Plan) -> Hypotheses:
        pairs = [(one.source, h.ids) for one, each in zip(inputs, written, strict=True) for some in each for h in some]
        scores = iter(self.judge(pairs, plan))
        return [[[replace(h, score=next(scores)) for h in some] for some in each] for each in written]

    @cached_property
    def forwards(self) -> Served:
        """As everywhere, its passes on the model's thread. It writes drafts, whose steps are not shown."""
        return Served(self.inner.forwards, self.scheduler, heard=False)

    def log_probs(self, wholes: Sequence[Whole]) -> list[Tensor]:
        """As everywhere, on the model's thread; a long text is scored some positions at a time."""
        parts = [part for whole in wholes for part in self._parts(whole)]
        texts = [Text(part, self._tokens(part)) for part in parts]
        found = iter(self._ask(self._passes(self.inner.log_probs, texts, "log_probs")))
        return [torch.cat([next(found) for _ in self._parts(whole)]) for whole in wholes]

    def _parts(self, whole: Whole) -> list[Whole]:
        wide = len(whole.source) + len(whole.tokens)
        many = whole.stop - whole.start if self.causal else max(1, SLICE // max(1, wide))
        starts = range(whole.start, whole.stop, max(1, many)) or range(whole.start, whole.start + 1)
        return [whole._replace(start=start, stop=min(whole.stop, start + many)) for start in starts]

    def _tokens(self, whole: Whole) -> int:
        passes = 1 if self.causal else whole.stop - whole.start
        return passes * (len(whole.source) + len(whole.tokens))

    def paths(self, items: Sequence[Written]) -> list[float]:
        """As everywhere, on the model's thread."""
        texts = [Text(item, len(item.ids) * len(item.ids)) for item in items]
        out: list[float] = self._ask(self._passes(self.inner.paths, texts, "paths"))
        return out

    def judge(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], plan: Plan) -> list[float]:
        """As everywhere, on the model's thread."""
        passes = {"pll": 0, "both": 2}.get(plan.rescore or "", 1)
        texts = [Text(pair, (len(pair[0]) + len(pair[1])) * (passes or len(pair[1]))) for pair in pairs]
        judge = partial(self.inner.judge, plan=plan)
        out: list[float] = self._ask(self._passes(judge, texts, (plan.rescore, plan.normalise)))
        return out

    def _passes(self, answer: Callable[[Sequence[Any]], list[Any]], texts: list[Text], what: Hashable) -> Passes:
        tokens = sum(text.tokens for text in texts)
        size = Size((self.name, self.causal, "passes"), max(1, tokens / SLICE), tokens)
        return Passes(answer, texts, (id(self.inner), what), size)

    def _ask(self, work: Work) -> Any:
        return self.scheduler.submit(work, REQUEST.get()).done.result()


def _check(decoder: Decoder) -> None:
    most = known()["steps"].about.served
    if most is not None and isinstance(decoder.steps, int) and decoder.steps > most:
        raise wrong(f"{decoder.steps} steps are asked for, and {most} are allowed", "steps")


# ---------------------------------------------------------------- work for the scheduler


@dataclass
class Text:
    """A text that passes are made over."""

    value: Any
    tokens: int  # of all its passes
    answer: Any = None


@dataclass(eq=False)
class Passes:
    """Scores of texts that are there, text by text: those of several requests are put together."""

    answer: Callable[[Sequence[Any]], list[Any]]
    items: list[Text]
    alike: Hashable
    size: Size
    rows: list[Rows] = field(default_factory=list)
    cached = False

    def prepare(self, others: Sequence[Passes]) -> None:
        """Nothing: its texts are there."""

    def clear(self) -> None:
        """Nothing, likewise."""

    def finish(self) -> list[Any]:
        """The answer of each text."""
        return [text.answer for text in self.items]


@dataclass(eq=False)
class Writes(Write):
    """Inputs to be written, as work for the scheduler: sources of several requests are encoded together."""

    size: Size = field(default_factory=lambda: Size(None, 0, 0))
    items = ()

    @property
    def cached(self) -> bool:
        """A text that is written from left to right keeps keys and values."""
        return self.generator.causal

    @property
    def alike(self) -> Hashable:
        """Sources of one direction, with as many lengths to propose and the same seed, are encoded together."""
        return id(self.generator), self.plan.lengths, self.plan.seed

    def prepare(self, others: Sequence[Writes]) -> None:
        """Encode the sources of several requests together: a few as they are, many with those of like size."""
        each = [(work, n) for work in (self, *others) for n in range(len(work.inputs))]
        sizes = [work.inputs[n].size for work, n in each]
        for some in packs(sizes) if sum(sizes) <= PACKS * PACK else batches(sizes, alike=ALIKE):
            owners = [each[i] for i in some]
            prepared = self.generator.prepare([work.inputs[n] for work, n in owners], self.plan)
            rows: dict[Writes, list[int]] = {}
            for row, place in enumerate(prepared.places):
                rows.setdefault(owners[place.input][0], []).append(row)
            for work, own in rows.items():
                work.add(prepared, own, [owners[prepared.places[row].input][1] for row in own])


def size_of(generator: Generator, inputs: Sequence[Input], decoders: Sequence[tuple[Plan, Decoder]]) -> Size:
    """How much inputs are: as many steps as their sources are long, if nothing else is known."""
    steps, tokens, searches = 0.0, 0.0, False
    for plan, decoder in decoders:
        searches = searches or plan.searches
        for one in inputs:
            masks = max((c.tokens.count(generator.model.mask_id) for c in one.canvases), default=len(one.source))
            canvases = len(one.canvases) or (1 if generator.causal else plan.lengths)
            wide = row_size(len(one.source), max((len(c.tokens) for c in one.canvases), default=len(one.source)))
            taken = decoder.steps if isinstance(decoder.steps, int) else masks
            looks = masks if decoder.coordinates.conditionals == "masked" and not generator.causal else 1
            paths = 1 + plan.samples if plan.rescore == "marginal" else 1
            steps = max(steps, taken * paths)
            tokens += canvases * plan.beam * taken * paths * looks * wide / (CACHED if generator.causal else 1)
    return Size((generator.name, generator.causal, searches), steps, tokens)


def packs(sizes: Sequence[int]) -> list[list[int]]:
    """Indices in packs that an encoder runs without padding, like sizes together."""
    order = sorted(range(len(sizes)), key=lambda i: sizes[i])
    out: list[list[int]] = [[]]
    room = PACK
    for i in order:
        if sizes[i] > room and out[-1]:
            out.append([])
            room = PACK
        out[-1].append(i)
        room -= sizes[i]
    return out


def probes(models: Mapping[str, Model]) -> Iterator[Writes]:
    """Small pieces of work of every kind that the models have: their steps are timed when a server starts."""
    for model in models.values():
        if translates(model):
            served: Any = model.generator(model.languages[-1], model.languages[0])
        else:
            served = model.generator
        inner = served.inner
        for generator in (inner, inner.carried_by(Plan())[0]) if not inner.causal else (inner,):
            mask = generator.model.mask_id
            for beam in (1, 4):
                plan = Plan.of(None if generator.causal else "easy-first", beam=beam)
                for many, long in PROBES:
                    source = () if generator.direction is None else (mask,) * long
                    canvases = () if generator.causal else (Canvas((mask,) * long),)
                    inputs = [Input(source, canvases)] * many
                    decoders = generator.decoders(plan, True)
                    yield Writes(generator, inputs, plan, size=size_of(generator, inputs, decoders))


def served(name: str, model: Model, scheduler: Admission) -> Model:
    """The same model, its rows written by the scheduler; what it needs later is loaded now."""
    return model.through(name, lambda generator: Served(generator, scheduler))
