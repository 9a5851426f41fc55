"""A client that costs next to nothing, so that a measured server is measured alone: HTTP/1.1 on asyncio's streams."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
IDLE = 10.0  # seconds after which a connection is not used again: the server may be about to close it


@dataclass
class Asking:
    """Connections to one server, used again once they are free."""

    url: str
    free: list[tuple[float, Connection]] = field(default_factory=list)  # since when, which

    async def post(self, path: str, body: Any, seconds: float) -> tuple[int, bytes]:
        """Status and body; TimeoutError after so many seconds (the connection is closed), OSError if it is lost."""
        try:
            return await asyncio.wait_for(self._post(path, json.dumps(body).encode()), seconds)
        except (asyncio.IncompleteReadError, ValueError) as error:
            raise ConnectionError(str(error)) from None

    async def _post(self, path: str, body: bytes) -> tuple[int, bytes]:
        host, port = urlsplit(self.url).hostname, urlsplit(self.url).port
        reader, writer = self._fresh() or await asyncio.open_connection(host, port)
        try:
            head = (
                f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            )
            writer.write(head.encode() + b"\r\n\r\n" + body)
            top = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            if "transfer-encoding: chunked" in top:
                answer = await _chunks(reader)
            else:
                answer = await reader.readexactly(int(top.split("content-length: ")[1].split("\r\n")[0]))
        except BaseException:  # half an answer: nobody can use this connection again
            writer.close()
            raise
        self.free.append((time.monotonic(), (reader, writer)))
        return int(top.split(" ", 2)[1]), answer

    def _fresh(self) -> Connection | None:
        if self.free and time.monotonic() - self.free[-1][0] < IDLE:
            return self.free.pop()[1]
        self.close()
        return None

    def close(self) -> None:
        """Hang up."""
        while self.free:
            self.free.pop()[1][1].close()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    out = b""
    while size := int(await reader.readline(), 16):
        out += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return out
