"""Limits: how much one request may ask for, and how much of it the server takes on at once."""

from __future__ import annotations

from dataclasses import dataclass


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
