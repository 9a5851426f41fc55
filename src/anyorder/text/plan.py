"""A plan: how to generate, in words a person types; made into the core's Decoder, checked before anything begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anyorder.core import Decoder, Length, Order, Symbols, fixed
from anyorder.core.score import check_marginal
from anyorder.errors import PlanError
from anyorder.models.folder import LEARNED
from anyorder.options import Options, Rescore, defaults, hole, known, misspelt, reason, takes
from anyorder.text.rules.rule import ruled, said, terms
from anyorder.text.words import COMPOSED, FORWARDS, composed, drawn

WHOLE = ("pll", "forwards", "ar", "both")  # scores of a text, however it was written


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Options):
    """Everything a user may choose about a generation. By default a model writes in its own way: mostly easy-first, one
    symbol per step, T = L. An option that could have no effect beside the others is refused.
    """

    @classmethod
    def of(cls, order: str | Order | Decoder | None = None, **options: Any) -> Plan:
        """A plan from options by their names; None leaves an option's default. An unknown name is an error."""
        given = {k: v for k, v in {"order": order, **options}.items() if v is not None}
        for name in given:
            if name not in known():
                raise misspelt(name)
        return cls(**given)

    def __post_init__(self) -> None:
        for name, form in (("schema", said), ("glossary", terms)):
            if (value := getattr(self, name)) is not None and not isinstance(value, (str, tuple)):
                object.__setattr__(self, name, form(value))
        super().__post_init__()
        if isinstance(self.steps, str) and self.steps not in ("L", "2L"):
            raise PlanError(f"steps is a whole number, 'L' or '2L'; got {self.steps!r}")
        if self.order is not None and not isinstance(self.order, (str, Order, Decoder)):
            raise PlanError(f"order is a name, a sum of features, an Order or a Decoder, not {self.order!r}")
        if self.rescore != "marginal" and "samples" in self.changed:
            raise PlanError("samples are those of rescore 'marginal': leave them out, or choose by that")
        if ruled(self) and (self.polish or self.draft or self.rescore == "marginal"):
            name = "polish" if self.polish else "draft" if self.draft else "rescore marginal"
            raise PlanError(f"{name} knows nothing of a rule (pattern, schema, ban, include …): leave one of them out")
        if self.polish and self.rescore not in WHOLE:
            raise PlanError(
                "polish compares whole candidates: choose them by rescore 'forwards', 'ar', 'both' or 'pll'"
            )

    def __repr__(self) -> str:
        return f"Plan({', '.join(f'{name}={getattr(self, name)!r}' for name in self.changed)})"

    @property
    def searches(self) -> bool:
        """Is it a beam search, and not decoding?"""
        return self.beam > 1 or self.positions > 1

    @property
    def name(self) -> str:
        """What a trace calls it."""
        order = self.settled().order
        return order if isinstance(order, str) else "custom"

    @property
    def length(self) -> Length | None:
        """p(L|X), where a Decoder brings its own."""
        return self.order.own_length if isinstance(self.order, Decoder) else None

    @property
    def each(self) -> tuple[Plan, ...]:
        """A plan for each of several orders, "a | b"; mostly this one alone."""
        if not isinstance(self.order, str) or "|" not in self.order:
            return (self,)
        names = [name.strip() for name in self.order.split("|")]
        if not all(names):
            raise PlanError(f"order {self.order!r}: a name is missing beside |")
        if FORWARDS in names:
            raise PlanError(
                f"{FORWARDS} writes to its own end, other orders to a length: they have no lengths to share"
            )
        return tuple(replace(self, order=name) for name in names)

    @property
    def chooses(self) -> bool:
        """Are there several candidates of a text: of lengths, hypotheses or orders?"""
        return self.lengths > 1 or self.searches or (self.prefix_beam or 1) > 1 or len(self.each) > 1

    def settled(self, own: str = COMPOSED) -> Plan:
        """With an order where none was given: a model's `own`, or easy-first where other options say how to compose one
        (a beam, with one position per step, among them unless `own` has beams)."""
        if self.order is not None:
            return self
        composing = self.count or self.steps or self.among or self.order_temperature or self.conditionals != "visible"
        other = composing or (self.searches and own != FORWARDS)
        return replace(self, order=COMPOSED if other else own)

    def judged(self, by: Rescore) -> Plan:
        """With a score where none was given."""
        return self if self.rescore else replace(self, rescore=by)

    def worth(self, score: float, length: int) -> float:
        """What a candidate of `length` symbols is worth, from the score Σ log p of the whole."""
        return score / max(1, length) if self.normalise == "mean" else score

    def decoder(self, ban: tuple[int, ...] = (), own: Mapping[str, Order] | None = None, paths: bool = True) -> Decoder:
        """The composition, never writing the symbols `ban`; `own` are further orders by their names ("learned").

        Without `paths` a model knows log p(Y|X) itself, so that `rescore="marginal"` sums over none.
        """
        try:
            decoder = composed(self.settled(), own or {})
            decoder = replace(decoder, symbols=drawn(self, decoder.symbols))
            if ruled(self):  # a rule is kept by what it leaves: the model's own distribution has what it forbids
                decoder = replace(decoder, symbols=replace(decoder.symbols, renormalise=True, meanwhile=False))
            if self.rescore == "marginal" and paths:
                check_marginal(decoder)
        except PlanError:
            raise
        except ValueError as error:
            raise PlanError(str(error)) from error
        if self.rescore == "marginal" and paths and not decoder.coordinates.tau:
            raise PlanError(
                "rescore 'marginal' sums over paths, and an order that takes the best positions has one path only, "
                "which rescore 'path' scores: add an order_temperature, or take the order uniform"
            )
        if self.rescore == "path" and not decoder.counts:
            raise PlanError(
                "rescore 'path' compares log p of paths, which is not known where positions are chosen by the symbols "
                "drawn there: leave the temperature out, or take rescore 'written' or an order such as easy-first"
            )
        if self.searches:
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
        return replace(decoder, symbols=replace(decoder.symbols, ban=tuple({*decoder.symbols.ban, *ban})))

    def symbols(self) -> Symbols:
        """How symbols are drawn, whatever the order."""
        return drawn(self, Symbols())

    def check(self) -> Plan:
        """This plan, if it makes sense; what a model's own learned order is, is known once the model is."""
        for one in self.each:
            if one.order not in (*LEARNED, FORWARDS):
                one.decoder(paths=False)
        return self


