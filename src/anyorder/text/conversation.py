"""A conversation as a prompt, by the model's chat template, and what was written after it as an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anyorder.errors import TextError, first_line
from anyorder.text.blanks import joined, usable

Message = Mapping[str, str]  # {"role": "user", "content": "…"}
ROLES = ("system", "user", "assistant")


class Prompt(NamedTuple):
    """What a text begins with, as it is typed; for a conversation as the template writes it, and not shown."""

    text: str
    chat: bool


def prompt_of(prompt: str | Sequence[Message], system: str | None, tokenizer: Any, name: str) -> Prompt:
    """The prompt of a text, or of messages; with a `system` message a text is the user's."""
    if isinstance(prompt, str) and system is None:
        return Prompt(prompt, False)
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [_checked(m) for m in prompt]
    if not messages:
        raise TextError("a conversation needs a message at least")
    messages = messages if system is None else [{"role": "system", "content": system}, *messages]
    if not getattr(tokenizer, "chat_template", None):
        raise TextError(f"{name} has no chat template, so it knows no conversations: give the prompt as one text")
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates are programs, and raise what they like
        raise TextError(f"the chat template of {name} does not take these messages: {first_line(error)}") from None
    return Prompt(str(text), True)


def _checked(message: Any) -> dict[str, str]:
    if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
        raise TextError(f"a message is {{'role': 'user', 'content': '…'}}, not {message!r}")
    role, content = message["role"], message["content"]
    if role not in ROLES:
        raise TextError(f"the role of a message is {', '.join(ROLES)}; got {role!r}")
    if not isinstance(content, str):
        raise TextError(f"the content of a message is text, not {type(content).__name__}: images are not read")
    return {"role": role, "content": usable(content)}


def ended(ids: Sequence[int], ends: Sequence[int]) -> list[int]:
    """What stands before the first symbol that ends a text."""
    return list(ids[: next((k for k, i in enumerate(ids) if i in ends), len(ids))])


def shown(ids: Sequence[int], tokenizer: Any) -> list[int]:
    """What is text of it: neither special symbols, nor those that the model knows and its tokenizer does not."""
    special = {*tokenizer.all_special_ids, *(i for i, t in tokenizer.added_tokens_decoder.items() if t.special)}
    return [i for i in ids if i not in special and i < len(tokenizer)]


def answer(ids: Sequence[int], tokenizer: Any) -> str:
    """What was written, letter by letter as it was written."""
    return joined(shown(ids, tokenizer), tokenizer)


def stopped(text: str, stop: Sequence[str]) -> str:
    """The text before the first of these strings."""
    return text[: min((at for s in stop if (at := text.find(s)) >= 0), default=len(text))]


def stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """What ends a text, checked."""
    found = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(isinstance(s, str) and s for s in found):
        raise TextError(f"stop is a text, or several, none of them empty; got {stop!r}")
    return found
