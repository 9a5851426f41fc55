"""Served models: Translator and LanguageModel as everywhere; their generators hand their rows to the engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.core import Beam, Cost, Decoder, Step
from anyorder.core.prefix_beam import Seen
from anyorder.core.ragged import joined
from anyorder.models.transformer import PACK
from anyorder.options import known, takes
from anyorder.serve.admission import Admission
from anyorder.serve.job import TICKET, Ended, Listener, Part, Task, alone
from anyorder.serve.refusal import wrong
from anyorder.text.batching import ALIKE, Progress, batches, silent
from anyorder.text.draft import drafted
from anyorder.text.effort import expected
from anyorder.text.generator import Generator
from anyorder.text.load import Model
from anyorder.text.plan import Plan
from anyorder.text.results import Hypothesis
from anyorder.text.rows import Batch, Input, Whole
from anyorder.text.scoring import Written
from anyorder.text.search import ALTERNATIVES, SYMBOLS, Found, Path, read_off

APART = ("seed", "most_passes", "most_memory")  # options in which rows of one batch may differ
PACKS = 4  # packs in which newcomers are encoded; where they are more, those of like size come together


class Served(Generator):
    """A generator that hands its rows to the engine, and waits: to be used on a thread that has a ticket."""

    def __init__(self, inner: Generator, engine: Admission, heard: bool = True) -> None:
        super().__init__(
            inner.model, inner.direction, inner.length, inner.learned, inner.beside, inner.name, inner.cost
        )
        self.inner, self.engine = inner, engine
        self.heard = heard  # does whoever listens to a request hear of its steps?

    def write(
        self,
        inputs: Sequence[Input],
        plan: Plan,
        *,
        keep: bool = False,
        scores: bool = True,
        progress: Progress = silent,
    ) -> list[list[list[Hypothesis]]]:
        """As everywhere; with `keep` rows share batches only from left to right, where what each costs is known."""
        carrier, plan = self.inner.carried_by(plan, inputs)
        scores = scores or keep
        decoders = carrier.decoders(plan, scores)
        for _, decoder in decoders:
            self._check(decoder)
        if not inputs:
            return []
        expected(carrier, inputs, decoders, keep).allow(plan, self.name)
        inputs = drafted(self, inputs, plan.lengths) if plan.draft else inputs
        passes = sum(_passes(one, carrier, plan, decoder) for one in inputs for plan, decoder in decoders)
        listener = TICKET.get().listener if self.heard else None
        task = _Write(carrier, inputs, plan, listener, keep, scores, passes)
        written: list[list[list[Hypothesis]]] = self._ask(task)
        meters = self.engine.meters.tokens
        meters.labels("read").inc(sum(len(one.source) for one in inputs))
        meters.labels("written").inc(sum(len(h.ids) for each in written for some in each for h in some))
        return written

    @cached_property
    def forwards(self) -> Served:
        """As everywhere, its passes on the model's thread; what it writes is a draft, of which nobody hears."""
        return Served(self.inner.forwards, self.engine, heard=False)

    def log_probs(self, wholes: Sequence[Whole]) -> list[Tensor]:
        """As everywhere, on the model's thread."""
        out: list[Tensor] = self._ask(_Passes(self.inner.log_probs, wholes, (id(self.inner), "log_probs")))
        return out

    def paths(self, items: Sequence[Written]) -> list[float]:
        """As everywhere, on the model's thread."""
        out: list[float] = self._ask(_Passes(self.inner.paths, items, (id(self.inner), "paths")))
        return out

    def judge(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], plan: Plan) -> list[float]:
        """As everywhere, on the model's thread."""
        judge = partial(self.inner.judge, plan=plan)
        alike = (id(self.inner), plan.rescore, plan.normalise)
        out: list[float] = self._ask(_Passes(judge, pairs, alike))
        return out

    def _ask(self, task: Task) -> Any:
        return self.engine.submit(task, TICKET.get()).done.result()

    def _check(self, decoder: Decoder) -> None:
        most = known()["steps"].about.served
        if most is not None and isinstance(decoder.steps, int) and decoder.steps > most:
            raise wrong(f"{decoder.steps} steps are asked for, and {most} are allowed", "steps")


