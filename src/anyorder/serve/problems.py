"""What is wrong with a request's body, in a sentence: pydantic's list of errors → (message, field)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def sentence(errors: Sequence[Any]) -> tuple[str, str | None]:
    """The first error as a sentence and the field it is about; how many more there are."""
    first = errors[0]
    where = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    field = ".".join(where[:1]) or None
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "is not a field of this request"
    elif first["type"] == "missing":
        message = "is missing"
    elif first["type"] == "json_invalid":
        return "the body is not JSON", None
    return f"{'.'.join(where) or 'the body'}: {message[:200]}{more}", field
