"""A plan's words as a Decoder of the core: order, count, steps, region, conditionals, temperatures."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from anyorder import core, recipes
from anyorder.core import Coordinates, Count, Decoder, Order, Region, Symbols, Times, constant, everywhere, fixed
from anyorder.errors import PlanError, near, pointer
from anyorder.models.folder import LEARNED
from anyorder.options import number
from anyorder.text.own_orders import installed, own_order

if TYPE_CHECKING:
    from anyorder.text.plan import Plan

COUNTS: dict[str, Callable[..., Count]] = {
    "fixed": fixed, "constant": constant, "even": core.even, "anneal": core.anneal, "threshold": core.threshold,
    "factor": core.factor, "entropy-bound": core.entropy_bound, "kl-stable": core.kl_stable,
    "whole": lambda: core.whole,
}  # fmt: skip
REGIONS: dict[str, Callable[..., Region]] = {
    "masked": lambda: core.masked, "everywhere": lambda: everywhere, "revisit": lambda: core.revisit,
    "block": core.block, "dilated": core.dilated, "aligned": core.aligned,
}  # fmt: skip
COMPOSED = "easy-first"  # the order that other options compose with, where none is given
FORWARDS = "forwards"  # the order of models that contain an autoregressive one: from left to right to their own </s>
SCHEDULED = ("constant", "even", "anneal")  # counts that are given the number of steps
ABOVE = "above"  # the count of a policy that learned how many: what it rates above a number, not 0


def composed(plan: Plan, own: Mapping[str, Order]) -> Decoder:
    """The decoder of a plan with one order; `own` are further orders by their names."""
    mine = own_order(plan.order) if isinstance(plan.order, str) and plan.order not in own else None
    if mine is not None:
        return composed(replace(plan, order=mine), own)
    if isinstance(plan.order, Decoder):
        _complete(plan, "a Decoder", "build them into it")
        if plan.temperature or plan.top_k or plan.top_p or plan.conditionals != "visible":
            raise PlanError("a Decoder has its own symbols and conditionals: build them into it instead")
        return plan.order
    found = _recipe(plan) or _composition(plan, own)
    return recipes.masked_conditionals(found) if plan.conditionals == "masked" else found


def drawn(plan: Plan, own: Symbols) -> Symbols:
    """The symbols of a recipe, with what the plan says instead of its own."""
    if not (plan.temperature or plan.top_k or plan.top_p):
        return own
    temperature = plan.temperature or own.temperature
    if not (temperature or own.drawn):
        raise PlanError("top_k and top_p say among which symbols one is drawn: add a temperature, such as 1")
    return replace(own, temperature=temperature, top_k=plan.top_k or own.top_k, top_p=plan.top_p or own.top_p)


def _composition(plan: Plan, own: Mapping[str, Order]) -> Decoder:
    order, twice = _order(plan, own), plan.steps == "2L"
    steps = None if plan.steps is None or isinstance(plan.steps, str) else plan.steps
    count, used = _count(plan, order, steps)
    among = _among(plan, count.name.split("(")[0], twice)
    anew = among is everywhere  # written positions are chosen again
    if steps is not None and not (used or anew or among is core.revisit):
        raise PlanError(
            f"with count {plan.count!r} a text is written when it is written: steps={steps} could have no effect "
            "(leave out steps or count)"
        )
    if twice and among is not core.revisit:
        raise PlanError("steps '2L' goes over everything twice, in its own region: leave out among")
    reuse = anew and bool(order.reads) and not plan.order_temperature
    coordinates = Coordinates(order, count, among, plan.order_temperature, reuse=reuse)
    fixed_steps = steps if anew or among is core.revisit else None
    return Decoder(coordinates, steps=Times(2) if twice else fixed_steps)


def _complete(plan: Plan, what: str, instead: str) -> None:
    """Refuse what a complete composition has of its own."""
    if plan.count or plan.among or plan.order_temperature or plan.steps not in (None, "L"):
        raise PlanError(f"{what} has its own count, steps and region: {instead} instead")


def _recipe(plan: Plan) -> Decoder | None:
    """What "wino(0.6, 0.9)" names; None if the order is no family of recipes."""
    if not isinstance(plan.order, str):
        return None
    found = named(plan.order)
    if found is None and plan.order.split("(")[0].strip() in recipes.FAMILIES:
        call(plan.order, recipes.FAMILIES, "recipe")  # says what is wrong with its brackets
    if found is None or (found[0] not in recipes.FAMILIES and not found[1]):
        return None
    said = call(plan.order, recipes.FAMILIES, "recipe")
    _complete(plan, said.name, "put its numbers in the brackets")
    return made(recipes.FAMILIES[said.name], said)


def _order(plan: Plan, own: Mapping[str, Order]) -> Order:
    order = plan.order
    if isinstance(order, Order):
        return order
    if "|" in order:
        raise PlanError(f"{order!r} is several orders: what they write can be compared, but here is one text")
    if order in own:
        return own[order]
    if order == FORWARDS:
        raise PlanError(f"{FORWARDS} is for models that write an end of their own: take left2right for this one")
    if order.endswith(".safetensors"):
        from anyorder.models.policy import Policy

        return Policy.load(order)
    return recipes.order_of(order, own, (*LEARNED, FORWARDS, *installed()))


def _count(plan: Plan, order: Order, steps: int | None) -> tuple[Count, bool]:
    """The count, and whether it makes use of the number of steps."""
    if plan.count is None:
        learned: Count = getattr(order, "count", fixed(1))  # a policy may have learned how many, too
        return (constant(steps), True) if steps else (learned, False)
    if isinstance(plan.count, Count):
        return plan.count, False
    if not isinstance(plan.count, str) or (plan.count.strip().isdecimal() and len(plan.count) < 20):
        number("count", int(plan.count))
        return fixed(int(plan.count)), False
    said = call(plan.count, {**COUNTS, ABOVE: None}, "count")
    if said.name == ABOVE:
        return _above(order, said), False
    if said.name not in SCHEDULED or said.arguments:
        return made(COUNTS[said.name], said), False
    if steps is None:
        raise PlanError(f"count {said.name!r} needs a number of steps: add steps, as in steps=10")
    return COUNTS[said.name](steps), True


def _among(plan: Plan, count: str, twice: bool) -> Region:
    if plan.among is None:
        return core.revisit if twice else everywhere if count == "anneal" else core.masked
    said = call(plan.among, REGIONS, "region")
    return made(REGIONS[said.name], said)


def _above(order: Order, said: Call) -> Count:
    """The learned count of an order, with another number to be above."""
    from anyorder.models.policy import Policy

    if not (isinstance(order, Policy) and order.several):
        raise PlanError(f"count {ABOVE!r} is for an order that learned how many, such as learned-count")
    return replace(made(order.above, said).count, name=said.text.strip())


Made = TypeVar("Made")
MOST = 2**40  # what a number in brackets may be
_CALL = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\(([^()]*)\))?\s*")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_NUMERIC = ("int", "float", int, float)


class Argument(NamedTuple):
    """What stands in brackets between two commas: 4, or size=4; and where in the text."""

    name: str | None
    value: int | float | str
    at: int


class Call(NamedTuple):
    """A name, and what is in its brackets."""

    text: str
    name: str
    arguments: list[Argument]


def pointed(problem: str, text: str, at: int) -> PlanError:
    """An error that shows the text and points at a character of it."""
    return PlanError(f"{problem}\n{pointer(text, at)}")


def named(text: str) -> tuple[str, bool] | None:
    """What a call is a call of, and whether it has brackets; None where it is none."""
    match = _CALL.fullmatch(text)
    return None if match is None else (match[1].replace("_", "-"), match[2] is not None)


def call(text: str, known: Mapping[str, object], what: str) -> Call:
    """The call that a text is, of one of the names known; `what` they are."""
    match = _CALL.fullmatch(text)
    name = match[1].replace("_", "-") if match else text.split("(")[0].strip()
    if name not in known:
        at = len(text) - len(text.lstrip())
        raise pointed(f"no {what} {name!r}; {near(name, known)}there are {', '.join(known)}", text, at)
    if match is None:
        raise pointed(f"{what} {name}: expected one pair of brackets, with numbers in it", text, text.index("("))
    if match[2] is None or not match[2].strip():
        return Call(text, name, [])
    arguments, at = [], match.start(2)
    for part in match[2].split(","):
        arguments.append(_argument(part, text, at + len(part) - len(part.lstrip())))
        at += len(part) + 1
    return Call(text, name, arguments)


def _argument(part: str, text: str, at: int) -> Argument:
    name, equals, value = part.rpartition("=")
    if equals and not name.strip().isidentifier():
        raise pointed("what stands before = in brackets must be a name", text, at)
    return Argument(name.strip() if equals else None, _value(value.strip(), text, at), at)


def _value(said: str, text: str, at: int) -> int | float | str:
    try:
        value = float(said)
    except ValueError:
        if _WORD.fullmatch(said):
            return said
        raise pointed("what is in the brackets must be numbers or words", text, at) from None
    if not math.isfinite(value) or abs(value) > MOST:
        raise pointed(f"a number in brackets must be finite, and at most {MOST:,}", text, at)
    return int(value) if value == int(value) else value


def written(make: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters that brackets can give: numbers and words."""
    return [p for p in inspect.signature(make).parameters.values() if p.annotation in (*_NUMERIC, "str", str)]


