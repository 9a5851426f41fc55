"""How to write: the options of a plan as fields of a request, bounded by the server's limits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from anyorder.errors import PlanError
from anyorder.options import WORDS, Option, known, offered
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


class Asked(BaseModel):
    """A request's body: a field that nobody would read is an error."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


def _field(name: str, one: Option, task: str) -> tuple[Any, Any]:
    """An option as pydantic reads it; its bounds are shown in the schema, and checked by `options`."""
    numeric = {int, float} & set(one.kinds)
    said: Any = Number if float in numeric else int if int in numeric else one.type
    if one.listed:
        said = Text | list[Text]
    elif one.about.words:
        said = Text | int if numeric else Text
    least, most = one.about.least, min(one.about.most, one.about.served or math.inf)
    schema: dict[str, Any] = {"examples": ["easy-first"]} if name == "order" else {}
    if numeric:
        schema |= {"exclusiveMinimum" if one.about.above else "minimum": least, "maximum": most}
    if one.about.words or one.listed:
        schema["maxLength"] = WORDS
    default, told = one.of(task)
    about = one.about.help + (f" Default: {told or default}." if told or default is not None else "")
    return said | None, Field(None, description=about, json_schema_extra=schema)


def _body(name: str, task: str) -> type[Asked]:
    """A request's body with the options of a task."""
    known = {option: _field(option, one, task) for option, one in offered("http", task).items()}
    return create_model(name, __base__=Asked, **known)  # type: ignore[call-overload,no-any-return]


if TYPE_CHECKING:  # their fields are made of the options

    class How(Asked):
        """What may be chosen about fillings."""

        def __getattr__(self, name: str) -> Any: ...

    class HowMany(How):
        """What may be chosen about a translation."""

    class HowShown(How):
        """What may be chosen about a generation that is watched."""
else:
    How, HowMany, HowShown = _body("How", "fill"), _body("HowMany", "translate"), _body("HowShown", "trace")


def options(asked: Any) -> dict[str, Any]:
    """The options that were given, each within the server's bounds."""
    fields = type(asked).model_fields  # pydantic's models have attributes of their own, such as `schema`
    given = {n: one.value(v) for n, one in known().items() if n in fields and (v := getattr(asked, n)) is not None}
    for name, value in given.items():
        try:
            known()[name].check(name, value, served=True)
        except PlanError as error:
            raise wrong(str(error), name) from None
    if any(mark in given.get("order", "") for mark in ("/", "\\", ".safetensors", ".py:")):
        raise wrong("order is a strategy, a sum of features or a recipe; files are not read for a request", "order")
    return given


def plan(asked: Any, **more: Any) -> Plan:
    """The plan that was asked for; what makes no sense is refused in a sentence."""
    try:
        return Plan.of(**{**more, **options(asked)}).check()
    except PlanError:
        raise
    except (ValueError, TypeError, ArithmeticError) as error:  # numbers that no count or region can be made of
        raise PlanError(f"these options do not fit together: {error}") from None
