"""A plan: how to generate, in words a person types, turned into the core's composition."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, get_args

from anyorder import recipes
from anyorder.core import (
    Coordinates,
    Count,
    Decoder,
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

Made = TypeVar("Made")
Rescore = Literal["written", "path", "pll", "ar"]
WHOLE = ("pll", "ar")  # scores of a text, however it was written
COUNTS: dict[str, Callable[..., Count]] = {
    "fixed": fixed, "constant": constant, "even": even, "anneal": anneal, "threshold": threshold, "factor": factor,
    "entropy-bound": entropy_bound, "kl-stable": kl_stable, "whole": lambda: whole,
}  # fmt: skip
REGIONS: dict[str, Callable[..., Region]] = {
    "masked": lambda: masked, "everywhere": lambda: everywhere, "revisit": lambda: revisit, "block": block,
    "dilated": dilated,
}  # fmt: skip
SCHEDULED = ("constant", "even", "anneal")  # counts that are given the number of steps
_CALL = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\(([^()]*)\))?\s*")


class PlanError(ValueError):
    """A plan that makes no sense; the message says what to write instead."""


@dataclass(frozen=True)
class Plan:
    """Everything a user may choose about a generation. The defaults are easy-first, one symbol a step, T = L."""

    order: str | Order | Decoder = "easy-first"  # a strategy, a sum of features, a recipe such as "mask-predict(10)",
    # a policy's file, or one's own; "a | b" is several, whose candidates are compared with each other
    count: str | None = None  # "2", "constant", "anneal", "threshold(0.9)", …: how many positions a step
    steps: int | str | None = None  # T; "2L" goes over everything twice; None: until everything is written
    among: str | None = None  # "masked", "everywhere", "block(8)", …: which positions may be chosen
    beam: int = 1  # K = K″, hypotheses and symbols
    positions: int = 1  # K′, positions a hypothesis
    lengths: int = 4  # target lengths tried
    rescore: Rescore = "written"  # what the best candidate is chosen by
    polish: int = 0  # rounds in which parts of the best candidate are written anew, if `rescore` prefers the result
    nbest: int = 1
    temperature: float = 0.0  # of symbols; 0 is greedy
    order_temperature: float = 0.0  # of positions; 0 takes the best
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    orders: Mapping[str, Order] = field(default_factory=dict, compare=False)  # further named orders ("learned")

    def __post_init__(self) -> None:
        for name in ("beam", "positions", "lengths", "nbest"):
            if getattr(self, name) < 1:
                raise PlanError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.rescore not in get_args(Rescore):
            raise PlanError(f"rescore is one of {', '.join(get_args(Rescore))}; got {self.rescore!r}")
        if self.polish < 0:
            raise PlanError(f"polish is a number of rounds, at least 0, got {self.polish}")
        if self.polish and self.rescore not in WHOLE:
            raise PlanError("polish compares whole candidates: choose them by rescore 'ar' or 'pll'")

    @property
    def name(self) -> str:
        return self.order if isinstance(self.order, str) else "custom"

    @property
    def each(self) -> tuple[Plan, ...]:
        """A plan for each of several orders, "a | b"; mostly this one alone."""
        if not isinstance(self.order, str) or "|" not in self.order:
            return (self,)
        names = [name.strip() for name in self.order.split("|")]
        if not all(names):
            raise PlanError(f"order {self.order!r}: a name is missing beside |")
        return tuple(replace(self, order=name) for name in names)

    def decoder(self, ban: tuple[int, ...] = ()) -> Decoder:
        """The composition of this plan, never writing the symbols `ban`."""
        try:
            composed = self._compose()
            symbols = Symbols(self.temperature, self.top_k, self.top_p)
        except PlanError:
            raise
        except ValueError as error:
            raise PlanError(str(error)) from error
        given = self.temperature or self.top_k or self.top_p
        if isinstance(self.order, Decoder) or (self._recipe() and not given):
            symbols = composed.symbols
        return replace(composed, symbols=replace(symbols, ban=tuple({*symbols.ban, *ban})))

    def _compose(self) -> Decoder:
        if isinstance(self.order, Decoder):
            return self.order
        if recipe := self._recipe():
            return recipe
        order = self._order()
        twice = self.steps == "2L"
        if isinstance(self.steps, str) and self.steps not in ("L", "2L"):
            raise PlanError(f"steps is a whole number, 'L' or '2L'; got {self.steps!r}")
        steps = self.steps if isinstance(self.steps, int) else None
        if steps is not None and steps < 1:
            raise PlanError(f"steps must be at least 1, got {steps}")
        count = self._count(order, steps)
        scheduled = count.name.split("(")[0]
        among = self._among(scheduled, twice)
        anew = among is everywhere  # written positions are chosen again
        coordinates = Coordinates(
            order, count, among, self.order_temperature, reuse=anew and bool(order.reads) and not self.order_temperature
        )
        fixed_steps = steps if anew or among is revisit else None
        return Decoder(coordinates, steps=Times(2) if twice else fixed_steps)

    def _recipe(self) -> Decoder | None:
        """What "wino(0.6, 0.9)" names; None if the order is no family of recipes."""
        match = _CALL.fullmatch(self.order) if isinstance(self.order, str) else None
        if match is None or (match[1] not in recipes.FAMILIES and match[2] is None):
            return None
        if self.count or self.among or self.order_temperature or self.steps not in (None, "L"):
            raise PlanError(f"{match[1]} has its own count, steps and region: put its numbers in the brackets instead")
        name, arguments = _call(match[0], recipes.FAMILIES, "recipe")
        return _made(recipes.FAMILIES[name], name, arguments)

    def _order(self) -> Order:
        if isinstance(self.order, Order):
            return self.order
        assert isinstance(self.order, str)
        if "|" in self.order:
            raise PlanError(f"{self.order!r} is several orders: what they write can be compared, but here is one text")
        if self.order in self.orders:
            return self.orders[self.order]
        if self.order.endswith(".safetensors"):
            from anyorder.models.policy import Policy

            return Policy.load(self.order)
        return recipes.order_of(self.order, self.orders)

    def _count(self, order: Order, steps: int | None) -> Count:
        if self.count is None:
            own: Count = getattr(order, "count", fixed(1))  # a policy may have learned how many, too
            return constant(steps) if steps else own
        if self.count.strip().isdigit():
            return fixed(int(self.count))
        name, arguments = _call(self.count, COUNTS, "count")
        if name in SCHEDULED and not arguments:
            if steps is None:
                raise PlanError(f"count {name!r} needs a number of steps: add steps, as in steps=10")
            arguments = [steps]
        return _made(COUNTS[name], name, arguments)

    def _among(self, count: str, twice: bool) -> Region:
        if self.among is None:
            return revisit if twice else everywhere if count == "anneal" else masked
        name, arguments = _call(self.among, REGIONS, "region")
        return _made(REGIONS[name], name, arguments)


def _call(text: str, known: Mapping[str, object], what: str) -> tuple[str, list[float]]:
    """'threshold(0.9)' → ('threshold', [0.9])."""
    match = _CALL.fullmatch(text)
    name = match[1].replace("_", "-") if match else text
    if match is None or name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise PlanError(f"no {what} {text!r}; {hint}there are {', '.join(known)}")
    try:
        arguments = [float(a) for a in match[2].split(",")] if match[2] and match[2].strip() else []
    except ValueError:
        raise PlanError(f"{what} {text!r}: what is in the brackets must be numbers") from None
    return name, arguments


def _made(make: Callable[..., Made], name: str, arguments: list[float]) -> Made:
    values = [int(a) if a == int(a) else a for a in arguments]
    try:
        return make(*values)
    except TypeError:
        wanted = ", ".join(str(p).split(":")[0] for p in inspect.signature(make).parameters.values())
        raise PlanError(
            f"{name} takes other arguments than ({', '.join(map(str, values))}): {name}({wanted})"
        ) from None