def check_causal(plan: Plan, name: str, instead: str) -> None:
    """Refuse what has no meaning where a text is written to its own end, and say what to do `instead`."""
    if plan.rescore == "marginal":
        raise PlanError(f"{name} writes in one order, so there is one path to a text: rescore 'path' is its score")
    for option in plan.changed:
        if not known()[option].about.causal:
            raise PlanError(
                f"{name} writes from left to right to its own end: {option} could have no effect ({instead})"
            )


def planned(task: str, plan: Plan | None, options: Mapping[str, Any], **own: Any) -> Plan:
    """The plan of a task, from a plan or from options beside the task's defaults and those of a method, its `own`.

    An option that the task has no use for is refused.
    """
    if not isinstance(plan, Plan | None):
        raise PlanError(f"plan is a Plan, such as Plan.of({str(plan)!r}), not {plan!r}")
    if plan is not None and options:
        raise PlanError(f"give {task} a plan or options, not both: {', '.join(options)} would have no effect")
    for name in options:
        if name in known() and (why := hole("python", task, name)) is not None:
            raise PlanError(f"{task} has no use for {name}: {why} (leave {name} out)")
    made = plan or Plan.of(**{**_defaults(task, options.get("order")), **own, **options})
    for name in made.changed:
        if name not in takes(task):
            raise PlanError(reason(task, name))
    return made


def _defaults(task: str, order: Any) -> dict[str, Any]:
    """The task's own defaults; a Decoder has an order and symbols of its own."""
    own = {} if isinstance(order, Decoder) else defaults(task)
    return {name: value for name, value in own.items() if hole("python", task, name) is None}
