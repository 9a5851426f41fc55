"""Candidates: from sentences as ids to ranked hypotheses. What `Translator` is made of; no text API here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from anyorder import recipes
from anyorder.core import (
    Cost,
    Counts,
    Decoder,
    Length,
    Order,
    Predicted,
    State,
    begin,
    log_likelihood,
    pll,
)
from anyorder.models.machine import side_by_side
from anyorder.models.translation import Source
from anyorder.text.batching import Found, Progress, batches, padded, search, seeds, total
from anyorder.text.plan import Plan, PlanError
from anyorder.text.results import Hypothesis, TextError
from anyorder.traces.trace import Trace

_METER = Lock()  # batches that run side by side add to one cost


@dataclass
class Row:
    """One canvas of one sentence."""

    sentence: int
    ids: list[int]
    length: int
    log_length: float
    given: tuple[int, ...] = ()  # what stands on it, with masks where it is to be written; else it is all masks


@dataclass
class Candidates:
    """A translation model with its tokeniser and length model; `beside` is the autoregressive model that rescores."""

    model: Any
    tokenizer: Any
    languages: tuple[str, ...]
    lengths: Mapping[str, Length] = field(default_factory=dict)  # "de-en" → p(L|X)
    beside: Callable[[], Candidates] | None = None  # loaded when it is first needed
    policies: Mapping[str, Order] = field(default_factory=dict)  # "de-en" → learned order
    name: str = "model"
    cost: Cost = field(default_factory=Cost)  # of everything this translator has done

    @property
    def causal(self) -> bool:
        return getattr(self.model, "kind", "") == "autoregressive"

    def direction(self, to: str, source: str | None) -> tuple[str, str]:
        """(source language, target language), checked."""
        for language in (to, source):
            if language is not None and language not in self.languages:
                raise TextError(
                    f"{self.name} does not know the language {language!r}; it knows {', '.join(self.languages)}"
                )
        others = [language for language in self.languages if language != to]
        if source is None and len(others) != 1:
            raise TextError(f"say which language to translate from: one of {', '.join(others)}")
        chosen = source or others[0]
        if chosen == to:
            raise TextError(f"source and target language are both {to!r}")
        return chosen, to

    def _run(
        self, rows: Sequence[Row], direction: tuple[str, str], plan: Plan, progress: Progress
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each canvas, of every order of the plan, decoded in batches.

        `progress` hears of every finished sentence.
        """
        out: list[list[Hypothesis]] = [[] for _ in rows]
        left = Counter(row.sentence for row in rows for _ in plan.each)
        sizes = [len(r.ids) + r.length + 4 for r in rows]
        steps = [r.given.count(self.model.mask_id) or r.length for r in rows]
        parts = [(one, part) for part in batches(sizes, copies=plan.beam, steps=steps) for one in plan.each]
        each = side_by_side(lambda job: self._candidates([rows[i] for i in job[1]], direction, job[0]), parts)
        for (_, part), hypotheses in zip(parts, each, strict=True):
            for i, found in zip(part, hypotheses, strict=True):
                out[i] += found
                left[rows[i].sentence] -= 1
                if not left[rows[i].sentence]:
                    progress(1)
        return out

    def _rows(self, texts: Sequence[str], direction: tuple[str, str], plan: Plan) -> tuple[list[Row], dict[int, str]]:
        """The canvases to try for each sentence, and why there are none for some: {sentence: reason}."""
        room = self.model.architecture.positions - 2
        encoded = self.tokenizer.encode(texts, direction[0])
        problems = {
            n: f"{len(ids)} tokens, but {self.name} reads at most {room}: split the sentence"
            for n, ids in enumerate(encoded)
            if len(ids) > room
        }
        usable = [n for n, text in enumerate(texts) if text.strip() and n not in problems]
        if self.causal:
            return [Row(n, encoded[n], min(room, 2 * len(encoded[n]) + 10), 0.0) for n in usable], problems
        if not usable:
            return [], problems
        lengths, logp = self._lengths([encoded[n] for n in usable], direction, plan)
        rows = [
            Row(n, encoded[n], min(length, room), p)
            for n, some, ps in zip(usable, lengths.tolist(), logp.tolist(), strict=True)
            for length, p in zip(some, ps, strict=True)
        ]
        return rows, problems

    def _lengths(
        self, encoded: Sequence[Sequence[int]], direction: tuple[str, str], plan: Plan
    ) -> tuple[Tensor, Tensor]:
        """p(L|X): the best lengths of each sentence and their log-probabilities, (B, n) each."""
        sizes = torch.tensor([len(ids) for ids in encoded])
        if not hasattr(self.model, "log_length"):
            return self._length_model(direction).propose(sizes, plan.lengths)
        predicted = Predicted(self.model.log_length)
        lengths = torch.zeros(len(encoded), plan.lengths, dtype=torch.int64)
        logp = torch.zeros(len(encoded), plan.lengths)
        for part in batches(sizes.tolist()):
            rows = [Row(i, list(encoded[i]), 1, 0.0) for i in part]
            with torch.inference_mode():
                context = self.model.encode(self._source(rows, direction))
                lengths[part], logp[part] = predicted.propose(sizes[part], plan.lengths, context)
        return lengths, logp

    def _length_model(self, direction: tuple[str, str]) -> Length:
        key = "-".join(direction)
        if key not in self.lengths:
            raise TextError(f"{self.name} has no length model for {key}; it has {', '.join(self.lengths) or 'none'}")
        return self.lengths[key]

    def _source(self, rows: Sequence[Row], direction: tuple[str, str]) -> Source:
        a, b = (self.languages.index(language) for language in direction)
        return Source(padded([r.ids for r in rows], self.model.pad_id), a, b)

    def _begin(self, rows: Sequence[Row], direction: tuple[str, str], plan: Plan) -> tuple[Any, State]:
        with torch.inference_mode():
            context = self.model.encode(self._source(rows, direction))
        first = padded([r.given or [self.model.mask_id] * r.length for r in rows], self.model.pad_id)
        keys = seeds(plan.seed, [[*r.ids, r.length, *r.given] for r in rows])
        log_length = torch.tensor([r.log_length for r in rows])
        return context, begin(first, self.model.mask_id, self.model.pad_id, score=log_length, seed=keys)

    def _decoder(self, plan: Plan, direction: tuple[str, str]) -> Decoder:
        symbols = self.model.symbols
        ban = {symbols.bos, symbols.pad, symbols.unk, symbols.mask, *getattr(self.model, "banned", ())}
        policy = self.policies.get("-".join(direction))
        if plan.order == "learned" and policy is None:
            raise PlanError(f"{self.name} has no learned order for {'-'.join(direction)}: train one, or use easy-first")
        plan = replace(plan, orders={"learned": policy} if policy else {})
        if self.causal:
            return replace(
                recipes.autoregressive(0, symbols.eos), symbols=replace(plan.decoder().symbols, ban=tuple(ban))
            )
        return plan.decoder(tuple(ban | {symbols.eos}))

    def _search(self, rows: Sequence[Row], direction: tuple[str, str], plan: Plan) -> Found:
        context, state = self._begin(rows, direction, plan)
        found = search(self.model, context, state, self._decoder(plan, direction), plan.beam, plan.positions)
        self._spend(found.cost)
        return found

    def _candidates(self, rows: Sequence[Row], direction: tuple[str, str], plan: Plan) -> list[list[Hypothesis]]:
        """The hypotheses of each canvas."""
        return self._ranked(rows, self._search(rows, direction, plan), direction, plan)

    def _ranked(
        self, rows: Sequence[Row], found: Found, direction: tuple[str, str], plan: Plan
    ) -> list[list[Hypothesis]]:
        flat = [
            (n, k, [t for t in found.tokens[n, k].tolist() if t not in (self.model.pad_id, self.model.symbols.eos)])
            for n in range(len(rows))
            for k in range(found.tokens.shape[1])
            if found.score[n, k] > -torch.inf
        ]
        path = [float(found.score[n, k]) for n, k, _ in flat]
        ends = int(self.causal)  # a causal model also writes </s>
        if plan.rescore == "path" or (self.causal and plan.rescore == "written"):
            scores = [p / max(1, len(ids) + ends) for p, (_, _, ids) in zip(path, flat, strict=True)]
        elif plan.rescore == "written":  # the path of symbols that still stand: what was taken back does not count
            scores = [(rows[n].log_length + float(found.logp[n, k].sum())) / max(1, len(ids)) for n, k, ids in flat]
        else:
            scores = self._whole([(rows[n].ids, ids) for n, _, ids in flat], direction, plan)
        texts = self.tokenizer.decode([ids for _, _, ids in flat], direction[1])
        out: list[list[Hypothesis]] = [[] for _ in rows]
        for (n, k, ids), text, score, path_score in zip(flat, texts, scores, path, strict=True):
            log_p = found.logp[n, k, : len(ids)].tolist()
            names = tuple(self.tokenizer.tokens(ids))
            out[n].append(Hypothesis(text, tuple(ids), names, tuple(log_p), score, path_score, rows[n].log_length))
        return out

    def _whole(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], direction: tuple[str, str], plan: Plan
    ) -> list[float]:
        """The score of whole targets that the plan asks for, divided by their lengths; pairs are (source, target)."""
        if plan.rescore == "ar" and self.beside is None:
            raise PlanError(f"{self.name} has no autoregressive model beside it to rescore with: give one")
        scorer = self.beside() if plan.rescore == "ar" and self.beside is not None else self
        scores = scorer.score_ids([source for source, _ in pairs], [target for _, target in pairs], direction)
        return [score / max(1, len(t) + scorer.causal) for score, (_, t) in zip(scores, pairs, strict=True)]

    def score_ids(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], direction: tuple[str, str]
    ) -> list[float]:
        """Σ log p of each target: pseudo log-likelihood, or log-likelihood with </s> for a causal model."""
        model, cost = self.model, Cost()
        ends = [model.symbols.eos] if self.causal else []
        out = [0.0] * len(targets)
        usable = [i for i, target in enumerate(targets) if target]
        for part in batches([len(sources[i]) + len(targets[i]) + 4 for i in usable]):
            chosen = [usable[i] for i in part]
            tokens = padded([[*targets[i], *ends] for i in chosen], model.pad_id)
            rows = [Row(i, list(sources[i]), 1, 0.0) for i in chosen]
            with torch.inference_mode():
                context = model.encode(self._source(rows, direction))
            state = begin(tokens, model.mask_id, model.pad_id, open=tokens != model.pad_id)
            values = (log_likelihood if self.causal else pll)(model, context, state, cost)
            for i, value in zip(chosen, values.tolist(), strict=True):
                out[i] = value
        self._spend(cost)
        return out

    def _spend(self, cost: Cost) -> None:
        with _METER:
            self.cost = total([self.cost, cost])

    def _strings(self, ids: Tensor) -> tuple[str | None, ...]:
        """Token strings of a canvas, None where masked, without padding."""
        kept = [i for i in ids.tolist() if i != self.model.pad_id]
        return tuple(None if i == self.model.mask_id else self.tokenizer.tokens([i])[0] for i in kept)

    def _text(self, ids: Tensor, language: str) -> str:
        skip = (self.model.pad_id, self.model.mask_id, self.model.symbols.eos)
        return str(self.tokenizer.decode([[i for i in ids.tolist() if i not in skip]], language)[0])

    def _ids_of(self, trace: Trace) -> list[int]:
        final: dict[int, int] = {}
        for step in trace.steps:
            final.update(zip(step.positions, step.ids, strict=True))
        skip = (self.model.pad_id, self.model.mask_id, self.model.symbols.eos)
        return [final[i] for i in sorted(final) if final[i] not in skip]


def length_models(table: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, Length]:
    """`lengths.json` as length models: {"de-en": {source length: {target length: count}}}."""
    out: dict[str, Length] = {}
    for direction, counts in table.items():
        pairs = [(int(s), int(t), int(c)) for s, row in counts.items() for t, c in row.items()]
        size = torch.zeros(max(s for s, _, _ in pairs) + 1, max(t for _, t, _ in pairs) + 1, dtype=torch.float64)
        for s, t, c in pairs:
            size[s, t] = c
        out[direction] = Counts(size)
    return out
