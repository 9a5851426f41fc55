"""What every request passes: a number, a log line and meters (`Gate`), bounds on its body (`Door`).

The door is shut while the server has as much to do as it may hold: work is refused then before anything is read,
parsed or scheduled, so that a flood costs next to nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyorder.serve.answers import refused
from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters
from anyorder.serve.refusal import INTERNAL, Refusal

log = logging.getLogger("anyorder.serve")
SAFE = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))


class Gate:
    """Around the whole application, as plain ASGI: a number, a log line and the time of every request."""

    def __init__(self, app: ASGIApp, meters: Meters, texts: bool, paths: frozenset[str]) -> None:
        self.app, self.meters, self.texts = app, meters, texts
        self.paths = paths  # of the dialects: they are named in the log though a request was refused before its route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An HTTP request on its way in and out."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, notes = time.monotonic(), {"id": secrets.token_hex(8)}
        scope["notes"] = notes  # fields of the log line
        status = 0

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *SAFE, (b"x-request-id", notes["id"].encode())]
            await send(message)

        try:
            await self.app(scope, receive, reply)
        except Exception as error:
            log.error("a request failed", exc_info=error, extra={"request": notes["id"]})
            if not status:
                await refused(Request(scope, receive), Refusal(500, INTERNAL))(scope, receive, reply)
        finally:
            self._note(scope, status, time.monotonic() - begun)

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
    """Lets work (POST) in: refused at once while `refuses` says why, else its body is read here, within bounds.

    The application gets a body that is whole. Its JSON has few enough values for validation to take no time.
    """

    def __init__(self, app: ASGIApp, limits: Limits, refuses: Callable[[Request], Refusal | None]) -> None:
        self.app, self.limits, self.refuses = app, limits, refuses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An HTTP request that goes in, or is refused."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            if (why := self.refuses(request)) is not None:
                raise why
            body = await self._body(request)
            check_values(body, self.limits.values)
        except Refusal as why:
            headers = {"Connection": "close"} if why.status == 408 else None
            await refused(request, why, headers)(scope, receive, send)
            return
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        await self.app(scope, replay, send)

    async def _body(self, request: Request) -> bytes:
        most, seconds = self.limits.body, self.limits.deadline
        too_long = Refusal(413, f"the body may have {most} bytes: send less at a time")
        length = request.headers.get("content-length", "0")
        if length.isdigit() and len(length) < 20 and int(length) > most:
            raise too_long
        parts, size = [], 0
        try:
            async with asyncio.timeout(seconds):
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > most:
                        raise too_long
        except TimeoutError:
            raise Refusal(408, f"the body did not come within {seconds:g} seconds") from None
        except ClientDisconnect:
            raise Refusal(499, "the client left while its body was read") from None
        return b"".join(parts)


def check_values(body: bytes, most: int) -> None:
    """Refuse JSON of more values than any request has; a body that is no JSON is the dialect's to refuse."""
    try:
        waiting = [json.loads(body)]
    except (ValueError, RecursionError):
        return
    seen = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, (dict, list)):
            seen += len(value)
            if seen > most:
                raise Refusal(413, f"the body has more than {most} values: send less at a time")
            waiting.extend(value.values() if isinstance(value, dict) else value)


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
