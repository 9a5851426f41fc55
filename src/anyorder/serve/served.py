"""Served models: the same Translator and Writer that everyone uses, with generators whose rows go through the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Beam, Decoder, Step
from anyorder.core.ragged import joined
from anyorder.serve.engine import Engine
from anyorder.serve.job import TICKET, Ended, Listener, Part, Task
from anyorder.serve.refusal import wrong
from anyorder.text.batching import Progress, silent
from anyorder.text.generator import Generator, Whole
from anyorder.text.plan import Plan
from anyorder.text.results import Hypothesis
from anyorder.text.rows import Batch, Input
from anyorder.text.search import ALTERNATIVES, Found, Path
from anyorder.text.translator import Translator
from anyorder.text.writer import Writer

Model = Translator | Writer


class Served(Generator):
    """A generator that hands its rows to the engine, and waits: to be used on a thread that has a ticket."""

    def __init__(self, inner: Generator, engine: Engine) -> None:
        super().__init__(inner.model, inner.direction, inner.length, inner.learned, inner.beside, inner.name)
        self.inner, self.engine = inner, engine

    def write(
        self, inputs: Sequence[Input], plan: Plan, *, keep: bool = False, progress: Progress = silent
    ) -> list[list[list[Hypothesis]]]:
        """As everywhere; with `keep` rows do not share batches, so that each knows what it cost."""
        for one in plan.each:
            self._check(self.inner.decoder(one))
        ticket = TICKET.get()
        written: list[list[list[Hypothesis]]] = self._ask(
            _Write(self.inner, inputs, plan, ticket.listener, keep)
        )
        return written

    def log_probs(self, wholes: Sequence[Whole]) -> list[Tensor]:
        """As everywhere, on the model's thread."""
        out: list[Tensor] = self._ask(_Call(partial(self.inner.log_probs, wholes)))
        return out

    def judge(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], rescore: str) -> list[float]:
        """As everywhere, on the model's thread."""
        out: list[float] = self._ask(_Call(partial(self.inner.judge, pairs, rescore)))
        return out

    def _ask(self, task: Task) -> Any:
        return self.engine.submit(task, TICKET.get()).done.result()

    def _check(self, decoder: Decoder) -> None:
        most = self.engine.limits.steps
        if isinstance(decoder.steps, int) and decoder.steps > most:
            raise wrong(f"{decoder.steps} steps are asked for, and {most} are allowed", "steps")


@dataclass(eq=False)
class _Call:
    """Something that a few passes answer."""

    finish: Callable[[], Any]

    def prepare(self) -> Sequence[Part]:
        return ()


@dataclass(eq=False)
class _Write:
    """Inputs to be written by every order of a plan."""

    generator: Generator
    inputs: Sequence[Input]
    plan: Plan
    listener: Listener | None
    keep: bool
    parts: list[tuple[Plan, Part, Batch, list[Step]]] = field(default_factory=list)

    def prepare(self) -> Sequence[Part]:
        """A part for every order; where paths are kept, for every row."""
        batch = self.generator.prepare(self.inputs, self.plan)
        known = 0
        for one in self.plan.each:
            for rows in [[n] for n in range(len(batch))] if self.keep else [list(range(len(batch)))]:
                some = batch.take(rows) if self.keep else batch
                self._add(one, some, range(known, known + len(rows)))
                known += len(rows)
        return [part for _, part, _, _ in self.parts]

    def _add(self, one: Plan, batch: Batch, numbers: range) -> None:
        steps: list[Step] = []
        listener = self.listener
        if self.keep:
            listener = partial(_kept, steps, self.listener)
        generator, search = self.generator, one.search
        learned = id(generator.learned) if one.writing.order == "learned" else None
        alone = object() if self.keep else None
        words = replace(one.writing, seed=0)
        part = Part(
            (id(generator.model), words, search.beam, search.positions, learned, alone), generator.model,
            generator.decoder(one), batch.context, batch.state, numbers, search.beam, search.positions,
            ALTERNATIVES if self.keep else 0, listener,
        )  # fmt: skip
        self.parts.append((one, part, batch, steps))

    def finish(self) -> list[list[list[Hypothesis]]]:
        """For each input and each of its canvases the hypotheses, order by order."""
        out: list[list[list[Hypothesis]]] = [[] for _ in self.inputs]
        for one, part, batch, steps in self.parts:
            found = self._found(one, part, batch, steps)
            for place, some in zip(batch.places, self.generator.hypotheses(batch, found, one), strict=True):
                canvases = out[place.input]
                canvases += [[] for _ in range(len(canvases), place.canvas + 1)]
                canvases[place.canvas] += some
        return out

    def _found(self, one: Plan, part: Part, batch: Batch, steps: list[Step]) -> Found:
        ends = [part.ended[n] for n in range(len(part))]
        pad = batch.state.pad_id
        tokens, logp = joined([e.tokens[None] for e in ends], pad), joined([e.logp[None] for e in ends])
        path = partial(self._path, one, part, batch, steps, ends[0]) if self.keep else None
        return Found(tokens, logp, torch.stack([e.score for e in ends]), part.cost, path)

    def _path(self, one: Plan, part: Part, batch: Batch, steps: list[Step], end: Ended, k: int) -> Path:
        recipe = "autoregressive" if self.generator.causal else one.writing.name
        if end.path is None:
            return Path(recipe, batch.state, part.cost, steps=tuple(steps))
        fields = (x[None] for x in (end.tokens, end.logp, end.score, *end.path))
        return Path(recipe, batch.state, part.cost, beam=(Beam(*fields, part.cost), k))


def _kept(steps: list[Step], listener: Listener | None, row: int, taken: Step, n: int) -> None:
    steps.append(taken)
    if listener is not None:
        listener(row, taken, n)


class _Translator(Translator):
    """A translator whose generators are served."""

    engine: Engine

    def generator(self, to: str, source: str | None = None) -> Served:
        return Served(super().generator(to, source), self.engine)


def served(model: Model, engine: Engine) -> Model:
    """The same model, its rows written by the engine; what it needs later is loaded now."""
    if isinstance(model, Writer):
        writer = Writer(model.model, model.tokenizer, model.name)
        writer.generator = Served(writer.generator, engine)
        return writer
    if model.beside is not None:
        model.beside()
    made = _Translator(
        model.model, model.tokenizer, model.languages, model.lengths, model.beside, model.policies, model.name
    )
    made.engine = engine
    return made

