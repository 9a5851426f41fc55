"""The gate: what every request passes. A bound on its body, a number, a log line, its time in the meters.

Behind it is a door, which is shut while the server has as much to do as it may hold: whoever asks for work then is
refused before anything is read, parsed or scheduled, so that a flood costs next to nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyorder.serve.answers import refused
from anyorder.serve.metrics import Meters
from anyorder.serve.refusal import INTERNAL, Refusal

log = logging.getLogger("anyorder.serve")
SAFE = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))


class _TooLong(Exception):
    """The body is longer than allowed."""


class _TooSlow(Exception):
    """The body does not come."""


class Gate:
    """Around the whole application, as plain ASGI: nothing here waits or copies."""

    def __init__(
        self, app: ASGIApp, meters: Meters, longest: int, seconds: float, texts: bool, paths: frozenset[str]
    ) -> None:
        self.app, self.meters, self.longest, self.seconds, self.texts = app, meters, longest, seconds, texts
        self.paths = paths  # where work is done: they are named in the log though a request was refused before them

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An HTTP request on its way in and out."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, notes = time.monotonic(), {"id": secrets.token_hex(8)}
        scope["notes"] = notes  # what the log line will say
        status = 0

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *SAFE, (b"x-request-id", notes["id"].encode())]
            await send(message)

        request = Request(scope, receive)
        try:
            length = request.headers.get("content-length", "0")
            if length.isdigit() and int(length) > self.longest:
                raise _TooLong
            await self.app(scope, self._bounded(receive), reply)
        except _TooLong:
            why = Refusal(413, f"the body may have {self.longest} bytes: send less at a time")
            await refused(request, why)(scope, receive, reply)
        except _TooSlow:
            why = Refusal(408, f"the body did not come within {self.seconds:g} seconds")
            await refused(request, why, {"Connection": "close"})(scope, receive, reply)
        except Exception as error:
            log.error("a request failed", exc_info=error, extra={"request": notes["id"]})
            if not status:
                await refused(request, Refusal(500, INTERNAL))(scope, receive, reply)
        finally:
            self._note(scope, status, time.monotonic() - begun)

    def _bounded(self, receive: Receive) -> Receive:
        seen, whole, until = 0, False, time.monotonic() + self.seconds

        async def counted() -> Message:
            nonlocal seen, whole
            if whole:  # all that can come is that the client goes
                return await receive()
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    message = await receive()
            except TimeoutError:
                raise _TooSlow from None
            seen += len(message.get("body", b""))
            if seen > self.longest:
                raise _TooLong
            whole = not message.get("more_body", False)
            return message

        return counted

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", scope["path"] if scope["path"] in self.paths else "other")
        self.meters.requests.labels(route, status or 499).inc()
        self.meters.latency.labels(route).observe(seconds)
        why = scope.get("refusal")
        notes: dict[str, Any] = {
            "id": scope["notes"].pop("id"), "method": scope["method"], "route": route, "status": status or 499,
            "seconds": round(seconds, 4), **scope["notes"],
        }  # fmt: skip
        if why is not None:
            notes["refused"] = why.code
        if not self.texts:
            notes.pop("texts", None)
        log.info("request", extra={"fields": notes})


class Door:
    """Shut while `refuses` says why: whoever wants something done (POST) is told so at once."""

    def __init__(self, app: ASGIApp, refuses: Callable[[], Refusal | None]) -> None:
        self.app, self.refuses = app, refuses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An HTTP request that goes in, or does not."""
        why = self.refuses() if scope["type"] == "http" and scope["method"] == "POST" else None
        if why is None:
            await self.app(scope, receive, send)
        else:
            await refused(Request(scope, receive), why)(scope, receive, send)


class Lines(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line of JSON."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(), "message": record.getMessage(),
        }  # fmt: skip
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