def made(make: Callable[..., Made], said: Call) -> Made:
    """What the call makes; a mistake in it is pointed at."""
    known = {p.name: p for p in written(make)}
    takes = f"{said.name}({', '.join(known)})" if known else f"{said.name}, without brackets"
    end = len(said.text.rstrip())
    end -= said.text.rstrip()[-1:] == ")"
    given: dict[str, Argument] = {}
    for k, argument in enumerate(said.arguments):
        if argument.name is None and (k >= len(known) or any(a.name for a in said.arguments[:k])):
            raise pointed(f"{said.name} takes other numbers: {takes}", said.text, argument.at)
        name = argument.name or list(known)[k]
        if name not in known or name in given:
            problem = f"{name} is given twice" if name in given else f"{said.name} has no {name}"
            raise pointed(f"{problem}: {takes}", said.text, argument.at)
        _check_kind(said, known[name], argument)
        given[name] = argument
    if any(p.default is p.empty and name not in given for name, p in known.items()):
        raise pointed(f"{said.name} takes other numbers: {takes}", said.text, end)
    try:
        return make(**{name: argument.value for name, argument in given.items()})
    except ValueError as error:
        raise pointed(str(error), said.text, said.arguments[0].at if said.arguments else 0) from None


def _check_kind(said: Call, p: inspect.Parameter, argument: Argument) -> None:
    word = p.annotation in ("str", str)
    if word != isinstance(argument.value, str):
        raise pointed(f"{p.name} of {said.name} is a {'word' if word else 'number'}", said.text, argument.at)
    if p.annotation in ("int", int) and not isinstance(argument.value, int):
        raise pointed(f"{p.name} of {said.name} is a whole number, not {argument.value}", said.text, argument.at)
