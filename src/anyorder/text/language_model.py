"""LanguageModel: fill, infill, generate and score text with a masked or diffusion language model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Unpack, get_args, overload

import torch
from torch import Tensor

from anyorder.core import Automaton, Cost, Decoder, any_order_bound, begin, decode, marginal, pll
from anyorder.core.devices import device_of
from anyorder.errors import TextError
from anyorder.models import vocabulary
from anyorder.models.placing import moved
from anyorder.options import Task, Unknown, defaults, known, number
from anyorder.text import choices, keywords
from anyorder.text.blanks import GAP, Blanks, spoken, texts_of, usable
from anyorder.text.conversation import Message, answer, ended, prompt_of, stopped, stops
from anyorder.text.designs import Chain, Design, design
from anyorder.text.effects import Effect, Scorer, single_substitutions, stretches, usual_letters, variant
from anyorder.text.effort import estimate
from anyorder.text.engine import steps_of
from anyorder.text.generator import Generator
from anyorder.text.plan import Plan, planned
from anyorder.text.results import Filling, Hypothesis, Likelihood, Moment, TextScore
from anyorder.text.rows import Canvas, Input, Whole
from anyorder.text.rules.rule import RULES, lengths_tried, rule_of, ruled
from anyorder.text.rules.spelling import Spelling, spelling_of
from anyorder.traces.trace import Trace

Likely = Literal["chain", "pll", "bound", "marginal"]

MOST_SYMBOLS = 128  # that a text under a rule has where nothing says how many


@dataclass(repr=False)
class LanguageModel:
    """A masked language model with its tokenizer (Hugging Face's interface)."""

    tasks: ClassVar[tuple[Task, ...]] = ("fill", "infill", "generate", "stream")  # what it can do, beside scoring
    languages: ClassVar[tuple[str, ...]] = ()  # that it translates between
    causal: ClassVar[bool] = False
    forwards: ClassVar[bool] = False

    model: Any
    tokenizer: Any
    name: str = "model"
    unknown: Unknown = "refuse"
    generator: Generator = field(init=False, repr=False)  # ids in, hypotheses out

    def __post_init__(self) -> None:
        self.generator = Generator(self.model, name=self.name)

    def to(self, device: str | torch.device) -> LanguageModel:
        """This model, moved there: "cpu", "cuda", "cuda:1", "mps", "xpu" or "auto"."""
        moved(self.model, device)
        return self

    def __repr__(self) -> str:
        return f"LanguageModel({self.name!r})"

    def through(self, name: str, wrap: Callable[[Generator], Generator]) -> LanguageModel:
        """The same model under a name, its generator replaced by what `wrap` makes of it."""
        made = replace(self, name=name)
        made.generator = wrap(made.generator)
        return made

    @property
    def cost(self) -> Cost:
        """Of everything this writer has done."""
        return Cost.total([self.generator.cost])

    @overload
    def fill(  # type: ignore[overload-overlap]
        self, texts: str, n: int = 5, **options: Unpack[keywords.Fill]
    ) -> list[Filling]: ...
    @overload
    def fill(self, texts: Sequence[str], n: int = 5, **options: Unpack[keywords.Fill]) -> list[list[Filling]]: ...

    def fill(
        self, texts: str | Sequence[str], n: int = 5, **options: Unpack[keywords.Fill]
    ) -> list[Filling] | list[list[Filling]]:
        """Fill every mask of a text jointly; the n best fillings by joint probability. The rest stays as it was typed.

        Options are what makes a decoder (order, steps, …), beam and positions; the default writes the surest position
        first, with a beam of max(n, 8). With a temperature n fillings are drawn instead.
        """
        number("n", n)
        plan = planned("fill", None, options, beam=1 if _drawn(options) else max(n, 8))
        blanks = [self._blanks(text) for text in texts_of(texts, "fill")]
        copies = n if _drawn(options) and not plan.searches else 1
        found = [sorted(f, key=lambda x: -x.score)[:n] for f in self._fillings(blanks, plan, copies)]
        return found[0] if isinstance(texts, str) else found

    def infill(
        self,
        text: str,
        length: int | Iterable[int] | None = None,
        n: int = 1,
        *,
        longest: int | None = None,
        **options: Unpack[keywords.Infill],
    ) -> list[Filling]:
        """Fill gaps of unknown length, each written {}: every length is tried, the best chosen by score. What stands
        outside the gaps stays as it was typed.

        A length left out is 1 to 5 symbols; under a rule a few that its texts have, up to `longest`.

        The score is the mean pseudo log-likelihood of the whole text, so that lengths compare and what follows the gap
        counts. Options are those of `fill`.
        """
        number("n", n)
        plan = planned("infill", None, options, beam=1 if _drawn(options) else max(n, 4))
        gaps, rule = text.count(GAP), self.rule(plan)
        lengths = self._lengths(length, rule, self._most(longest, len(text) + 2), range(1, 6))
        if not gaps:
            raise TextError(f"there is no gap in {text!r}: write {GAP} where text is missing")
        copies = n if _drawn(options) and not plan.searches else 1
        self._expect(plan, copies * len(lengths) ** gaps, max(lengths) * gaps, len(text))
        blanks = [self._blanks(text, choice) for choice in itertools.product(lengths, repeat=gaps)]
        fillings = [f for group in self._fillings(blanks, plan, copies) for f in group]
        return self._compared(fillings)[:n]

    def generate(
        self,
        prompt: str | Sequence[Message] = "",
        *,
        length: int | Iterable[int] | None = None,
        max_new_tokens: int | None = None,
        longest: int | None = None,
        n: int = 1,
        stop: str | Sequence[str] = (),
        system: str | None = None,
        traced: bool = False,
        **options: Unpack[keywords.Generate],
    ) -> list[Filling]:
        """n texts of `length` tokens (or `max_new_tokens`) after a prompt, or the answers to messages.

        A prompt is shown before what was written; of a conversation ({"role": "user", "content": "…"}, in the form of
        the model's chat template; `system` is its first message) the answer alone. A symbol that ends a text, or one of
        `stop`, ends it. Length and options are those of a diffusion LM's authors where it is known (128 tokens for
        LLaDA, block by block); otherwise texts are sampled: order random, temperature 1. A beam needs temperature 0.

        Of several lengths, n texts are written of each, and the n with the best mean pseudo log-likelihood come back.
        Under a rule (pattern, schema, include …) the length may be left out: a few that its texts have are tried, up
        to `longest`, and what stands behind the prompt is exactly what was written.
        """
        number("n", n)
        given = prompt_of(prompt, system, self.tokenizer, self.name)
        ids = self._given(given.text) if given.text else []
        start, end = ([*ids], []) if given.chat else self._wrap(ids)
        ends = self.model.ends
        rule = self.rule(Plan(**{name: value for name, value in dict[str, Any](options).items() if name in RULES}))
        on_canvas = rule.ending(ends[0]) if rule is not None and ends else rule
        most = self._most(longest, len(start) + len(end))
        lengths = self._lengths(
            self._asked(length, max_new_tokens), on_canvas, most, self._usual(len(start) + len(end))
        )
        asked, own = self._own(max(lengths), dict(options))
        plan = planned("generate", None, asked, **own)
        stop = stops(stop)
        self._expect(plan, n * len(lengths), max(lengths), len(ids))
        exactly = None if rule is None else self.spelling.text
        after = (lambda new: answer(new, self.tokenizer)) if given.chat else self._after(given.text, ids)

        def text(new: Sequence[int]) -> str:
            before = "" if given.chat else given.text
            if exactly is not None:
                return before + stopped(exactly(ended(new, ends)), stop)
            return before + stopped(after(ended(new, ends))[len(before) :], stop)

        if self.model.canvas is not None and rule is None:
            return self._canvas_by_canvas((start, end), max(lengths), n, plan, traced, text)
        canvases = [(*start, *[self.model.mask_id] * size, *end) for size in lengths for _ in range(n)]
        inputs = [self._input(canvas, k % n, on_canvas) for k, canvas in enumerate(canvases)]
        found = [some[0] for some in self.generator.generate(inputs, plan, keep=traced)]
        fillings = [
            replace(filling, trace=None if h.path is None else h.path.trace(self._strings, text=filling.text))
            for h, canvas in zip(found, canvases, strict=True)
            for filling in [self._filling(canvas, h, text)]
        ]
        return fillings if len(lengths) == 1 else self._compared(fillings)[:n]

    def _canvas_by_canvas(
        self,
        around: tuple[list[int], list[int]],
        length: int,
        n: int,
        plan: Plan,
        traced: bool,
        text: Callable[[Sequence[int]], str],
    ) -> list[Filling]:
        """n texts of a model that writes canvases of one size, each after all before it, until a symbol ends them. The
        length is rounded up to whole ones; the trace is the last one's."""
        (start, end), size, out = around, int(self.model.canvas or length), [Filling(text(()), (), (), 0.0, 0.0)] * n
        for _ in range(-(-length // size)):
            going = [k for k, filling in enumerate(out) if not {*filling.ids} & {*self.model.ends}]
            canvases = [(*start, *out[k].ids, *[self.model.mask_id] * size, *end) for k in going]
            inputs = [self._input(canvas, k) for k, canvas in zip(going, canvases, strict=True)]
            found = self.generator.generate(inputs, plan, keep=traced)
            for k, canvas, some in zip(going, canvases, found, strict=True):
                before, path, new = out[k], some[0].path, self._filling(canvas, some[0], lambda ids: "")
                both = before.ids + new.ids
                out[k] = Filling(
                    text(both), before.tokens + new.tokens, both, before.logp + new.logp, before.score + new.score,
                    None if path is None else path.trace(self._strings, text=text(both)),
                )  # fmt: skip
        return out

    @staticmethod
    def _asked(length: int | Iterable[int] | None, most: int | None) -> int | Iterable[int] | None:
        """The length that was asked for, by either name."""
        if length is not None and most is not None:
            raise TextError("length and max_new_tokens are the same: give one of them")
        return most if length is None else length

    def _usual(self, given: int) -> list[int] | None:
        """The length that the model's authors write, where it is known, if it fits beside so many symbols."""
        family, room = self.model.family, self.model.max_length
        if family is None:
            return None
        return [int(max(1, family.length if room is None else min(family.length, room - given)))]

    def _own(self, length: int, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """(options, defaults) of a text of this length: those of the model's authors, or sampling in any order."""
        family = self.model.family
        if isinstance(options.get("order"), Decoder):
            return options, {}
        if family is None:
            return options, {"order": "uniform", "temperature": 1.0}
        steps = options.get("steps")
        own = family.writes(length, steps if isinstance(steps, int) else None)
        composing = ("order", "count", "among", "order_temperature", "conditionals", "beam", "positions")
        if isinstance(steps, str) or any(
            options.get(name, known()[name].default) != known()[name].default for name in composing
        ):
            own = {name: value for name, value in own.items() if name not in composing}
        else:
            options.pop("steps", None)
        if not options.get("temperature", own["temperature"]):  # nothing is drawn
            own.pop("top_p", None)
        return options, own

    def _compared(self, fillings: Sequence[Filling]) -> list[Filling]:
        """Fillings of several lengths by the mean pseudo log-likelihood of the whole text, the best first."""
        scores = self._pll([self._encode(f.text) for f in fillings])
        ranked = [replace(f, score=float(s.sum()) / max(1, len(s))) for f, s in zip(fillings, scores, strict=True)]
        return sorted(ranked, key=lambda f: -f.score)

    @cached_property
    def spelling(self) -> Spelling:
        """How the model's symbols spell text."""
        size = len(self.tokenizer)
        return spelling_of(self.tokenizer, size, [i for i in self.model.special_ids if i < size])

    def rule(self, plan: Plan) -> Automaton | None:
        """The rule of what is written, None: none."""
        return rule_of(plan, self.spelling) if ruled(plan) else None

    def _most(self, longest: int | None, given: int) -> int:
        """The most symbols that may be written beside so many that are given."""
        if longest is not None:
            number("longest", longest)
            return longest
        room = getattr(self.model, "max_length", None)
        return max(1, min(MOST_SYMBOLS, MOST_SYMBOLS if room is None else room - given))

    def _lengths(
        self, length: int | Iterable[int] | None, rule: Automaton | None, most: int, usual: Iterable[int] | None = None
    ) -> list[int]:
        """The lengths to try, given as a number or several, or left out."""
        if length is None and rule is not None:
            return lengths_tried(rule, None, most)
        if length is None and usual is None:
            raise TextError(f"{self.name} has no length of its own: say how many tokens to write, as in length=20")
        given = length if length is not None else usual
        lengths = [given] if isinstance(given, int) else list(dict.fromkeys(given or ()))
        if not lengths or min(lengths) < 1:
            raise TextError(f"lengths must be at least 1, got {lengths[0] if len(lengths) == 1 else lengths}")
        return lengths if rule is None else lengths_tried(rule, lengths, max(lengths))

    def _expect(self, plan: Plan, canvases: int, masks: int, given: int) -> None:
        """Refuse before anything is tokenised what would take too long, or too much memory."""
        decoder = self.generator.decoder(plan)
        estimate(self.model, plan, decoder, canvases, masks, masks + given, causal=False).allow(plan, self.name)

    def choose(
        self,
        text: str,
        labels: Sequence[str],
        *,
        order: str = "left2right",
        by: choices.By = "text",
        calibrate: str | None = None,
    ) -> list[choices.Choice]:
        """Which of some labels belongs into the slot {} of a text, the likeliest first; no text is written.

        Labels of any number of tokens are compared by the chain rule in an order (left2right, …, or "mean": the mean
        over orders; a masked LM has no other joint), as whole texts or by their mean "token". `calibrate` is a text
        that says nothing, with the slot: what a label is worth there is taken off.
        """
        return choices.choose(self, text, labels, order, by, calibrate)

    def read(
        self, form: str, *, order: str = "left2right", joint: bool = True, by: choices.By = "text"
    ) -> choices.Reading:
        """A form with slots {name:label|label|…}: for each slot how likely its labels are, and the best of all slots
        together; no text is written. joint=False reads each slot on its own, the others masked."""
        return choices.read(self, form, order, joint, by)

    @overload
    def score(self, texts: str) -> TextScore: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, texts: Sequence[str]) -> list[TextScore]: ...

    def score(self, texts: str | Sequence[str]) -> TextScore | list[TextScore]:
        """Pseudo log-likelihood, and log p of each token given all others."""
        many = texts_of(texts, "score")
        ids = [self._given(text) for text in many]
        for text, row in zip(many, ids, strict=True):
            if not row:
                raise TextError(f"there is nothing to score in {text!r}")
        rows = zip(many, ids, self._pll(ids), strict=True)
        out = [TextScore(text, self._names(row), tuple(p.tolist())) for text, row, p in rows]
        return out[0] if isinstance(texts, str) else out

    def likelihood(
        self,
        texts: str | Sequence[str],
        given: str | Sequence[str] = "",
        by: Likely = "chain",
        *,
        order: str = "left2right",
        samples: int = 32,
        seed: int = 0,
        greedy: bool = False,
    ) -> Likelihood | list[Likelihood]:
        """log p of texts after what is `given`, in nats and bits; each text is scored alone, whatever the others are.

        `by` says which: "chain", Σ log p(y_i | what comes before i in `order`), one order's chain rule; "pll", Σ log p
        of each symbol given all others, which is no probability; "bound", the any-order lower bound of masked diffusion
        (NELBO), with its standard error over `samples`; "marginal", log p averaged over that many sampled orders.
        """
        if by not in get_args(Likely):
            raise TextError(f"by is one of {', '.join(get_args(Likely))}; got {by!r}")
        many = texts_of(texts, "likelihood")
        before = [given] * len(many) if isinstance(given, str) else list(given)
        out = [self._likelihood(*both, by, order, samples, seed, greedy) for both in zip(before, many, strict=True)]
        return out[0] if isinstance(texts, str) else out

    def _likelihood(
        self, given: str, text: str, by: Likely, order: str, samples: int, seed: int, greedy: bool
    ) -> Likelihood:
        space = given[len(given.rstrip()) :]  # a space belongs to the word after it
        given, text = given.removesuffix(space) if space else given, space + text
        prompt, whole = self._given(given) if given else [], self._given(given + text)
        start, end = self._wrap(whole)
        first = len(start) - len(whole) + len(prompt)
        if first >= len(start):
            raise TextError(f"there is nothing to score in {text!r}")
        tokens = torch.tensor([start + end], device=device_of(self.model))
        column = torch.arange(tokens.shape[1], device=tokens.device)
        model, cost = self.model, Cost()
        state = begin(
            tokens, model.mask_id, model.pad_id, open=((column >= first) & (column < len(start)))[None], seed=seed
        )
        context, error = model.encode(None), 0.0
        if by == "pll":
            value = float(pll(model, context, state, cost))
        elif by == "bound":
            value, error = (float(x) for x in any_order_bound(model, context, state, samples, cost))
        else:
            plan = Plan.of("uniform" if by == "marginal" else order)
            value = float(marginal(model, context, state, plan.decoder(), samples if by == "marginal" else 1, cost))
        same = False
        if greedy:
            blank = state.but(tokens=tokens.masked_fill(state.open, model.mask_id))
            found = decode(model, context, blank, Plan.of("left2right").decoder(self.model.special_ids))
            same = bool(torch.equal(found.tokens, tokens))
        self.generator.spend(cost)
        return Likelihood(text, value, error, len(start) - first, same)

    def effects(
        self,
        wild_type: str,
        mutants: Iterable[str],
        by: str = "masked-marginals",
        *,
        offset: int = 1,
        window: str = "optimal",
        seed: int = 0,
    ) -> list[Effect]:
        """The effect of each mutation ("A42G", "A42G:K55R") of a protein or nucleic acid; above 0 the model prefers it.

        `by` is a convention of `anyorder.text.effects.CONVENTIONS`. Positions count from `offset`. A sequence longer
        than the model's positions is read in windows.
        """
        scorer = Scorer(self, wild_type, by, window=window, seed=seed)
        some = [mutants] if isinstance(mutants, str) else mutants
        return list(scorer.stream(variant(wild_type, mutant, offset) for mutant in some))

    def scan(
        self, wild_type: str, positions: str | None = None, by: str = "masked-marginals", *, letters: str | None = None,
        offset: int = 1, window: str = "optimal",
    ) -> list[Effect]:  # fmt: skip
        """The effects of all single substitutions, of all positions or of some ("10-25,40"), position by position."""
        scorer = Scorer(self, wild_type, by, window=window)
        where = None if positions is None else stretches(positions, len(wild_type), offset)
        known = usual_letters(scorer.letters) if letters is None else letters
        return list(scorer.stream(single_substitutions(wild_type, where, known, offset)))

    def design(
        self,
        parent: str,
        redesign: str,
        n: int = 1,
        *,
        allow: str | Sequence[str] | None = None,
        ban: str | Sequence[str] | None = None,
        near: int | None = None,
        most_run: int | None = None,
        duplicates: bool = False,
        pll: bool = True,
        offset: int = 1,
        chain: Chain | None = None,
        **options: Unpack[keywords.Design],
    ) -> list[Design]:
        """n designs of a sequence: the stretches `redesign` ("95-102,30", "95-102:6-10") written anew, the rest fixed.

        `allow` and `ban` are letters, everywhere ("C") or somewhere ("95-102:C"); `near` bounds the substitutions,
        `most_run` runs of one letter; `chain` is a Gibbs chain instead of an order. Others are options of a plan.
        """
        guards = {"allow": allow, "ban": ban, "near": near, "most_run": most_run, "duplicates": duplicates}
        return design(self, parent, redesign, n, pll=pll, offset=offset, chain=chain, **guards, **options)  # type: ignore[arg-type]

    def stream(self, text: str, **options: Unpack[keywords.Stream]) -> Iterator[Moment]:
        """Watch the masks of a text being filled: a `Moment` per step. Options are what makes a decoder."""
        plan = planned("stream", None, options, order=defaults("fill")["order"])
        generator, plan = self.generator.carried_by(plan)
        blanks = self._blanks(text)
        canvas = self._canvas(blanks)
        for t, taken in enumerate(steps_of(generator, self._input(canvas), plan)):
            tokens = taken.state.tokens[0]
            written = tuple(taken.z[0].nonzero()[:, 0].tolist())
            yield Moment(t, self._strings(tokens), written, blanks.filled(self._new(canvas, tokens), self.tokenizer))

    def trace(self, text: str, **options: Unpack[keywords.Stream]) -> Trace:
        """How the masks of a text are filled greedily, step by step, with alternatives; options as in `stream`."""
        plan = planned("stream", None, options, order=defaults("fill")["order"])
        blanks = self._blanks(text)
        canvas = self._canvas(blanks)
        (best,) = self.generator.generate([self._input(canvas)], plan, keep=True)[0]
        assert best.path is not None
        new = self._new(canvas, best.ids)
        return best.path.trace(self._strings, text=blanks.filled(new, self.tokenizer))

    # ------------------------------------------------------------------ canvases

    def _given(self, text: str) -> list[int]:
        """The ids of a text of the user's."""
        return vocabulary.encode(self.tokenizer, usable(text), self.unknown == "allow")

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _wrap(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """What the tokenizer puts around a text: ([CLS] + ids, [SEP]) for a BERT."""
        special = list(self.tokenizer.encode(""))
        head = self._head(special)
        return special[:head] + ids, special[head:]

    @staticmethod
    def _head(special: list[int]) -> int:
        return (len(special) + 1) // 2

    def _blanks(self, text: str, gaps: Sequence[int] = ()) -> Blanks:
        """A text with its masks, and its gaps of so many masks each."""
        blanks = Blanks.of(text, str(self.tokenizer.mask_token), gaps)
        if not blanks.runs:
            raise TextError(f"there is no mask in {text!r}: write {self.tokenizer.mask_token} where a word is missing")
        return blanks

    def _canvas(self, blanks: Blanks) -> list[int]:
        """The ids of a text with its masks, special tokens around it."""
        start, end = self._wrap(self._given(blanks.canvas(str(self.tokenizer.mask_token))))
        seen = (start + end).count(self.model.mask_id)
        if seen != blanks.masks:
            raise TextError(f"the tokenizer of {self.name} finds {seen} masks where {blanks.masks} are written")
        return start + end

    def _input(self, canvas: Sequence[int], copy: int = 0, rule: Automaton | None = None) -> Input:
        """A canvas; a rule is about each run of its masks."""
        if rule is None:
            return Input(canvases=(Canvas(tuple(canvas), copy=copy),))
        parts, run = list[int](), -1
        for before, i in zip([None, *canvas], canvas, strict=False):
            run += i == self.model.mask_id != before
            parts.append(run if i == self.model.mask_id else -1)
        return Input(canvases=(Canvas(tuple(canvas), copy=copy, rule=rule, parts=tuple(parts)),))

    def _fillings(self, blanks: Sequence[Blanks], plan: Plan, copies: int = 1) -> list[list[Filling]]:
        """The fillings of each text, drawn so many times."""
        canvases, rule = [self._canvas(one) for one in blanks], self.rule(plan)
        inputs = [self._input(canvas, copy, rule) for canvas in canvases for copy in range(copies)]
        each = iter(self.generator.generate(inputs, plan))
        found = [[h for _ in range(copies) for h in next(each)] for _ in canvases]
        exactly = None if rule is None else self.spelling.text
        out: list[list[Filling]] = []
        for one, canvas, some in zip(blanks, canvases, found, strict=True):
            text = partial(one.filled, tokenizer=self.tokenizer, exactly=exactly)
            out.append([self._filling(canvas, h, text) for h in some])
        return out

    def _new(self, canvas: Sequence[int], ids: Any) -> list[int | None]:
        """What now stands where a canvas was masked; None where it still is."""
        now = [int(ids[i]) for i, token in enumerate(canvas) if token == self.model.mask_id]
        return [None if i == self.model.mask_id else i for i in now]

    def _filling(self, canvas: Sequence[int], h: Hypothesis, text: Callable[[Sequence[int]], str]) -> Filling:
        where = [i for i, token in enumerate(canvas) if token == self.model.mask_id]
        new = tuple(h.ids[i] for i in where)
        return Filling(text(new), self._names(new), new, sum(h.logp[i] for i in where), h.path_score)

    def _after(self, prompt: str, ids: Sequence[int]) -> Callable[[Sequence[int]], str]:
        """How what is written after a prompt reads: the prompt as it was typed, and the space that belongs there."""

        def text(new: Sequence[int]) -> str:
            if not prompt or prompt[-1].isspace() or not ids:
                return prompt + spoken(new, self.tokenizer).lstrip(" ")
            last, both = (self.tokenizer.decode(list(some)) for some in (ids[-1:], [*ids[-1:], *new]))
            return prompt + (both.removeprefix(last) if both.startswith(last) else " " + spoken(new, self.tokenizer))

        return text

    def _pll(self, rows: Sequence[list[int]]) -> list[Tensor]:
        """log p of each token of each text given all its others."""
        wholes = []
        for ids in rows:
            start, end = self._wrap(ids)
            wholes.append(Whole((), start + end, len(start) - len(ids), len(start)))
        return self.generator.log_probs(wholes)

    # ------------------------------------------------------------------ ids and strings

    def _names(self, ids: Sequence[int]) -> tuple[str, ...]:
        names = self.tokenizer.convert_ids_to_tokens(list(ids))
        return tuple(f"<{i}>" if name is None else name for i, name in zip(ids, names, strict=True))

    def _strings(self, ids: Tensor) -> tuple[str | None, ...]:
        kept = [i for i in ids.tolist() if i != self.model.pad_id]
        return tuple(None if i == self.model.mask_id else name for i, name in zip(kept, self._names(kept), strict=True))


def _drawn(options: Mapping[str, Any]) -> bool:
    """Are symbols drawn, and not the likeliest taken?"""
    return bool(options.get("temperature"))
