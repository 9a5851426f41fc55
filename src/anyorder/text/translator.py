"""Translator: strings in, translations out, for every translation model (undirected, conditional, autoregressive)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Unpack, overload

import torch
from torch import Tensor

from anyorder.core import Automaton, Cost, Length, Order
from anyorder.errors import PlanError, TextError
from anyorder.models.placing import moved
from anyorder.options import Task, reason
from anyorder.text import keywords
from anyorder.text.batching import Progress, silent
from anyorder.text.blanks import no_text, texts_of
from anyorder.text.engine import steps_of
from anyorder.text.generator import Generator
from anyorder.text.plan import Plan, planned
from anyorder.text.results import Hypothesis, Moment, TextScore, Translation, ranked
from anyorder.text.rows import Canvas, Input
from anyorder.text.rules.rule import rule_of, ruled
from anyorder.text.rules.spelling import Spelling, spelling_of
from anyorder.traces.trace import Trace

NAMES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fi": "Finnish",
    "fr": "French", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian",
    "zh": "Chinese",
}  # fmt: skip
BLANK = "·"  # how a slot is shown in which nothing stands
FIRST_WINDOW, WINDOW = 16, 256  # sentences read ahead when a stream is translated: few at first, then at most


@dataclass
class Lazily:
    """A translator that is loaded when it is first asked for; a copy loads its own."""

    make: Callable[[], Translator]
    _made: Translator | None = field(default=None, init=False, repr=False)

    def __call__(self) -> Translator:
        """The translator, always the same one."""
        self._made = self._made or self.make()
        return self._made

    def __reduce__(self) -> tuple[Any, ...]:
        return Lazily, (self.make,)


def _beside(other: Callable[[], Translator], to: str, source: str) -> Generator:
    """The generator of the model beside another."""
    return other().generator(to, source)


def _elsewhere(other: Callable[[], Translator], where: str | torch.device) -> Translator:
    return other().to(where)


@dataclass(repr=False)
class Translator:
    """A translation model with its tokeniser and length model, and perhaps an autoregressive one beside it."""

    tasks: ClassVar[tuple[Task, ...]] = ("translate", "trace", "stream")  # what it can do, beside scoring

    model: Any
    tokenizer: Any
    languages: tuple[str, ...]
    lengths: Mapping[str, Length] = field(default_factory=dict)  # "de-en" → p(L|X)
    beside: Callable[[], Translator] | None = None  # loaded when it is first needed
    policies: Mapping[str, Mapping[str, Order]] = field(default_factory=dict)  # "de-en" → learned orders by name
    name: str = "model"
    only: str = ""  # "de-en", where the model was trained for this direction alone
    wrap: Callable[[Generator], Generator] | None = field(default=None, repr=False)  # what generators go through
    _generators: dict[tuple[str, str], Generator] = field(default_factory=dict, init=False, repr=False)

    def __repr__(self) -> str:
        return f"Translator({self.name!r}, languages={self.languages})"

    @property
    def causal(self) -> bool:
        """Does the model write from left to right only?"""
        return bool(self.model.causal)

    @property
    def forwards(self) -> bool:
        """Does it contain a model that writes from left to right, beside other orders?"""
        return self.model.forwards is not None

    def through(self, name: str, wrap: Callable[[Generator], Generator]) -> Translator:
        """The same model under a name, each generator replaced by what `wrap` makes of it; all is loaded now."""
        if self.beside is not None:
            self.beside()
        return replace(self, name=name, wrap=wrap)

    @property
    def cost(self) -> Cost:
        """Of everything this translator has done."""
        return Cost.total(generator.cost for generator in self._generators.values())

    def to(self, device: str | torch.device) -> Translator:
        """This model, moved there with its learned orders: "cpu", "cuda", "cuda:1", "mps", "xpu" or "auto"."""
        where, beside = moved(self.model, device), self.beside
        for order in [order for orders in self.policies.values() for order in orders.values()]:
            if isinstance(order, torch.nn.Module):
                order.to(where)
        if beside is not None:
            self.beside = Lazily(partial(_elsewhere, beside, where))
        self._generators.clear()
        return self

    def direction(self, to: str, source: str | None) -> tuple[str, str]:
        """(source language, target language), checked."""
        for language in (to, source):
            if language is not None and language not in self.languages:
                code = next((code for code, name in NAMES.items() if name.lower() == str(language).lower()), None)
                hint = f"write {code!r}: " if code in self.languages else ""
                known = ", ".join(self.languages)
                raise TextError(f"{self.name} does not know the language {language!r}; {hint}it knows {known}")
        others = [language for language in self.languages if language != to]
        if self.only and to != self.only.split("-")[1]:
            raise TextError(f"{self.name} was trained for {self.only} alone: it cannot translate into {to!r}")
        if source is None and len(others) != 1:
            raise TextError(f"say which language to translate from: one of {', '.join(others)}")
        chosen = source or others[0]
        if chosen == to:
            raise TextError(f"source and target language are both {to!r}")
        return chosen, to

    def generator(self, to: str, source: str | None = None) -> Generator:
        """The generator of one direction: ids in, hypotheses out, always the same one."""
        direction = self.direction(to, source)
        if direction not in self._generators:
            a, b = (self.languages.index(language) for language in direction)
            key, other = "-".join(direction), self.beside
            beside = None if other is None else partial(_beside, other, *direction[::-1])
            made = Generator(self.model, (a, b), self.lengths.get(key), self.policies.get(key, {}), beside, self.name)
            self._generators[direction] = made if self.wrap is None else self.wrap(made)
        return self._generators[direction]

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, to: str, *, source: str | None = ..., plan: Plan | None = ..., traced: bool = ...,
        scores: bool = ..., progress: Progress = ..., **options: Unpack[keywords.Translate]
    ) -> Translation: ...  # fmt: skip
    @overload
    def translate(
        self, texts: Sequence[str], to: str, *, source: str | None = ..., plan: Plan | None = ..., traced: bool = ...,
        scores: bool = ..., progress: Progress = ..., **options: Unpack[keywords.Translate]
    ) -> list[Translation]: ...  # fmt: skip

    def translate(
        self,
        texts: str | Sequence[str],
        to: str,
        *,
        source: str | None = None,
        plan: Plan | None = None,
        traced: bool = False,
        scores: bool = True,
        progress: Progress = silent,
        **options: Unpack[keywords.Translate],
    ) -> Translation | list[Translation]:
        """Translate one text or a list of texts into language `to`; lists come back in order.

        Options are those of `Plan.of` (order, steps, beam, lengths, rescore …), or a `plan`. An empty text gives an
        empty translation; one that cannot be translated has its reason in `error`. `traced` records how each best
        translation came about, in `trace`. Without `scores` one that is written from left to right and chosen
        from no others has none (NaN), which is faster.
        """
        made = planned("translate", plan, options)
        if traced and made.polish:
            raise PlanError(reason("trace", "polish"))
        many = texts_of(texts, "translate")
        if not callable(progress):
            raise PlanError(f"progress is a function of the number of texts just finished, such as print: {progress!r}")
        found = self._many(many, to, source, made, traced, scores, progress)
        return found[0] if isinstance(texts, str) else found

    def translate_stream(
        self,
        lines: Iterable[str],
        to: str,
        *,
        source: str | None = None,
        plan: Plan | None = None,
        scores: bool = True,
        **options: Unpack[keywords.Translate],
    ) -> Iterator[Translation]:
        """Translations of a long stream, in order, in bounded memory."""
        made, iterator, size = planned("translate", plan, options), iter(lines), FIRST_WINDOW
        while window := [line.rstrip("\r\n") for line in itertools.islice(iterator, size)]:
            yield from self._many(window, to, source, made, False, scores, silent)
            size = min(2 * size, WINDOW)

    def stream(
        self, text: str, to: str, *, source: str | None = None, **options: Unpack[keywords.Stream]
    ) -> Iterator[Moment]:
        """Watch one sentence being written at its most likely length: a `Moment` per step."""
        plan = planned("stream", None, options)
        generator = self.generator(to, source)
        inputs, problems = self._inputs([text], to, source)
        if problems:
            raise TextError(problems[0])
        if not inputs:
            return
        generator, plan = generator.carried_by(plan)
        for t, taken in enumerate(steps_of(generator, inputs[0], plan)):
            tokens = taken.state.tokens[0]
            written = tuple(taken.z[0].nonzero()[:, 0].tolist())
            yield Moment(t, self._strings(tokens), written, self._text(tokens, to))

    def trace(
        self,
        text: str,
        to: str,
        *,
        source: str | None = None,
        plan: Plan | None = None,
        **options: Unpack[keywords.Trace],
    ) -> Trace:
        """How the best translation of `text` came about, step by step, with alternatives."""
        made = planned("trace", plan, options)
        found = self._many([text], to, source, made, True, True, silent)[0]
        if found.trace is None:
            raise TextError(found.error or f"nothing to translate in {text!r}")
        return found.trace

    def score(self, source_texts: str | Sequence[str], target_texts: str | Sequence[str], to: str) -> list[float]:
        """Σ log p of given translations: pseudo log-likelihood, or the log-likelihood of an autoregressive model."""
        return [found.total for found in self.scores(source_texts, target_texts, to)]

    def scores(self, source_texts: str | Sequence[str], target_texts: str | Sequence[str], to: str) -> list[TextScore]:
        """As `score`, with log p of each symbol; the last is the end, where the model writes one."""
        sources, targets = texts_of(source_texts, "score"), texts_of(target_texts, "score")
        if len(sources) != len(targets):
            raise TextError(f"{len(sources)} sources but {len(targets)} translations to score")
        generator = self.generator(to)
        for n, text in enumerate(itertools.chain.from_iterable(zip(sources, targets, strict=True))):
            what = f"translation {n // 2 + 1}" if n % 2 else f"source {n // 2 + 1}"
            if not text.strip():
                raise TextError(f"{what} is empty: there is nothing to score")
            if problem := no_text(text):
                raise TextError(f"{what}: {problem}")
        pairs = list(
            zip(
                self.tokenizer.encode(sources, self.direction(to, None)[0]),
                self.tokenizer.encode(targets, to),
                strict=True,
            )
        )
        for n, ids in enumerate(pairs):
            if max(map(len, ids)) > generator.room:
                raise TextError(f"pair {n + 1} is longer than the {generator.room} tokens that {self.name} reads")
        out = []
        for text, (source, target), found in zip(targets, pairs, generator.score_each(pairs), strict=True):
            short = None
            if self.model.slotted and sum(found.logp) == -math.inf:
                room = int(self.model.slots(torch.tensor(len(source))))
                short = f"{len(target)} symbols do not fit on the {room} slots that {self.name} has for this source"
            out.append(TextScore(text, tuple(self.tokenizer.tokens(found.ids)), found.logp, short))
        return out

    def candidates(
        self,
        texts: Sequence[str],
        to: str,
        *,
        source: str | None = None,
        plan: Plan | None = None,
        lengths: Sequence[int] | None = None,
        progress: Progress = silent,
    ) -> list[list[list[Hypothesis]]]:
        """All that a translation is chosen from: for each text its target lengths, likeliest first, each with its
        hypotheses. `lengths` gives every text one target length of its own instead.
        """
        made = planned("trace", plan, {})
        inputs, problems = self._inputs(texts, to, source)
        for n, problem in problems.items():
            raise TextError(f"text {n + 1}: {problem}")
        inputs = self._ruled(inputs, texts, made)
        if lengths is not None:
            blanks = {n: Canvas((self.model.mask_id,) * lengths[n], rule=one.rule) for n, one in inputs.items()}
            inputs = {n: replace(one, canvases=(blanks[n],)) for n, one in inputs.items()}
        written = self.generator(to, source).write(list(inputs.values()), made, progress=progress)
        out: list[list[list[Hypothesis]]] = [[] for _ in texts]
        for n, found in zip(inputs, written, strict=True):
            out[n] = [[self._said(h, to) for h in some] for some in found]
        return out

    # ------------------------------------------------------------------ one list of texts

    def _many(
        self, texts: list[str], to: str, source: str | None, plan: Plan, traced: bool, scores: bool, progress: Progress
    ) -> list[Translation]:
        inputs, problems = self._inputs(texts, to, source)
        inputs = self._ruled(inputs, texts, plan)
        out = [Translation(text, error=problems.get(n)) for n, text in enumerate(texts)]
        progress(len(texts) - len(inputs))
        generator = self.generator(to, source)
        found = generator.generate(list(inputs.values()), plan, keep=traced, scores=scores, progress=progress)
        for n, hypotheses in zip(inputs, found, strict=True):
            best = self._best(hypotheses, plan.nbest, to)
            trace = self._traced(best[0], texts[n], inputs[n], self.direction(to, source)) if traced and best else None
            out[n] = replace(out[n], hypotheses=best, trace=trace)
        return out

    @cached_property
    def spelling(self) -> Spelling:
        """How the model's symbols spell text."""
        return spelling_of(self.tokenizer, int(self.model.architecture.vocabulary))

    def _ruled(self, inputs: dict[int, Input], texts: Sequence[str], plan: Plan) -> dict[int, Input]:
        """The inputs with the rules of their translations; some depend on the source."""
        if not ruled(plan):
            return inputs
        return {n: replace(one, rule=self.rule(plan, texts[n])) for n, one in inputs.items()}

    def rule(self, plan: Plan, text: str) -> Automaton | None:
        """What a translation of `text` must be by a plan, None: anything."""
        return rule_of(plan, self.spelling, text) if ruled(plan) else None

    def _best(self, hypotheses: Sequence[Hypothesis], nbest: int, to: str) -> tuple[Hypothesis, ...]:
        """The best by score, with their texts; two that read the same are one."""
        said: dict[str, Hypothesis] = {}
        for h in ranked(hypotheses):
            if len(said) == nbest:
                break
            spoken = self._said(h, to)
            said.setdefault(spoken.text, spoken)
        return tuple(said.values())

    def _inputs(self, texts: Sequence[str], to: str, source: str | None) -> tuple[dict[int, Input], dict[int, str]]:
        """{which text: its ids}, and why there are none for some: {which text: reason}."""
        room = self.generator(to, source).room
        problems = {n: problem for n, text in enumerate(texts) if (problem := no_text(text))}
        given = ["" if n in problems else " ".join(text.split()) for n, text in enumerate(texts)]  # one space is as two
        encoded = self.tokenizer.encode(given, self.direction(to, source)[0])
        problems |= {
            n: f"{len(ids)} tokens, but {self.name} reads at most {room}: split the sentence"
            for n, ids in enumerate(encoded)
            if len(ids) > room
        }
        usable = (n for n, text in enumerate(texts) if text.strip() and n not in problems)
        return {n: Input(tuple(encoded[n])) for n in usable}, problems

    def _said(self, h: Hypothesis, language: str) -> Hypothesis:
        """A hypothesis with its text."""
        text = str(self.tokenizer.decode([list(h.ids)], language)[0])
        return replace(h, text=text, tokens=tuple(self.tokenizer.tokens(h.ids)))

    def _traced(self, h: Hypothesis, text: str, given: Input, direction: tuple[str, str]) -> Trace:
        assert h.path is not None
        trace = h.path.trace(
            self._strings, direction="-".join(direction), source=text,
            source_tokens=self.tokenizer.tokens(given.source), log_length=h.log_length, text=h.text,
        )  # fmt: skip
        if trace.recipe == "autoregressive":  # its canvas is as long as a translation may be: show what was used of it
            end = 1 + max(position for step in trace.steps for position in step.positions)
            trace = replace(trace, canvas=trace.canvas[:end], tokens=trace.tokens[:end])
        return trace

    def _strings(self, ids: Tensor) -> tuple[str | None, ...]:
        """Token strings of a canvas, None where masked, without padding."""
        kept = [i for i in ids.tolist() if i != self.model.pad_id]
        blank = self.model.special.blank if self.model.slotted else None
        return tuple(
            None if i == self.model.mask_id else BLANK if i == blank else self.tokenizer.tokens([i])[0] for i in kept
        )

    def _text(self, ids: Tensor, language: str) -> str:
        """A canvas under way as it reads."""
        shown = ids[self.model.stands(ids) & ids.ne(self.model.mask_id)]
        return str(self.tokenizer.decode([shown.tolist()], language)[0])
