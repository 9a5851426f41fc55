"""Rows in files of every format: which it is, how it is cut into spans, read and written.

A row belongs to the span that it begins in, so spans that cover a file hold every row once; any of them is read without
the rest.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from anyorder.cluster.lines import folded, read_fasta, read_lines
from anyorder.cluster.places import Input, opened
from anyorder.cluster.rows import Content, Span, to_bytes
from anyorder.cluster.tables import (
    csv_bytes,
    csv_spans,
    parquet_bytes,
    parquet_size,
    read_csv,
    read_parquet,
    row_spans,
)
from anyorder.data.lines import readable
from anyorder.errors import UsageError

SUFFIXES = {
    "jsonl": ("jsonl", "ndjson", "json"), "csv": ("csv", "tsv"), "fasta": ("fasta", "fa", "faa", "fna"),
    "parquet": ("parquet", "pq"),
}  # fmt: skip
ENDINGS = {"text": "txt", "jsonl": "jsonl", "csv": "csv", "fasta": "fasta", "parquet": "parquet"}


def kind_of(path: str) -> str:
    """The format of a file, by its name; what has no known ending is text."""
    name = path.lower().removesuffix(".gz").rsplit("/", 1)[-1]
    ending = name.rsplit(".", 1)[-1] if "." in name else ""
    return next((kind for kind, endings in SUFFIXES.items() if ending in endings), "text")


def one_kind(inputs: list[Input]) -> str:
    """The format that all files have."""
    kinds = {kind_of(file.path): file.path for file in inputs}
    if len(kinds) > 1:
        found = ", ".join(f"{kind} ({path})" for kind, path in kinds.items())
        raise UsageError(f"the inputs are of several formats: {found}; take one at a time, with a glob")
    return next(iter(kinds))


def size_of(file: Input) -> int:
    """Bytes of text that a file holds, which is what shards are cut by: it goes with the number of tokens."""
    if kind_of(file.path) == "parquet":
        return parquet_size(file.path)
    with readable(file.path), opened(file.path) as content:
        if not isinstance(content, gzip.GzipFile):
            return file.size
        return sum(map(len, iter(lambda: content.read(1 << 20), b"")))


def spans(file: Input, size: int, most: int) -> Iterator[Span]:
    """A file of `size` bytes in spans of about `most`."""
    kind = kind_of(file.path)
    if kind == "parquet":
        yield from row_spans(file.path, size, most)
    elif kind == "csv":
        yield from csv_spans(file.path, most)
    else:
        for start in range(0, size, most):
            yield start, min(start + most, size)


def read(path: str, span: Span) -> Content:
    """The rows that begin in a span."""
    kind, content = kind_of(path), Content()
    if kind == "parquet":
        return read_parquet(path, span)
    with opened(path) as file, readable(path):
        if kind == "csv":
            read_csv(path, file, span, content)
        elif kind == "fasta":
            read_fasta(path, file, span, content)
        else:
            read_lines(path, file, span, content, kind)
    return content


def write(kind: str, content: Content, new: dict[str, list[Any]], main: str, path: str) -> bytes:
    """Rows with new columns as the bytes of a file; text and FASTA keep the column `main` alone."""
    texts = ["" if value is None else str(value) for value in new[main]]
    if kind == "text":
        return to_bytes("".join(text.replace("\r", " ").replace("\n", " ") + "\n" for text in texts))
    if kind == "fasta":
        return to_bytes("".join(folded(r.get("id", ""), t) for r, t in zip(content.records, texts, strict=True)))
    if kind == "parquet":
        return parquet_bytes(content.table, new)
    added = [dict(zip(new, values, strict=True)) for values in zip(*new.values(), strict=True)]
    if kind == "csv":
        return csv_bytes([{**record, **more} for record, more in zip(content.records, added, strict=True)], path)
    said = (content.said.get(i) or json.dumps(r, ensure_ascii=False) for i, r in enumerate(content.records))
    return to_bytes("".join(_and(line, more) + "\n" for line, more in zip(said, added, strict=True)))


def _and(line: str, more: dict[str, Any]) -> str:
    """A JSON object with further fields; those that it has stay as they are written, to the digit."""
    begun = line[:-1].rstrip()
    return begun + ("" if begun == "{" else ", ") + json.dumps(more, ensure_ascii=False)[1:]
