"""The rows of a part of a file, as every format gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Span = tuple[int, int]  # part of a file: bytes (unpacked, where it is gzip), or rows of Parquet


@dataclass
class Content:
    """The rows of a span; a row that can not be read has a problem instead."""

    records: list[dict[str, Any]] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)  # row → what is wrong with it
    table: Any = None  # Parquet's own, which keeps the types of columns
    said: dict[int, str] = field(default_factory=dict)  # row → its line of JSON, which keeps every digit

    def add(self, record: dict[str, Any], problem: str = "") -> None:
        """Append a record, and what is wrong with it, if anything is."""
        if problem:
            self.problems[len(self.records)] = problem
        self.records.append(record)


def to_bytes(text: str) -> bytes:
    """Text as UTF-8; halves of characters, which UTF-8 can not say, are spelled out."""
    return text.encode("utf-8", "backslashreplace")
