"""Shards: what a worker does at once. How inputs are cut depends on the inputs alone, never on who works."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from anyorder.cluster.formats import ENDINGS, size_of, spans
from anyorder.cluster.places import Input
from anyorder.cluster.rows import Span

SMALLEST, LARGEST = 1 << 16, 1 << 22  # bytes of text in a shard: soon something is done; not much is lost
ABOUT = 1000  # shards, where they would be neither too small nor too large


@dataclass(frozen=True)
class Shard:
    """A span of an input, and the number of the output's part that it becomes."""

    number: int
    file: Input
    span: Span
    size: int  # bytes of text, about

    def name(self, kind: str) -> str:
        """The file of its rows; names are in the order of the input."""
        return f"part-{self.number:06d}.{ENDINGS[kind]}"

    @property
    def record(self) -> str:
        """The file that says it is finished."""
        return f"{self.number:06d}.json"

    def __str__(self) -> str:
        return f"shard {self.number} ({self.file.path}, {self.span[0]:,} to {self.span[1]:,})"


@dataclass(frozen=True)
class Report:
    """What a worker says of a shard: what it wrote, and what it cost."""

    rows: int
    failed: int  # rows with an error …
    errors: dict[int, str]  # … and the first of them: row from 0 → reason
    bytes: int
    sha256: str
    passes: int  # canvases through the model
    head_rows: int
    seconds: float

    def said(self) -> dict[str, Any]:
        """As JSON can say it."""
        return asdict(self)


def cut(inputs: list[Input], size: int | None = None) -> list[Shard]:
    """The shards of inputs, in order, of about `size` bytes of text each."""
    sizes = [size_of(file) for file in inputs]
    most = size or max(SMALLEST, min(LARGEST, sum(sizes) // ABOUT))
    shards: list[Shard] = []
    for file, total in zip(inputs, sizes, strict=True):
        some = list(spans(file, total, most))
        ends = sum(b - a for a, b in some) or 1
        shards += [Shard(len(shards) + i, file, s, (s[1] - s[0]) * total // ends) for i, s in enumerate(some)]
    return shards