@dataclass(eq=False)
class _Passes:
    """Something that a few passes answer, item by item: those of several requests are put together."""

    answer: Callable[[Sequence[Any]], list[Any]]
    items: Sequence[Any]
    alike: Hashable
    parts: list[Part] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    cached = False

    @property
    def passes(self) -> int:
        """One for each."""
        return len(self.items)

    def prepare(self, others: Sequence[_Passes]) -> None:
        tasks = [self, *others]
        answers = iter(self.answer([item for task in tasks for item in task.items]))
        for task in tasks:
            task.answers = list(islice(answers, len(task.items)))

    def finish(self) -> list[Any]:
        return self.answers


class _Piece(NamedTuple):
    """Rows of a task that were prepared together, to be written by one order."""

    plan: Plan
    batch: Batch
    inputs: list[int]  # which of the task's inputs each row is of
    part: Part
    kept: _Kept | None  # the way of the one row, where paths are kept
    seen: _Slots | None  # what a prefix beam searches


@dataclass(eq=False)
class _Write:
    """Inputs to be written by every order of a plan."""

    generator: Generator
    inputs: Sequence[Input]
    plan: Plan
    listener: Listener | None
    keep: bool
    scores: bool
    passes: int  # that it is expected to take
    parts: list[Part] = field(default_factory=list)
    pieces: list[_Piece] = field(default_factory=list)

    @property
    def cached(self) -> bool:
        """What is written from left to right keeps keys and values."""
        return self.generator.causal

    @property
    def alike(self) -> Hashable:
        """Sources of one direction, with as many lengths to propose and the same seed, are encoded together."""
        return id(self.generator), self.plan.lengths, self.plan.seed

    def prepare(self, others: Sequence[_Write]) -> None:
        """Sources are encoded together, whoever asks: a few as they are, many with those of like size."""
        each = [(task, n) for task in (self, *others) for n in range(len(task.inputs))]
        sizes = [task.inputs[n].size for task, n in each]
        for some in packs(sizes) if sum(sizes) <= PACKS * PACK else batches(sizes, alike=ALIKE):
            owners = [each[i] for i in some]
            batch = self.generator.prepare([task.inputs[n] for task, n in owners], self.plan)
            rows: dict[_Write, list[int]] = {}
            for row, place in enumerate(batch.places):
                rows.setdefault(owners[place.input][0], []).append(row)
            for task, own in rows.items():
                task.add(batch, own, [owners[batch.places[row].input][1] for row in own])

    def add(self, batch: Batch, rows: list[int], inputs: list[int]) -> None:
        """Rows of a batch that are this task's: a part for every order; where paths are kept, for every row."""
        groups = [([row], [n]) for row, n in zip(rows, inputs, strict=True)] if self.keep else [(rows, inputs)]
        for own, which in groups:
            for one, decoder in self.generator.decoders(self.plan, self.scores):
                self._add(one, decoder, batch, own, which)

    def _add(self, one: Plan, decoder: Decoder, batch: Batch, own: list[int], inputs: list[int]) -> None:
        generator, known = self.generator, sum(map(len, self.parts))
        order = one.order
        learned = id(generator.learned.get(order)) if isinstance(order, str) else None
        kept = _Kept(self.listener, shared=generator.causal and not one.searches) if self.keep else None
        apart, slots = kept and (kept.shared or object()), (one.prefix_beam or 1) > 1
        seen = _Slots(Seen(batch.take(own).state, SYMBOLS), known, kept or self.listener) if slots else None
        top = SYMBOLS if slots else ALTERNATIVES if self.keep else 0
        words = tuple(getattr(one, name) for name in takes("stream") if name not in APART)
        part = Part(
            (id(generator.model), words, one.beam, one.positions, learned, decoder.scored, apart, top),
            generator.model, decoder, batch.context, batch.state, own, range(known, known + len(own)), one.beam,
            one.positions, top, seen or kept or self.listener,
        )  # fmt: skip
        self.parts.append(part)
        looks = self.keep or one.rescore == "marginal"  # will it need more of its rows than their names?
        self.pieces.append(_Piece(one, batch.take(own) if looks else _named(batch, own), inputs, part, kept, seen))

    def finish(self) -> list[list[list[Hypothesis]]]:
        """For each input and each of its canvases the hypotheses, order by order."""
        out: list[list[list[Hypothesis]]] = [[] for _ in self.inputs]
        for piece in self.pieces:
            found = self._found(piece)
            written = self.generator.hypotheses(piece.batch, found, piece.plan)
            for n, place, some in zip(piece.inputs, piece.batch.places, written, strict=True):
                out[n] += [[] for _ in range(len(out[n]), place.canvas + 1)]
                out[n][place.canvas] += some
        return out

    def _found(self, piece: _Piece) -> Found:
        part, pad = piece.part, piece.batch.state.pad_id
        if piece.seen is not None:
            beam, blank = piece.plan.prefix_beam or 1, self.generator.model.special.blank
            way = None if piece.kept is None else (piece.plan.name, piece.batch.state, tuple(piece.kept.steps))
            return read_off(piece.seen.seen, beam, blank, part.cost, way)
        ends = [part.ended[n] for n in range(len(part))]
        tokens, logp = joined([e.tokens[None] for e in ends], pad), joined([e.logp[None] for e in ends])
        path = partial(self._path, piece, ends[0]) if self.keep else None
        return Found(tokens, logp, torch.stack([e.score for e in ends]), part.cost, path)

    def _path(self, piece: _Piece, end: Ended, k: int) -> Path:
        recipe = "autoregressive" if self.generator.causal else piece.plan.name
        first, kept = piece.batch.state, piece.kept
        assert kept is not None
        cost = kept.cost if kept.shared else piece.part.cost
        if end.path is None:
            return Path(recipe, first, cost, steps=tuple(kept.steps))
        tokens, logp, score, path, symbol, gain = (x[None] for x in (end.tokens, end.logp, end.score, *end.path))
        return Path(recipe, first, cost, beam=(Beam(tokens, logp, score, path, symbol, gain, cost), k))


