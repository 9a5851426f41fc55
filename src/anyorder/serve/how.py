"""How to write: the options of a plan as fields of a request, bounded by the server's limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from anyorder.errors import PlanError
from anyorder.serve.limits import Limits
from anyorder.serve.refusal import wrong
from anyorder.text.plan import Plan


def _whole(text: str) -> str:
    """JSON can spell half a character; nobody can read it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("has a lone surrogate, which is no character") from None
    return text


Text = Annotated[str, AfterValidator(_whole)]
Texts = Annotated[list[Text], Field(fail_fast=True)]  # validation stops at the first error
Number = Annotated[float, Field(allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class Asked(BaseModel):
    """A request's body: a field that nobody would read is an error."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class How(Asked):
    """What may be chosen about a generation, as in `anyorder translate --help`. What is left out has its default."""

    order: Text | None = Field(None, examples=["easy-first"], description="Which position next: a strategy, a sum of "
                               "features ('negent + 0.9*logp') or a recipe ('mask-predict(10)').")  # fmt: skip
    count: Text | None = Field(None, description="How many positions a step: '2', 'constant', 'threshold(0.9)' …")
    steps: int | Literal["L", "2L"] | None = Field(None, description="T, the number of steps; by default until done.")
    among: Text | None = Field(None, description="Which positions may be chosen: 'masked', 'everywhere', 'block(8)' …")
    conditionals: Literal["visible", "masked"] | None = None
    beam: int | None = Field(None, description="K, hypotheses kept.")
    positions: int | None = Field(None, description="K′, positions tried for each hypothesis.")
    temperature: Number | None = Field(None, description="Of symbols; 0 takes the likeliest.")
    order_temperature: Number | None = Field(None, description="Of positions; 0 takes the best.")
    top_k: int | None = None
    top_p: Number | None = None
    seed: Seed | None = None


class HowMany(How):
    """… and about choosing among several."""

    lengths: int | None = Field(None, description="Target lengths tried.")
    draft: bool | None = Field(None, description="Try the lengths nearest to that of a draft, written first from left "
                               "to right.")  # fmt: skip
    rescore: Literal["written", "path", "pll", "forwards", "ar", "both"] | None = Field(
        None, description="What the best candidate is chosen by."
    )


WORDS = ("order", "count", "among")
BOUNDED = ("steps", "beam", "positions", "lengths")


def options(asked: How, limits: Limits) -> dict[str, Any]:
    """The options that were given, each within its limit."""
    given = {name: getattr(asked, name) for name in OPTIONS if getattr(asked, name, None) is not None}
    for name in WORDS:
        if len(given.get(name, "")) > limits.words:
            raise wrong(f"{name} may have {limits.words} characters", name)
    if any(mark in given.get("order", "") for mark in ("/", "\\", ".safetensors")):
        raise wrong("order is a strategy, a sum of features or a recipe; files are not read for a request", "order")
    for name in BOUNDED:
        value, most = given.get(name), getattr(limits, name)
        if isinstance(value, int) and not 1 <= value <= most:
            raise wrong(f"{name} is a whole number from 1 to {most}, got {value}", name)
    for name in ("temperature", "order_temperature"):
        if not 0 <= given.get(name, 0) <= 100:
            raise wrong(f"{name} is a number from 0 to 100, got {given[name]:g}", name)
    return given


def plan(asked: How, limits: Limits, **more: Any) -> Plan:
    """The plan that was asked for; what makes no sense is refused in a sentence."""
    given = {**more, **options(asked, limits)}
    try:
        return Plan.of(**given).check()
    except PlanError:
        raise
    except (ValueError, TypeError, ArithmeticError) as error:  # numbers that no count or region can be made of
        raise PlanError(f"this makes no decoder: {error}") from None


OPTIONS = (*How.model_fields, *HowMany.__annotations__)
