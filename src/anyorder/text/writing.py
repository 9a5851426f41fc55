"""Writing: what makes a Decoder, in words a person types: order, count, steps, region, conditionals, temperatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from anyorder import recipes
from anyorder.core import (
    Coordinates,
    Count,
    Decoder,
    Length,
    Order,
    Region,
    Symbols,
    Times,
    anneal,
    block,
    constant,
    dilated,
    entropy_bound,
    even,
    everywhere,
    factor,
    fixed,
    kl_stable,
    masked,
    revisit,
    threshold,
    whole,
)
from anyorder.errors import PlanError
from anyorder.models.folder import LEARNED
from anyorder.text.calls import Call, call, made, named
from anyorder.text.checks import positive, whole_number

Conditionals = Literal["visible", "masked"]
COUNTS: dict[str, Callable[..., Count]] = {
    "fixed": fixed, "constant": constant, "even": even, "anneal": anneal, "threshold": threshold, "factor": factor,
    "entropy-bound": entropy_bound, "kl-stable": kl_stable, "whole": lambda: whole,
}  # fmt: skip
REGIONS: dict[str, Callable[..., Region]] = {
    "masked": lambda: masked, "everywhere": lambda: everywhere, "revisit": lambda: revisit, "block": block,
    "dilated": dilated,
}  # fmt: skip
COMPOSED = "easy-first"  # the order that other options compose with, where none is given
FORWARDS = "forwards"  # the order of models that contain an autoregressive one: from left to right to their own </s>
SCHEDULED = ("constant", "even", "anneal")  # counts that are given the number of steps
ABOVE = "above"  # the count of a policy that learned how many: what it rates above a number, not 0


@dataclass(frozen=True)
class Writing:
    """What makes a Decoder. An option that could have no effect beside the others is refused."""

    order: str | Order | Decoder | None = None  # a strategy, a sum of features, a recipe such as "mask-predict(10)", a
    # policy's file, or one's own; "a | b" is several, whose candidates are compared with each other; None: the model's
    count: str | int | None = None  # 2, "constant", "anneal", "threshold(0.9)", …: how many positions per step
    steps: int | str | None = None  # T; "2L" goes over everything twice; None: until everything is written
    among: str | None = None  # "masked", "everywhere", "block(8)", …: which positions may be chosen
    conditionals: Conditionals = "visible"  # how an order sees a written position: as it stands, or (the paper) masked
    temperature: float = 0.0  # of symbols; 0 is greedy
    order_temperature: float = 0.0  # of positions; 0 takes the best
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0  # of everything that is drawn

    def __post_init__(self) -> None:
        if self.conditionals not in get_args(Conditionals):
            raise PlanError(f"conditionals are {' or '.join(get_args(Conditionals))}; got {self.conditionals!r}")
        if self.order is not None and not isinstance(self.order, (str, Order, Decoder)):
            raise PlanError(f"order is a name, a sum of features, an Order or a Decoder, not {self.order!r}")
        if not isinstance(self.count, (str, type(None))):
            whole_number("count", self.count)
        if not isinstance(self.among, (str, type(None))):
            raise PlanError(f"among is a region such as 'masked' or 'block(8)', not {self.among!r}")
        if isinstance(self.steps, str):
            if self.steps not in ("L", "2L"):
                raise PlanError(f"steps is a whole number, 'L' or '2L'; got {self.steps!r}")
        elif self.steps is not None:
            whole_number("steps", self.steps)
        positive("temperature", self.temperature)
        positive("order_temperature", self.order_temperature)
        if self.top_k is not None:
            whole_number("top_k", self.top_k)
        if self.top_p is not None:
            positive("top_p", self.top_p, zero=False)
        whole_number("seed", self.seed, least=-(2**63), most=2**63 - 1)

    @property
    def name(self) -> str:
        """What a trace calls it."""
        order = self.settled().order
        return order if isinstance(order, str) else "custom"

    def settled(self, own: str = COMPOSED) -> Writing:
        """With an order where none was given: `own`, or easy-first where other options say how to compose one."""
        if self.order is not None:
            return self
        composed = self.count or self.steps or self.among or self.order_temperature or self.conditionals != "visible"
        return replace(self, order=COMPOSED if composed else own)

    @property
    def length(self) -> Length | None:
        """p(L|X), where a Decoder brings its own."""
        return self.order.own_length if isinstance(self.order, Decoder) else None

    @property
    def each(self) -> tuple[Writing, ...]:
        """One for each of several orders, "a | b"; mostly this one alone."""
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

    def decoder(self, ban: tuple[int, ...] = (), own: Mapping[str, Order] | None = None) -> Decoder:
        """The composition, never writing the symbols `ban`; `own` are further orders by their names ("learned")."""
        try:
            composed = self.settled()._compose(own or {})
            symbols = self._symbols(composed.symbols)
        except PlanError:
            raise
        except ValueError as error:
            raise PlanError(str(error)) from error
        if self.conditionals == "masked":
            composed = recipes.masked_conditionals(composed)
        return replace(composed, symbols=replace(symbols, ban=tuple({*symbols.ban, *ban})))

    def symbols(self) -> Symbols:
        """How symbols are drawn, whatever the order."""
        return self._symbols(Symbols())

    def _symbols(self, own: Symbols) -> Symbols:
        """The symbols of a recipe, with what was given instead of its own."""
        if not (self.temperature or self.top_k or self.top_p):
            return own
        drawn = Symbols(self.temperature or own.temperature, self.top_k, self.top_p)
        if not drawn.temperature:
            raise PlanError("top_k and top_p say among which symbols one is drawn: add a temperature, such as 1")
        return replace(own, temperature=drawn.temperature, top_k=drawn.top_k, top_p=drawn.top_p)

    def _compose(self, own: Mapping[str, Order]) -> Decoder:
        if isinstance(self.order, Decoder):
            self._complete("a Decoder", "build them into it")
            if self.temperature or self.top_k or self.top_p or self.conditionals != "visible":
                raise PlanError("a Decoder has its own symbols and conditionals: build them into it instead")
            return self.order
        if recipe := self._recipe():
            return recipe
        order = self._order(own)
        twice = self.steps == "2L"
        steps = None if self.steps is None or isinstance(self.steps, str) else int(self.steps)
        count, used = self._count(order, steps)
        among = self._among(count.name.split("(")[0], twice)
        anew = among is everywhere  # written positions are chosen again
        if steps is not None and not (used or anew or among is revisit):
            raise PlanError(
                f"with count {self.count!r} a text is written when it is written: steps={steps} could have no effect "
                "(leave out steps or count)"
            )
        if twice and among is not revisit:
            raise PlanError("steps '2L' goes over everything twice, in its own region: leave out among")
        coordinates = Coordinates(
            order, count, among, self.order_temperature, reuse=anew and bool(order.reads) and not self.order_temperature
        )
        fixed_steps = steps if anew or among is revisit else None
        return Decoder(coordinates, steps=Times(2) if twice else fixed_steps)

    def _complete(self, what: str, instead: str) -> None:
        """Refuse what a complete composition has of its own."""
        if self.count or self.among or self.order_temperature or self.steps not in (None, "L"):
            raise PlanError(f"{what} has its own count, steps and region: {instead} instead")

    def _recipe(self) -> Decoder | None:
        """What "wino(0.6, 0.9)" names; None if the order is no family of recipes."""
        found = named(self.order) if isinstance(self.order, str) else None
        if found is None and isinstance(self.order, str) and self.order.split("(")[0].strip() in recipes.FAMILIES:
            call(self.order, recipes.FAMILIES, "recipe")  # says what is wrong with its brackets
        if found is None or not isinstance(self.order, str) or (found[0] not in recipes.FAMILIES and not found[1]):
            return None
        said = call(self.order, recipes.FAMILIES, "recipe")
        self._complete(said.name, "put its numbers in the brackets")
        return made(recipes.FAMILIES[said.name], said)

    def _order(self, own: Mapping[str, Order]) -> Order:
        if isinstance(self.order, Order):
            return self.order
        order = self.order
        assert isinstance(order, str)
        if "|" in order:
            raise PlanError(f"{order!r} is several orders: what they write can be compared, but here is one text")
        if order in own:
            return own[order]
        if order == FORWARDS:
            raise PlanError(f"{FORWARDS} is for models that write an end of their own: take left2right for this one")
        if order.endswith(".safetensors"):
            from anyorder.models.policy import Policy

            return Policy.load(order)
        return recipes.order_of(order, own, (*LEARNED, FORWARDS))

    def _count(self, order: Order, steps: int | None) -> tuple[Count, bool]:
        """The count, and whether it makes use of the number of steps."""
        if self.count is None:
            learned: Count = getattr(order, "count", fixed(1))  # a policy may have learned how many, too
            return (constant(steps), True) if steps else (learned, False)
        if not isinstance(self.count, str) or (self.count.strip().isdecimal() and len(self.count) < 20):
            whole_number("count", int(self.count))
            return fixed(int(self.count)), False
        said = call(self.count, {**COUNTS, ABOVE: None}, "count")
        if said.name == ABOVE:
            return _above(order, said), False
        if said.name not in SCHEDULED or said.numbers:
            return made(COUNTS[said.name], said), False
        if steps is None:
            raise PlanError(f"count {said.name!r} needs a number of steps: add steps, as in steps=10")
        return COUNTS[said.name](steps), True

    def _among(self, count: str, twice: bool) -> Region:
        if self.among is None:
            return revisit if twice else everywhere if count == "anneal" else masked
        said = call(self.among, REGIONS, "region")
        return made(REGIONS[said.name], said)


def _above(order: Order, said: Call) -> Count:
    """The learned count of an order, with another number to be above."""
    from anyorder.models.policy import Policy

    if not (isinstance(order, Policy) and order.several):
        raise PlanError(f"count {ABOVE!r} is for an order that learned how many, such as learned-count")
    return replace(made(order.above, said).count, name=said.text.strip())
