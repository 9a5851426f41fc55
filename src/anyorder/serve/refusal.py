"""Refusal: a request that is not answered, with the status and the sentence that its client is told."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyorder.errors import AnyorderError, ModelError, raised_in


class Refusal(Exception):
    """Why a request gets no answer. Every dialect of the API shows it in its own shape."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, field: str | None = None, wait: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field
        self.code = code or CODES.get(status, "error")
        self.wait = wait  # seconds after which it is worth asking again

    def __reduce__(self) -> tuple[Any, ...]:
        """So that it can be told in another process."""
        return partial(Refusal, code=self.code, field=self.field, wait=self.wait), (self.status, self.message)

    @property
    def headers(self) -> dict[str, str]:
        """What the response says besides its body."""
        out = {} if self.wait is None else {"Retry-After": str(max(1, round(self.wait + 0.5)))}
        return out | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})


CODES = {
    400: "invalid_request", 401: "invalid_api_key", 404: "not_found", 405: "method_not_allowed", 408: "too_slow",
    413: "too_large", 415: "unsupported_media_type", 422: "invalid_request", 429: "rate_limit_exceeded",
    499: "client_gone", 500: "internal_error", 503: "overloaded", 504: "deadline_exceeded",
}  # fmt: skip
INTERNAL = "the model could not answer this request; the server's log says why"


def wrong(message: str, field: str | None = None) -> Refusal:
    """What a client can mend by asking for something else."""
    return Refusal(400, message, field=field)


def refusal(error: BaseException) -> Refusal | None:
    """What a client is told of an error that it can do something about; None for one that is ours, or the model's."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ModelError):
        return None
    ours = isinstance(error, ValueError) and raised_in(error).startswith("anyorder.core.")  # for composers of decoders
    return wrong(str(error)) if ours or isinstance(error, AnyorderError) else None
