"""Who may ask, and how often: keys compared in constant time, a bucket of requests for each key or address."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict

from anyorder.serve.refusal import Refusal

REMEMBERED = 10_000  # askers whose buckets are kept


class Keys:
    """The keys of a server; without any, everybody may ask."""

    def __init__(self, keys: tuple[str, ...], rate: int | None) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]
        self._rate = rate  # requests a minute
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # asker → (requests left, when)

    @property
    def needed(self) -> bool:
        """Does one need a key at all?"""
        return bool(self._digests)

    def admit(self, key: str | None, address: str) -> str:
        """Who asks: the number of the key, or an address. Refuses a wrong key, and whoever asks too often."""
        asker = self._who(key, address)
        if self._rate is not None:
            self._spend(asker, self._rate)
        return asker

    def _who(self, key: str | None, address: str) -> str:
        if not self._digests:
            return address
        given = hashlib.sha256((key or "").encode("utf-8", "replace")).digest()
        found = [hmac.compare_digest(given, known) for known in self._digests]  # all of them: no early end
        if not any(found):
            what = "this server needs a key: send it as 'Authorization: Bearer KEY' (LibreTranslate: api_key)"
            raise Refusal(401, what if not key else "this key is not one of the server's")
        return f"key {found.index(True) + 1}"

    def _spend(self, asker: str, rate: int) -> None:
        now = time.monotonic()
        left, when = self._buckets.pop(asker, (float(rate), now))
        left = min(float(rate), left + (now - when) * rate / 60)
        enough = left >= 1
        self._buckets[asker] = (left - enough, now)
        while len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        if not enough:
            raise Refusal(429, f"more than {rate} requests in a minute: wait a little", wait=(1 - left) * 60 / rate)
