"""OpenAI's requests: which of their fields have a meaning here, and a sentence for each that has none."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import Field

from anyorder.serve.how import Asked, HowMany, Number, Text, Texts
from anyorder.serve.limits import Limits
from anyorder.serve.refusal import wrong

Stop = Text | Annotated[list[Text], Field(max_length=4)]
NEUTRAL: dict[str, tuple[Any, ...]] = {  # fields that no undirected model can mean anything by, and what says nothing
    "presence_penalty": (None, 0), "frequency_penalty": (None, 0), "logit_bias": (None, {}), "echo": (None, False),
    "tools": (None, []), "tool_choice": (None, "none", "auto"), "functions": (None, []), "function_call": (None,),
    "parallel_tool_calls": (None, True, False), "modalities": (None, ["text"]), "audio": (None,), "prediction": (None,),
    "reasoning_effort": (None,), "verbosity": (None,), "web_search_options": (None,), "store": (None, False),
    "service_tier": (None, "auto", "default"), "metadata": (None, {}),
}  # fmt: skip


class StreamOptions(Asked):
    """stream_options."""

    include_usage: bool = False
    include_obfuscation: bool = False


class Common(HowMany):
    """What both kinds of request have. The options of a plan ride along as extra fields."""

    model: Text = Field(examples=["de-en"])
    n: int | None = Field(None, description="Choices: the n best, or n that were drawn where there is a temperature.")
    stop: Stop | None = Field(None, description="The text ends before the first of these.")
    stream: bool | None = Field(None, description="Send the finished beginning as it grows.")
    stream_options: StreamOptions | None = None
    temperature: Number | None = Field(None, description="0 takes the likeliest. Left out: 0 for translation, else 1.")
    user: Text | None = None
    response_format: dict[str, Any] | None = Field(
        None, description="{type: text | json_object | json_schema}: what is written parses, and validates."
    )
    structured_outputs: dict[str, Any] | None = Field(
        None, description="{json: a schema}, {regex: …} or {choice: [texts]}, as vLLM spells it."
    )
    to: Text | None = Field(None, examples=["en"], description="The language to translate into, where it is not clear.")
    from_: Text | None = Field(None, alias="from", description="The language of the prompt.")
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    logit_bias: dict[str, Any] | None = None


class Completion(Common):
    """POST /v1/completions: a translator translates the prompt, a language model goes on with it."""

    prompt: Text | Texts = Field(examples=["Ein Hund läuft am Strand."])
    suffix: Text | None = Field(None, description="What comes after the completion: every length between is tried.")
    max_tokens: int | None = None
    logprobs: int | None = Field(None, description="log p of each token, and of this many of the likeliest.")
    echo: bool | None = None
    best_of: int | None = None


class Part(Asked):
    """A part of a message."""

    type: Literal["text"]
    text: Text


class Message(Asked):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[Part], Field(fail_fast=True)]
    name: Text | None = None

    @property
    def text(self) -> str:
        """Its parts as one text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class Chat(Common):
    """POST /v1/chat/completions: a translator translates the user's message."""

    messages: Annotated[list[Message], Field(fail_fast=True)] = Field(
        examples=[[{"role": "user", "content": "Ein Hund läuft am Strand."}]]
    )
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    functions: list[Any] | None = None
    function_call: Any = None
    parallel_tool_calls: bool | None = None
    modalities: list[Any] | None = None
    audio: Any = None
    prediction: Any = None
    reasoning_effort: Any = None
    verbosity: Any = None
    web_search_options: Any = None
    store: bool | None = None
    service_tier: Any = None
    metadata: Any = None


def check(asked: Common, limits: Limits, tokens: int | None, top: int | None) -> None:
    """Refuse what could have no effect, and what is too much."""
    for name, nothing in NEUTRAL.items():
        if getattr(asked, name, None) not in nothing:
            raise wrong(f"{name} has no meaning for a model that writes in any order: leave it out", name)
    if asked.stream_options is not None and not asked.stream:
        raise wrong("stream_options needs stream: true", "stream_options")
    for name, value, most in (("n", asked.n, limits.samples), ("max_tokens", tokens, limits.tokens)):
        if value is not None and not 1 <= value <= most:
            raise wrong(f"{name} is a whole number from 1 to {most}, got {value}", name)
    if top is not None and not 0 <= top <= TOP:
        raise wrong(f"log p of at most {TOP} symbols beside each is known, asked for {top}", "logprobs")
    stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    if not all(stops):
        raise wrong("a stop sequence cannot be empty", "stop")


def rule(asked: Common) -> dict[str, Any]:
    """The rule that a request asks for by OpenAI's or vLLM's field, as options of a plan."""
    form, structure = asked.response_format, asked.structured_outputs
    if form is not None and structure is not None:
        raise wrong("response_format and structured_outputs say the same: give one of them", "structured_outputs")
    if form is not None:
        return _format(form)
    given = {name: value for name, value in (structure or {}).items() if value is not None}
    if structure is None:
        return {}
    if len(given) != 1 or not given.keys() <= {"json", "regex", "choice"}:
        named = ", ".join(sorted(given.keys() - {"json", "regex", "choice"})) or "several at once"
        raise wrong(f"structured_outputs is one of json, regex and choice, not {named}", "structured_outputs")
    ((name, value),) = given.items()
    if name == "json":
        return {"schema": _json(value, "structured_outputs")}
    if name == "regex":
        return {"pattern": _text(value, "structured_outputs")}
    if not isinstance(value, list) or not value:
        raise wrong("structured_outputs.choice is a list of texts", "structured_outputs")
    return {"pattern": "|".join(re.escape(_text(one, "structured_outputs")) for one in value)}


def _format(form: dict[str, Any]) -> dict[str, Any]:
    kind = form.get("type")
    if kind == "text" and len(form) == 1:
        return {}
    if kind == "json_object" and len(form) == 1:
        return {"schema": {"type": "object"}}
    schema = form.get("json_schema")
    if kind == "json_schema" and isinstance(schema, dict) and "schema" in schema:
        return {"schema": _json(schema["schema"], "response_format")}
    raise wrong("response_format is {type: text | json_object}, or {type: json_schema, json_schema: {schema: …}}; "
                f"got type {str(kind)[:40]!r}", "response_format")  # fmt: skip


def _json(value: Any, field: str) -> dict[str, Any]:
    """A schema itself: a text could name a file, and files are not read for a request."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict):
        raise wrong("a schema is a JSON object", field)
    return value


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise wrong(f"{str(value)[:40]!r} is no text", field)
    return value


TOP = 5  # symbols whose log p is kept beside each that was written
