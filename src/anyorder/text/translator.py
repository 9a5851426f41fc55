"""Translator: strings in, translations out, for every translation model (undirected, CMLM, autoregressive)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, overload

from anyorder.core import (
    Cost,
    unroll,
)
from anyorder.text.batching import Found, Progress, silent
from anyorder.text.candidates import Candidates, Row
from anyorder.text.local_search import REWRITING, Limits, polished
from anyorder.text.plan import Plan, PlanError
from anyorder.text.results import Hypothesis, Moment, TextError, Translation
from anyorder.traces.record import record, record_path
from anyorder.traces.trace import Trace

FIRST_WINDOW, WINDOW = 16, 256  # sentences read ahead when a stream is translated: few at first, then at most


class Translator(Candidates):
    """A translation model with its tokeniser and length model, and perhaps an autoregressive one beside it."""

    beside: Callable[[], Translator] | None

    @overload
    def translate(self, texts: str, to: str, **options: Any) -> Translation: ...
    @overload
    def translate(self, texts: Sequence[str], to: str, **options: Any) -> list[Translation]: ...

    def translate(
        self,
        texts: str | Sequence[str],
        to: str,
        *,
        source: str | None = None,
        plan: Plan | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> Translation | list[Translation]:
        """Translate one text or a list of texts into language `to`; lists come back in order.

        Options are those of `Plan` (order, steps, beam, lengths, rescore …), or a `plan`. An empty text gives an
        empty translation; one that cannot be translated has its reason in `error`.
        """
        if isinstance(texts, str):
            return self._many([texts], to, source, plan or Plan(**options), progress)[0]
        return self._many(list(texts), to, source, plan or Plan(**options), progress)

    def translate_stream(
        self, lines: Iterable[str], to: str, *, source: str | None = None, plan: Plan | None = None, **options: Any
    ) -> Iterator[Translation]:
        """Translations of a long stream, in order, in bounded memory."""
        plan, iterator, size = plan or Plan(**options), iter(lines), FIRST_WINDOW
        while window := [line.rstrip("\r\n") for line in islice(iterator, size)]:
            yield from self._many(window, to, source, plan, silent)
            size = min(2 * size, WINDOW)

    def stream(self, text: str, to: str, *, source: str | None = None, **options: Any) -> Iterator[Moment]:
        """Watch one sentence being written at its most likely length: a `Moment` a step."""
        plan = Plan(**{"lengths": 1, **options})
        direction = self.direction(to, source)
        rows, problems = self._rows([text], direction, plan)
        if problems:
            raise TextError(problems[0])
        if not rows:
            return
        context, state = self._begin(rows[:1], direction, plan)
        for taken in unroll(self.model, context, state, self._decoder(plan, direction)):
            tokens = self._strings(taken.state.tokens[0])
            written_here = tuple(taken.z[0].nonzero()[:, 0].tolist())
            yield Moment(int(taken.before.step[0]), tokens, written_here, self._text(taken.state.tokens[0], to))

    def trace(
        self, text: str, to: str, *, source: str | None = None, plan: Plan | None = None, **options: Any
    ) -> Trace:
        """How the best translation of `text` came about, step by step, with alternatives."""
        plan = plan or Plan(**options)
        direction = self.direction(to, source)
        plan, row, best, k = self._best_of(text, direction, plan)
        names = dict(
            recipe=plan.name, direction="-".join(direction), source=text,
            source_tokens=self.tokenizer.tokens(row.ids), log_length=row.log_length,
        )  # fmt: skip
        context, state = self._begin([row], direction, plan)
        if best.path is not None and best.symbol is not None and best.gain is not None:
            trace = record_path(
                state, best.path[0, k], best.symbol[0, k], best.gain[0, k], float(best.score[0, k]), best.cost,
                self._strings, **names,
            )  # fmt: skip
        else:
            cost = Cost()
            steps = list(unroll(self.model, context, state, self._decoder(plan, direction), cost=cost, alternatives=5))
            trace = record(steps, 0, self._strings, cost, **names)
        if self.causal:  # its canvas is as long as a translation may be: show what was used of it
            end = 1 + max(position for step in trace.steps for position in step.positions)
            trace = replace(trace, recipe="autoregressive", canvas=trace.canvas[:end], tokens=trace.tokens[:end])
        return replace(trace, text=self.tokenizer.decode([self._ids_of(trace)], to)[0])

    def score(self, source_texts: str | Sequence[str], target_texts: str | Sequence[str], to: str) -> list[float]:
        """Σ log p of given translations: pseudo log-likelihood, or the log-likelihood of an autoregressive model."""
        sources = [source_texts] if isinstance(source_texts, str) else list(source_texts)
        targets = [target_texts] if isinstance(target_texts, str) else list(target_texts)
        if len(sources) != len(targets):
            raise TextError(f"{len(sources)} sources but {len(targets)} translations to score")
        direction = self.direction(to, None)
        source_ids, target_ids = self.tokenizer.encode(sources, direction[0]), self.tokenizer.encode(targets, to)
        return self.score_ids(source_ids, target_ids, direction)

    # ------------------------------------------------------------------ one list of texts

    def _many(self, texts: list[str], to: str, source: str | None, plan: Plan, progress: Progress) -> list[Translation]:
        direction = self.direction(to, source)
        rows, problems = self._rows(texts, direction, plan)
        out = [Translation(text, error=problems.get(n)) for n, text in enumerate(texts)]
        progress(len(texts) - len({r.sentence for r in rows}))
        hypotheses: dict[int, list[Hypothesis]] = {}
        for row, found in zip(rows, self._run(rows, direction, plan, silent if plan.polish else progress), strict=True):
            hypotheses.setdefault(row.sentence, []).extend(found)
        if plan.polish:
            hypotheses = self._polished(rows, hypotheses, direction, plan, progress)
        for n, candidates in hypotheses.items():
            ranked = sorted(candidates, key=lambda h: -h.score)
            distinct = list({h.text: h for h in reversed(ranked)}.values())[::-1]
            out[n] = replace(out[n], hypotheses=tuple(sorted(distinct, key=lambda h: -h.score)[: plan.nbest]))
        return out

    def _polished(
        self,
        rows: Sequence[Row],
        hypotheses: dict[int, list[Hypothesis]],
        direction: tuple[str, str],
        plan: Plan,
        progress: Progress,
    ) -> dict[int, list[Hypothesis]]:
        if self.causal:
            raise PlanError(f"{self.name} writes from left to right only: it cannot write a part anew (polish)")
        return polished(
            hypotheses,
            {row.sentence: row.ids for row in rows},
            lambda new: self._run(new, direction, REWRITING, silent),
            lambda pairs: self._whole(pairs, direction, plan),
            lambda ids: str(self.tokenizer.decode([list(ids)], direction[1])[0]),
            Limits(plan.polish, self.model.mask_id, self.model.architecture.positions - 2),
            progress,
        )

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
        direction = self.direction(to, source)
        plan = self._unpolished(plan or Plan())
        rows, problems = self._rows(texts, direction, plan if lengths is None else replace(plan, lengths=1))
        for n, problem in problems.items():
            raise TextError(f"text {n + 1}: {problem}")
        if lengths is not None:
            rows = [replace(row, length=lengths[row.sentence], log_length=0.0) for row in rows]
        out: list[list[list[Hypothesis]]] = [[] for _ in texts]
        for row, found in zip(rows, self._run(rows, direction, plan, progress), strict=True):
            out[row.sentence].append(found)
        return out

    def _best_of(self, text: str, direction: tuple[str, str], plan: Plan) -> tuple[Plan, Row, Found, int]:
        """The order and the canvas that gave the best translation of a text, what was found there, and which of it."""
        rows, problems = self._rows([text], direction, self._unpolished(plan))
        if problems:
            raise TextError(problems[0])
        ranked: list[tuple[float, Plan, Row, Found, int]] = []
        for one in plan.each:
            for row in rows:
                found = self._search([row], direction, one)
                hypotheses = self._ranked([row], found, direction, one)[0]
                ranked += [(h.score, one, row, found, k) for k, h in enumerate(hypotheses)]
        if not ranked:
            raise TextError(f"nothing to translate in {text!r}")
        return max(ranked, key=lambda candidate: candidate[0])[1:]

    def _unpolished(self, plan: Plan) -> Plan:
        if plan.polish:
            raise PlanError("polish joins parts of many generations: there is no single one to show (leave polish out)")
        return plan
