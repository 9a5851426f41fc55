"""Generator: ids in, hypotheses out. Encode, propose lengths, canvases, batches, decode or search, score, choose.

Translator and LanguageModel hold it for strings; distillation, validation and the server use it with ids:

    generator = anyorder.load("de-en").generator(to="en")
    generator.generate([Input(source_ids)], Plan.of("easy-first", lengths=4))[0][0].ids

Step by step it is `prepare` (inputs → rows with their contexts and first states), the core's steps over those rows,
`hypotheses` (what was written → hypotheses with their scores) and `results.ranked`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from anyorder import recipes
from anyorder.core import Automaton, Cost, Decoder, Length, Order, Predicted, State, begin
from anyorder.core.devices import device_of, inference
from anyorder.core.length import Known
from anyorder.errors import PlanError, RuleError, TextError
from anyorder.models.folder import LEARNED
from anyorder.models.translation import Source
from anyorder.options import RULES, known
from anyorder.text import engine, scoring
from anyorder.text.batching import Progress, padded, seeds, silent
from anyorder.text.draft import drafted
from anyorder.text.effort import expected
from anyorder.text.plan import Plan, check_causal
from anyorder.text.results import Found, Hypothesis
from anyorder.text.rows import Batch, Canvas, Input, Place, Scored, Whole, once, open_end
from anyorder.text.rules.rule import ruled
from anyorder.text.rules.spelling import lengths_said
from anyorder.text.words import COMPOSED, FORWARDS

PREFIX_BEAM = 16  # texts that a prefix beam keeps, where a plan does not say how many
OUTSIDE = -1  # a position that belongs to no part of a rule
_METER = Lock()  # batches that run side by side add to one cost


@dataclass(repr=False)
class Generator:
    """A model that is ready to write: from sources in one direction, or (direction None) on canvases alone."""

    model: Any
    direction: tuple[int, int] | None = None  # source and target language, as indices into the model's
    length: Length | None = None  # p(L|X); None: the model's own predictor, or its <eos>
    learned: Mapping[str, Order] = field(default_factory=dict)  # orders that were learned for this model, by name
    beside: Callable[[], Generator] | None = None  # the autoregressive model that rescores, made when it is needed
    name: str = "model"
    cost: Cost = field(default_factory=Cost)  # of everything this generator has done
    whole: Generator | None = None  # of the autoregressive model within another: that other's generator
    wrapped: dict[Any, Generator] = field(
        default_factory=dict, repr=False
    )  # those of its model with guidance, or caches

    def __repr__(self) -> str:
        return f"Generator({self.name!r}, {self.way!r})"

    @property
    def causal(self) -> bool:
        """Does it write from left to right only, to its own <eos>?"""
        return bool(self.model.causal)

    @cached_property
    def forwards(self) -> Generator:
        """The generator of the autoregressive model that this one's model contains; what it does costs the same."""
        if self.causal:
            return self
        if self.model.forwards is None:
            raise PlanError(f"{self.name} contains no autoregressive model: {FORWARDS!r} is not for it")
        return Generator(self.model.forwards, self.direction, None, {}, self.beside, self.name, self.cost, self)

    def settled(self, plan: Plan, given: bool = False) -> Plan:
        """With the order and the score of the model's kind where a plan has none; for `given` canvases, an order that
        can fill them, and the score of what was written; for a rule, an order that places what it wants."""
        own = self.model.order
        plan = plan if self.causal else plan.settled(COMPOSED if (given or ruled(plan)) and own == FORWARDS else own)
        plan = replace(plan, rescore="written") if plan.rescore == "none" else plan
        if self.model.slotted:
            return self._settled_on_slots(plan)
        if plan.prefix_beam not in (None, 1):
            raise PlanError(
                f"{self.name} has no canvas of slots, which prefix_beam searches: leave it out, or take beam"
            )
        judges = self.model.forwards is not None and plan.order != FORWARDS and plan.chooses and not given
        return plan.judged("forwards" if judges else "written")

    def _settled_on_slots(self, plan: Plan) -> Plan:
        """With a prefix beam and the score of the autoregressive model beside, where a plan has none."""
        if plan.lengths > 1 and "lengths" in plan.changed:
            raise PlanError(f"{self.name} writes on one canvas, so lengths could have no effect: leave it out")
        if ruled := [name for name in plan.changed if known()[name].about.panel == RULES]:
            raise PlanError(
                f"{ruled[0]} is a rule of symbols side by side, and {self.name} writes slots that are read as a text: "
                "leave it out, or take the model de-en-masked or de-en-ar"
            )
        if plan.polish:
            raise PlanError(
                "polish writes symbols of a text anew, and a canvas of slots holds alignments: leave it out"
            )
        drawn = plan.searches or plan.temperature > 0
        if drawn and (plan.prefix_beam or 1) > 1:
            raise PlanError("a prefix beam searches what was seen, so beam, positions and temperature have no effect")
        beam = plan.prefix_beam or (1 if drawn else PREFIX_BEAM)
        judges = self.beside is not None and (beam > 1 or plan.searches or len(plan.each) > 1)
        return replace(plan, prefix_beam=beam).judged("ar" if judges else "written")

    def carried_by(self, plan: Plan, inputs: Sequence[Input] = ()) -> tuple[Generator, Plan]:
        """The generator that carries out a plan, and the plan as it has it: this one, but for the order "forwards",
        guidance and a cache."""
        plan = self.settled(plan, given := any(one.canvases for one in inputs))
        if plan.guidance or plan.cache:
            return self._wrapped(plan), replace(plan, guidance=0.0, cache=None)
        if self.causal or plan.order != FORWARDS:
            return self, plan
        if given:
            raise PlanError(f"{FORWARDS} writes whole texts to their own end: take another order to fill a canvas")
        return self.forwards, replace(plan, order=None)

    def _wrapped(self, plan: Plan) -> Generator:
        """The generator of this model with guidance or a cache, made once; what it does costs the same."""
        from anyorder.models.block_cache import cached_by
        from anyorder.models.diffusion_lm import Guided

        if plan.guidance and plan.cache:
            raise PlanError("guidance runs every canvas twice, for which there is no cache: leave one of the two out")
        if self.direction is not None:
            raise PlanError("guidance and cache are for language models: leave them out")
        size = (
            0
            if plan.guidance
            else replace(plan, cache=None).decoder(self.model.special_ids, self.learned).coordinates.among.span
        )
        key = (plan.guidance, plan.cache, size)
        if key not in self.wrapped:
            model = Guided(self.model, plan.guidance) if plan.guidance else cached_by(self.model, str(plan.cache), size)
            self.wrapped[key] = replace(self, model=model, wrapped={})
        return self.wrapped[key]

    @property
    def way(self) -> str:
        """The direction by its languages, "de-en"."""
        return "text" if self.direction is None else "-".join(self.model.languages[i] for i in self.direction)

    @property
    def room(self) -> int:
        """Symbols that a source or a target may have."""
        return int(self.model.room)

    @property
    def device(self) -> torch.device:
        """Where the model is; rows are made there."""
        return device_of(self.model)

    # ------------------------------------------------------------------ all at once

    def generate(
        self,
        inputs: Sequence[Input],
        plan: Plan,
        *,
        keep: bool = False,
        scores: bool = True,
        progress: Progress = silent,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each input, of all its canvases and all orders of the plan, polished if asked.

        `keep` keeps their paths, for traces: canvases are then written one at a time. Without `scores` a text that is
        written from left to right and compared with no other has none (NaN), which is faster. `progress` hears of every
        input that is finished.
        """
        polish = plan.polish > 0
        if polish and self.causal:
            raise PlanError(f"{self.name} writes from left to right only: it cannot write a part anew (polish)")
        written = self.write(inputs, plan, keep=keep, scores=scores, progress=silent if polish else progress)
        found = [[h for some in each for h in some] for each in written]
        if not polish:
            return found
        from anyorder.text.polish import polished

        return polished(self, inputs, found, plan, progress)

    def write(
        self,
        inputs: Sequence[Input],
        plan: Plan,
        *,
        keep: bool = False,
        scores: bool = True,
        progress: Progress = silent,
    ) -> list[list[list[Hypothesis]]]:
        """For each input and each of its canvases (likeliest length first) the hypotheses, order by order."""
        carrier, plan = self.carried_by(plan, inputs)
        return carrier._write(inputs, plan, keep, scores, progress)

    def _write(
        self, inputs: Sequence[Input], plan: Plan, keep: bool, scores: bool, progress: Progress
    ) -> list[list[list[Hypothesis]]]:
        """As `write`, with a plan that is settled."""
        decoders = self.decoders(plan, scores or keep)
        expected(self, inputs, decoders, keep).allow(plan, self.name)
        inputs = drafted(self, inputs, plan.lengths) if plan.draft else inputs
        return engine.write(self, inputs, plan, keep, scores, progress)

    def decoders(self, plan: Plan, scores: bool) -> list[tuple[Plan, Decoder]]:
        """The composition of each order of a settled plan. Without `scores` a text that is written from left to right,
        and is the only one of its input, gets none. Other orders may look at log p of what stands."""
        scored = scores or not self.causal or plan.searches
        return [(each, replace(self._decoder(each), scored=scored)) for each in plan.each]

    def spend(self, cost: Cost) -> None:
        """Add to what this generator has cost."""
        with _METER:
            self.cost.add(cost)

    # ------------------------------------------------------------------ step by step

    def prepare(self, inputs: Sequence[Input], plan: Plan) -> Batch:
        """Rows for the core: each source is encoded once, for its lengths and for all of its canvases."""
        context = self.encode([i.source for i in inputs])
        bare, length = [n for n, i in enumerate(inputs) if not i.canvases], plan.length
        if isinstance(length, Known) and len(bare) < len(inputs):
            raise PlanError("the canvases are given, so the decoder's own length model could have no effect")
        proposed: dict[int, Sequence[Canvas]] = {}
        if bare:
            some = context if len(bare) == len(inputs) else context.take(torch.tensor(bare, device=self.device))
            sizes, rules = [len(inputs[n].source) for n in bare], [inputs[n].rule for n in bare]
            blanks = self.propose(sizes, some, plan.lengths, length, rules)
            proposed = dict(zip(bare, blanks, strict=True))
        each = [proposed.get(n, i.canvases) for n, i in enumerate(inputs)]
        places = [Place(n, k) for n, some in enumerate(each) for k in range(len(some))]
        canvases = [each[p.input][p.canvas] for p in places]
        sources = [inputs[p.input].source for p in places]
        tokens = padded([c.tokens for c in canvases], self.model.pad_id).to(self.device)
        keys = seeds(plan.seed, [self._key(s, c) for s, c in zip(sources, canvases, strict=True)])
        prior = torch.tensor([c.log_length for c in canvases], device=self.device)
        state = begin(tokens, self.model.mask_id, self.model.pad_id, score=prior, seed=keys.to(self.device))
        state = self._ruled(state, canvases, plan)
        owner = torch.tensor([p.input for p in places], dtype=torch.int64, device=self.device)
        context = context if places == [Place(n, 0) for n in range(len(inputs))] else context.take(owner)
        if hasattr(context, "given"):  # it tells a prompt from what is written after it
            context = context.given(~state.open & (tokens != self.model.pad_id))
        return Batch(sources, canvases, places, context, state)

    def _ruled(self, state: State, canvases: Sequence[Canvas], plan: Plan) -> State:
        """The state of canvases that have rules, with them."""
        if ruled(plan) and not all(c.rule for c in canvases):
            raise RuleError(
                "a rule (pattern, schema, ban, include …) is not kept here: use translate, fill or generate"
            )
        if not any(c.rule for c in canvases):
            return state
        if self.model.slotted:
            raise RuleError(
                f"{self.name} writes on slots that are merged at the end, so a rule of its text cannot be kept: take "
                "another model"
            )
        rules = [c.rule.ending(self.model.special.eos) if c.rule and self.causal else c.rule for c in canvases]
        parts = padded([c.parts or (0,) * len(c.tokens) for c in canvases], OUTSIDE)
        state = state.ruled(rules, parts.to(self.device))
        assert state.rules is not None
        possible = state.rules.without([*self.model.special_ids, self.model.pad_id]).reach(state.tokens).possible
        for n in (~possible).nonzero()[:1, 0].tolist():
            rule, blank = canvases[n].rule, canvases[n].tokens.count(self.model.mask_id)
            assert rule is not None
            raise RuleError(f"no text of {blank} symbols keeps the rule here: {lengths_said(rule)}")
        return state

    def _key(self, source: Sequence[int], canvas: Canvas) -> list[int]:
        """What a row's randomness comes from: its own content."""
        if not source:
            return [*canvas.tokens, canvas.copy]
        blank = canvas.tokens.count(self.model.mask_id) == len(canvas.tokens)
        return [*source, len(canvas.tokens), *(() if blank else canvas.tokens)]

    def encode(self, sources: Sequence[Sequence[int]]) -> Any:
        """The model's context of these sources, one row each."""
        if self.direction is None:
            return self.model.encode(None)
        with inference(self.device):
            return self.model.encode(Source(padded(sources, self.model.pad_id).to(self.device), *self.direction))

    def propose(
        self,
        sizes: Sequence[int],
        context: Any,
        n: int,
        length: Length | None = None,
        rules: Sequence[Automaton | None] = (),
    ) -> list[list[Canvas]]:
        """p(L|X): blank canvases of the n best lengths for each source of these sizes, the likeliest first.

        `length` is a decoder's own p(L|X), instead of the generator's; a known length is one, however many are tried.
        Where a text has a rule, p(L|X) is that of the lengths that such texts have.
        """
        rules = rules or [None] * len(sizes)

        def blank(length: int, log_length: float, rule: Automaton | None) -> Canvas:
            width = length if self.model.slotted else min(length, self.room)
            return Canvas((self.model.mask_id,) * width, log_length, rule=rule)

        if self.causal:  # it ends where it likes, on a canvas that is long enough
            least = [0 if rule is None else (rule.shortest or 0) + 10 for rule in rules]
            return [
                [blank(max(open_end(size), more), 0.0, rule)]
                for size, more, rule in zip(sizes, least, rules, strict=True)
            ]
        length = self.length if length is None and not self.model.slotted else length
        if length is None and self.model.predicts_length:
            length = Predicted(self.model.log_length)
        if length is None:
            raise TextError(f"{self.name} has no length model for {self.way}: give one, or give canvases")
        many = min(n, self.room) if not any(rules) else self.room
        with inference(self.device):
            lengths, logp = length.propose(torch.tensor(sizes), many, context)
        out = []
        for some, values, rule in zip(lengths.tolist(), logp.tolist(), rules, strict=True):
            pairs = [(one, value) for one, value in zip(some, values, strict=True) if one > 0]
            if rule is not None:
                pairs = self._having(rule, [(one, value) for one, value in pairs if one <= self.room])
            blanks = [blank(one, value, rule) for one, value in pairs]
            out.append(list(once(blanks))[:n])
        return out

    def _having(self, rule: Automaton, pairs: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
        """The lengths that a rule's texts have, and log p(L|X) among these."""
        have = rule.without(self.model.special_ids).lengths(self.room).tolist()
        kept = [(one, value) for one, value in pairs if have[one] and value > -math.inf]
        if not kept:
            raise RuleError(f"no text of a length that {self.name} proposes keeps the rule: {lengths_said(rule)}")
        total = torch.tensor([value for _, value in kept]).logsumexp(0).item()
        return [(one, value - total) for one, value in kept]

    def decoder(self, plan: Plan) -> Decoder:
        """The composition of a plan with one order, for this model: it writes text only."""
        carrier, plan = self.carried_by(plan)
        return carrier._decoder(plan)

    def _decoder(self, plan: Plan) -> Decoder:
        if self.causal:
            check_causal(plan, self.name, "leave it out, or give an order" if self.whole else "leave it out")
            return replace(
                recipes.autoregressive(0, self.model.special.eos),
                symbols=replace(plan.symbols(), ban=self.model.special_ids),
            )
        if (order := plan.order) in LEARNED and order not in self.learned:
            raise PlanError(f"{self.name} has no {order} order for {self.way}: train one, or use easy-first")
        return plan.decoder(self.model.special_ids, self.learned, paths=not self.model.slotted)

    def hypotheses(self, batch: Batch, found: Found, plan: Plan) -> list[list[Hypothesis]]:
        """What was found on each row of a batch, with the score that the plan chooses by."""
        return scoring.hypotheses(self, batch, found, plan)

    # ------------------------------------------------------------------ scores of whole texts

    def judge(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], plan: Plan) -> list[float]:
        """What each (source, target) is worth to the score that is chosen by."""
        return scoring.judge(self, pairs, plan)

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float]:
        """Σ log p of each (source, target): pseudo log-likelihood, or log-likelihood (causal, or on slots)."""
        return [float(sum(logp)) if ids else -math.inf for ids, logp in self.score_each(pairs)]

    def score_each(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Scored]:
        """As `score`, symbol by symbol."""
        if self.model.slotted:
            return scoring.on_slots(self, pairs)
        ends = [self.model.special.eos] if self.causal else []
        wholes = [Whole(source, [*target, *ends], 0, len(target) + len(ends)) for source, target in pairs]
        usable = [i for i, whole in enumerate(wholes) if whole.tokens]
        out = [Scored(tuple(whole.tokens), ()) for whole in wholes]
        for i, values in zip(usable, self.log_probs([wholes[i] for i in usable]), strict=True):
            out[i] = Scored(out[i].ids, tuple(values.tolist()))
        return out

    def paths(self, items: Sequence[scoring.Written]) -> list[float]:
        """Σ log p of the symbols of texts that are there already, as they are written in an order."""
        return scoring.paths(self, items)

    def log_probs(self, wholes: Sequence[Whole]) -> list[Tensor]:
        """log p of each symbol that counts, given all the others (causal: those before it)."""
        return scoring.log_probs(self, wholes)