def _named(batch: Batch, rows: Sequence[int]) -> Batch:
    """Whose some rows of a batch are, without their part of its tensors."""
    sources, canvases, places = ([some[i] for i in rows] for some in (batch.sources, batch.canvases, batch.places))
    return replace(batch, sources=sources, canvases=canvases, places=places)  # type: ignore[arg-type]


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


@dataclass(eq=False)
class _Slots:
    """Keeps what the passes saw of each slot, and tells the listener."""

    seen: Seen
    first: int  # the number of the part's first row
    listener: Listener | None

    def __call__(self, row: int, taken: Step, n: int) -> None:
        self.seen.add(alone(taken, n)._replace(rows=torch.tensor([row - self.first])))
        if self.listener is not None:
            self.listener(row, taken, n)


@dataclass(eq=False)
class _Kept:
    """Keeps the steps of one row, and tells the listener.

    Rows that are written from left to right share batches: each has its own part of a step, which looks at one symbol.
    """

    listener: Listener | None
    shared: bool
    steps: list[Step] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)  # of the row, where it shares a batch

    def __call__(self, row: int, taken: Step, n: int) -> None:
        self.steps.append(alone(taken, n))
        if self.shared:
            self.cost.add(Cost(1, 1, 1))
        if self.listener is not None:
            self.listener(row, taken, n)


def _passes(one: Input, generator: Generator, plan: Plan, decoder: Decoder) -> int:
    """Passes of a canvas through the model that an input will take, at a guess: as many steps as its source is long."""
    masks = sum(canvas.tokens.count(generator.model.mask_id) for canvas in one.canvases)
    steps = masks or len(one.source) * (1 if generator.causal else plan.lengths)
    if isinstance(decoder.steps, int):
        steps = decoder.steps * max(1, len(one.canvases) or plan.lengths)
    return steps * plan.beam


def served(name: str, model: Model, engine: Admission) -> Model:
    """The same model, its rows written by the engine; what it needs later is loaded now."""
    return model.through(name, lambda generator: Served(generator, engine))
