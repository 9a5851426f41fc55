"""A plan: how to generate, in words a person types. Three parts that compose: what writes, what searches, what chooses.

`Writing` makes the core's Decoder, `Search` says how many hypotheses there are, `Choosing` which of them is returned.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from anyorder.core import Decoder, Order, fixed
from anyorder.core.score import check_marginal
from anyorder.errors import PlanError
from anyorder.models.folder import LEARNED
from anyorder.text.checks import positive, whole_number
from anyorder.text.writing import COMPOSED, FORWARDS, Writing

Rescore = Literal["written", "path", "pll", "forwards", "ar", "both", "marginal"]
Normalise = Literal["mean", "sum"]
WHOLE = ("pll", "forwards", "ar", "both")  # scores of a text, however it was written


@dataclass(frozen=True)
class Search:
    """How many hypotheses of an input are written."""

    beam: int = 1  # K = K″, hypotheses and symbols
    positions: int = 1  # K′, positions per hypothesis
    lengths: int = 4  # target lengths tried, where they are not given
    draft: bool = False  # the lengths nearest to that of a draft, written first from left to right, not those of p(L|X)
    most_passes: int = 100_000  # of a canvas through the model, for one text: a plan that would need more is refused
    most_memory: float = 2.0  # gigabytes that the hypotheses of one text may take, by the estimate made beforehand

    def __post_init__(self) -> None:
        for name in ("beam", "positions", "lengths", "most_passes"):
            whole_number(name, getattr(self, name))
        positive("most_memory", self.most_memory, zero=False)
        if not isinstance(self.draft, bool):
            raise PlanError(f"draft is True or False, not {self.draft!r}")

    @property
    def searches(self) -> bool:
        """Is it a beam search, and not decoding?"""
        return self.beam > 1 or self.positions > 1


@dataclass(frozen=True)
class Choosing:
    """Which of the hypotheses are returned."""

    rescore: Rescore | None = None  # what the best candidate is chosen by; None: "forwards" where the model contains an
    # autoregressive one and there is something to choose from, else "written"
    normalise: Normalise = "mean"  # scores divided by the candidates' lengths, or as they are: Eq. 4's plain argmax
    samples: int = 16  # paths from which rescore "marginal" estimates p(Y|X)
    polish: int = 0  # rounds in which parts of the best candidate are written anew, if `rescore` prefers the result
    nbest: int = 1

    def __post_init__(self) -> None:
        whole_number("nbest", self.nbest)
        whole_number("samples", self.samples)
        whole_number("polish", self.polish, least=0)
        if self.rescore is not None and self.rescore not in get_args(Rescore):
            raise PlanError(f"rescore is one of {', '.join(get_args(Rescore))}; got {self.rescore!r}")
        if self.normalise not in get_args(Normalise):
            raise PlanError(f"normalise is {' or '.join(get_args(Normalise))}; got {self.normalise!r}")
        if self.rescore != "marginal" and self.samples != Choosing.samples:
            raise PlanError("samples are those of rescore 'marginal': leave them out, or choose by that")
        if self.polish and self.rescore not in WHOLE:
            raise PlanError(
                "polish compares whole candidates: choose them by rescore 'forwards', 'ar', 'both' or 'pll'"
            )

    def of(self, score: float, length: int) -> float:
        """What a candidate of `length` symbols is worth, from the score Σ log p of the whole."""
        return score / max(1, length) if self.normalise == "mean" else score


@dataclass(frozen=True)
class Plan:
    """Everything a user may choose about a generation. By default a model writes in its own way: mostly easy-first, one
    symbol per step, T = L.

    `Plan.of("easy-first", steps=10, beam=4, rescore="ar")` sorts words into the three parts.
    """

    writing: Writing = field(default_factory=Writing)
    search: Search = field(default_factory=Search)
    choosing: Choosing = field(default_factory=Choosing)

    @classmethod
    def of(cls, order: str | Order | Decoder | None = None, **options: Any) -> Plan:
        """A plan from options by their names; None leaves a part's own default. An unknown name is an error."""
        given = {k: v for k, v in {"order": order, **options}.items() if v is not None}
        for name in given:
            if name not in OPTIONS:
                near = difflib.get_close_matches(name, OPTIONS, 1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise PlanError(f"no option {name!r}; {hint}there are {', '.join(OPTIONS)}")
        return cls(*(part(**{n: v for n, v in given.items() if n in names}) for part, names in PARTS.items()))

    @property
    def each(self) -> tuple[Plan, ...]:
        """A plan for each of several orders, "a | b"; mostly this one alone."""
        return tuple(replace(self, writing=one) for one in self.writing.each)

    @property
    def chooses(self) -> bool:
        """Are there several candidates of a text: of lengths, hypotheses or orders?"""
        return self.search.lengths > 1 or self.search.searches or len(self.each) > 1

    def settled(self, own: str = COMPOSED) -> Plan:
        """With an order where none was given: a model's `own`, if a beam, with one position per step, can be that."""
        possible = own == FORWARDS or not self.search.searches
        return replace(self, writing=self.writing.settled(own if possible else COMPOSED))

    def judged(self, by: Rescore) -> Plan:
        """With a score where none was given."""
        return self if self.choosing.rescore else replace(self, choosing=replace(self.choosing, rescore=by))

    def decoder(self, ban: tuple[int, ...] = (), own: Mapping[str, Order] | None = None) -> Decoder:
        """What writes, checked against what searches: a beam takes one position per step, and draws nothing."""
        decoder = self.writing.decoder(ban, own)
        if self.choosing.rescore == "marginal":
            self._check_marginal(decoder)
        if self.search.searches:
            count = decoder.coordinates.count
            if count != fixed(1):
                raise PlanError(
                    f"a beam writes one position per step, not {count.name}: leave out steps and count, or take beam 1"
                )
            if decoder.symbols.temperature:
                raise PlanError(
                    "a beam takes the likeliest symbols, so a temperature could have no effect: leave it out, or take "
                    "beam 1"
                )
        return decoder

    @staticmethod
    def _check_marginal(decoder: Decoder) -> None:
        try:
            check_marginal(decoder)
        except ValueError as error:
            raise PlanError(str(error)) from error
        if not decoder.coordinates.tau:
            raise PlanError(
                "rescore 'marginal' sums over paths, and an order that takes the best positions has one path only, "
                "which rescore 'path' scores: add an order_temperature, or take the order uniform"
            )

    def check(self) -> Plan:
        """This plan, if it makes sense; what a model's own learned order is, is known once the model is."""
        for one in self.each:
            if one.writing.order not in (*LEARNED, FORWARDS):
                one.decoder()
        return self


PARTS: dict[type, tuple[str, ...]] = {part: tuple(f.name for f in fields(part)) for part in (Writing, Search, Choosing)}
OPTIONS = tuple(name for names in PARTS.values() for name in names)
WRITING = PARTS[Writing]
LIMITS = ("most_passes", "most_memory")  # every method heeds them
_WHY = {
    "lengths": "the length is given",
    "draft": "the length is given",
    "beam": "one hypothesis is followed",
    "positions": "one hypothesis is followed",
    "rescore": "there is nothing to choose from",
    "normalise": "there is nothing to choose from",
    "samples": "there is nothing to choose from",
    "nbest": "how many come back is said in the call itself, or is one",
    "polish": "polish joins parts of many generations: there is no single one to show",
}


def changed(part: Writing | Search | Choosing) -> list[str]:
    """The options that are not what they are by default."""
    return [f.name for f in fields(part) if getattr(part, f.name) != f.default]


def check_causal(plan: Plan, name: str, instead: str) -> None:
    """Refuse what has no meaning where a text is written to its own end, and say what to do `instead`."""
    if plan.choosing.rescore == "marginal":
        raise PlanError(f"{name} writes in one order, so there is one path to a text: rescore 'path' is its score")
    free = {"temperature", "top_k", "top_p", "seed", "beam", *LIMITS}
    for option in changed(plan.writing) + changed(plan.search):
        if option not in free:
            raise PlanError(
                f"{name} writes from left to right to its own end: {option} could have no effect ({instead})"
            )


def planned(method: str, takes: tuple[str, ...], plan: Plan | None, options: Mapping[str, Any]) -> Plan:
    """The plan of a method that uses the options `takes` and no others: one it would not use is refused."""
    if plan is not None and options:
        raise PlanError(f"give {method} a plan or options, not both: {', '.join(options)} would have no effect")
    made = Plan.of(**options) if plan is None else plan
    for name in changed(made.writing) + changed(made.search) + changed(made.choosing):
        if name not in (*takes, *LIMITS):
            raise PlanError(f"{method} has no use for {name}: {_WHY[name]} (leave {name} out)")
    return made
