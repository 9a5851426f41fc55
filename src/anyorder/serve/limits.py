"""Limits: how much one request may ask for, how much the server takes on, which clients may ask, and how often."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass

from anyorder.errors import UsageError
from anyorder.serve.refusal import Refusal

REMEMBERED = 10_000  # clients whose buckets are kept
NEEDED = "this server needs a key: send it as 'Authorization: Bearer KEY' (LibreTranslate: api_key)"


@dataclass(frozen=True)
class Limits:
    """What is refused beyond; each is a number that a client can be told."""

    queue: int = 96  # sentences waiting or being written, of all requests
    deadline: float = 60.0  # seconds that a request may take
    rate: int | None = None  # requests a minute for each key (without keys: for each address)
    body: int = 1 << 20  # bytes
    sentences: int = 64  # in one request
    characters: int = 5000  # in one text
    tokens: int = 256  # to write in one text
    samples: int = 16  # n, alternatives, n-best
    gaps: int = 16  # in one text

    @property
    def values(self) -> int:
        """Values in the JSON of one body: far more than any request has that can be answered."""
        return 4096 + 2 * self.sentences


class Keys:
    """The keys of a server; without any, everybody may ask."""

    def __init__(self, keys: tuple[str, ...], rate: int | None) -> None:
        for key in keys:
            if not key or not key.isascii() or not key.isprintable() or " " in key:
                raise UsageError(
                    "a key is empty: is a variable not set? Give a key of letters and digits, or leave out --key and "
                    "ANYORDER_KEYS to let every client in"
                    if not key.strip()
                    else f"the key {key!r} cannot be sent in a header: take ASCII letters and digits"
                )
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]
        self._rate = rate  # requests a minute
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client → (requests left, when)

    @property
    def needed(self) -> bool:
        """Must clients send a key?"""
        return bool(self._digests)

    def admit(self, key: str | None, address: str) -> str:
        """The client: the number of its key, or its address. Refuses a wrong key, and a client over its rate."""
        client = self.client(key, address)
        if self._rate is not None:
            self._spend(client, self._rate)
        return client

    def client(self, key: str | None, address: str) -> str:
        """The client: the number of its key, or its address. Refuses a wrong key."""
        if not self._digests:
            return address
        if not key:
            raise Refusal(401, NEEDED)
        given = hashlib.sha256(key.encode("utf-8", "replace")).digest()
        found = [hmac.compare_digest(given, known) for known in self._digests]  # all of them: no early end
        if not any(found):
            raise Refusal(401, "this key is not one of the server's")
        return f"key {found.index(True) + 1}"

    def _spend(self, client: str, rate: int) -> None:
        now = time.monotonic()
        left, when = self._buckets.pop(client, (float(rate), now))
        left = min(float(rate), left + (now - when) * rate / 60)
        enough = left >= 1
        self._buckets[client] = (left - enough, now)
        while len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        if not enough:
            raise Refusal(429, f"more than {rate} requests in a minute: wait a little", wait=(1 - left) * 60 / rate)
