"""Answers as JSON, and refusals in the shape that each dialect's clients expect."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from anyorder.serve.refusal import Refusal

PLAIN = ("/translate", "/languages", "/detect", "/frontend", "/models")  # {"error": "…"}; others have OpenAI's shape
TYPES = {401: "authentication_error", 429: "rate_limit_error"}


def dumps(value: Any) -> str:
    """JSON that every reader can read: no NaN, no infinity, no half characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value


class Json(Response):
    """A value as the body of a response."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """JSON as bytes."""
        return dumps(content).encode()


def shape(path: str, why: Refusal) -> dict[str, Any]:
    """The body of a refusal, as clients of this path read it."""
    if path.startswith(PLAIN):
        return {"error": why.message}
    kind = TYPES.get(why.status, "invalid_request_error" if why.status < 500 else "server_error")
    return {"error": {"message": why.message, "type": kind, "param": why.field, "code": why.code}}


def refused(request: Request, why: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """The response that refuses a request."""
    request.scope["refusal"] = why
    return Json(shape(request.scope["path"], why), why.status, {**(headers or {}), **why.headers})


def event(data: Any, name: str | None = None) -> bytes:
    """A server-sent event; JSON has no line ends of its own."""
    text = data if isinstance(data, str) else dumps(data)
    return f"{'' if name is None else f'event: {name}{chr(10)}'}data: {text}\n\n".encode()
