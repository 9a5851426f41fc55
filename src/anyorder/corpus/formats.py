"""Rows in files of every format: which it is, how it is cut into spans, read and written.

A row belongs to the span that it begins in, so spans that cover a file hold every row once; any of them is read without
the rest.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from anyorder.corpus.places import Input, file_system, opened
from anyorder.data.lines import CONVERT, LONGEST, lines, raw_lines, readable, text_of
from anyorder.errors import DataError, UsageError, extra

SUFFIXES = {
    "jsonl": ("jsonl", "ndjson", "json"), "csv": ("csv", "tsv"), "fasta": ("fasta", "fa", "faa", "fna"),
    "parquet": ("parquet", "pq"),
}  # fmt: skip
ENDINGS = {"text": "txt", "jsonl": "jsonl", "csv": "csv", "fasta": "fasta", "parquet": "parquet"}


def kind_of(path: str) -> str:
    """The format of a file, by its name; without a known ending it is text."""
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
    """Bytes of text in a file. Shards are cut by it, since it goes with the number of tokens."""
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
    """A JSON object with further fields; its own fields stay as they are written, to the digit."""
    begun = line[:-1].rstrip()
    return begun + ("" if begun == "{" else ", ") + json.dumps(more, ensure_ascii=False)[1:]


Span = tuple[int, int]  # part of a file: bytes (unpacked, where it is gzip), or rows of Parquet


@dataclass
class Content:
    """The rows of a span; a row that can not be read has a problem instead."""

    records: list[dict[str, Any]] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)  # row → the problem
    table: Any = None  # Parquet's own, which keeps the types of columns
    said: dict[int, str] = field(default_factory=dict)  # row → its line of JSON, which keeps every digit

    def add(self, record: dict[str, Any], problem: str = "") -> None:
        """Append a record, and its problem, if there is one."""
        if problem:
            self.problems[len(self.records)] = problem
        self.records.append(record)


def to_bytes(text: str) -> bytes:
    """Text as UTF-8; halves of characters, which UTF-8 can not say, are spelled out."""
    return text.encode("utf-8", "backslashreplace")


FOLD = 60  # letters of a line of FASTA


def read_lines(path: str, file: IO[bytes], span: Span, content: Content, kind: str) -> None:
    """Lines of text, or of JSON, that begin in a span."""
    for at, text, problem in lines(file, span):
        where = f"{path}, byte {at:,}"
        if problem:
            content.add({}, f"{where}: {problem}")
            continue
        if kind == "text":
            content.add({"text": text})
        elif text.strip():
            try:
                record = json.loads(text)
                problem = "" if isinstance(record, dict) else f"{where}: not a JSON object"
            except (ValueError, RecursionError):
                record, problem = {}, f"{where}: not JSON"
            if not problem:
                content.said[len(content.records)] = text.strip()
            content.add({} if problem else record, problem)


def read_fasta(path: str, file: IO[bytes], span: Span, content: Content) -> None:
    """Records whose > is in the span; a record may go on beyond it."""
    letters: list[str] | None = None
    for at, raw in raw_lines(file, (span[0], 1 << 62)):
        problem = text_of(at, raw).problem
        line = raw.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if line.startswith(">"):
            if at >= span[1]:
                break
            letters = []
            content.add({"id": line[1:].strip(), "sequence": letters}, problem and f"{path}, byte {at:,}: {problem}")
        elif problem and content.records:
            content.problems.setdefault(len(content.records) - 1, f"{path}, byte {at:,}: {problem}")
        elif letters is not None:
            letters.append(line)
        elif line and span[0] == 0:
            raise DataError(f"{path} is not FASTA: it does not begin with >")
        elif at >= span[1]:
            break
    for record in content.records:
        record["sequence"] = "".join(record["sequence"])


def folded(name: str, text: str) -> str:
    """A record of FASTA."""
    letters = "".join(text.split())
    return f">{name}\n" + "".join(letters[i : i + FOLD] + "\n" for i in range(0, len(letters), FOLD))


def csv_spans(path: str, most: int) -> Iterator[Span]:
    """Spans that begin where rows do: a line end within quotes is none."""
    start, at, quoted = -1, 0, False
    with opened(path) as file, readable(path):
        _columns(path, file)
        file.seek(0)
        while line := file.readline():
            if not quoted:
                if start < 0 and at > 0:
                    start = at  # after the header
                elif start >= 0 and at - start >= most:
                    yield start, at
                    start = at
            quoted ^= line.count(b'"') % 2 == 1
            at += len(line)
    if 0 <= start < at:
        yield start, at


def read_csv(path: str, file: IO[bytes], span: Span, content: Content) -> None:
    """Rows of a span, which begins where a row does; the header gives their names."""

    header = _columns(path, file)
    file.seek(span[0])
    for number, row in enumerate(_rows(path, file.read(span[1] - span[0])), 1):
        if not row:
            continue
        where, problem = f"{path}, row {number} after byte {span[0]:,}", ""
        bad = [i for i, value in enumerate(row) if not _is_text(value)]
        if len(row) != len(header):
            row, problem = [""] * len(header), f"{where}: {len(row)} fields, the header has {len(header)}"
        elif bad:
            row = ["" if i in bad else value for i, value in enumerate(row)]
            problem = f"{where}: the column {header[bad[0]]!r} is not UTF-8 ({CONVERT})"
        content.add(dict(zip(header, row, strict=True)), problem)


def _columns(path: str, file: IO[bytes]) -> list[str]:
    """The names of the columns, each of which must be one."""
    names = next(_rows(path, _header(file)), [])
    if not all(map(_is_text, names)):
        raise DataError(f"{path}: the names of the columns are not UTF-8 ({CONVERT})")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: the column {twice!r} is there twice: give each a name of its own")
    return names


def _rows(path: str, data: bytes) -> Iterator[list[str]]:
    """Rows of CSV; bytes that are not UTF-8 are halves of characters in them."""
    csv.field_size_limit(LONGEST)
    text = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", errors="surrogateescape", newline="")
    try:
        yield from csv.reader(text, delimiter=_delimiter(path))
    except csv.Error as error:
        raise DataError(f"{path} can not be read as CSV: {error}") from None


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def csv_bytes(rows: list[dict[str, Any]], path: str) -> bytes:
    """Rows with a header, separated as the file at `path` is."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, delimiter=_delimiter(path), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return to_bytes(out.getvalue())


def _header(file: IO[bytes]) -> bytes:
    """The first row, which may be several lines."""
    out = b""
    while (line := file.readline()) and (out := out + line).count(b'"') % 2:
        pass
    return out


def _delimiter(path: str) -> str:
    return "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","


def parquet(path: str) -> Any:
    """A file of Parquet, open."""
    with extra("cluster"):
        import pyarrow.parquet as pq
    fs, name = file_system(path)
    try:
        return pq.ParquetFile(name, filesystem=fs)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} can not be read as Parquet: {str(error).splitlines()[0]}") from None


def parquet_size(path: str) -> int:
    """Bytes of its columns, unpacked."""
    with parquet(path) as content:
        return sum(content.metadata.row_group(i).total_byte_size for i in range(content.num_row_groups))


def row_spans(path: str, size: int, most: int) -> Iterator[Span]:
    """Rows in spans of about `most` bytes of text."""
    with parquet(path) as file:
        rows = file.metadata.num_rows
    step = max(1, rows * most // max(1, size))
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


def read_parquet(path: str, span: Span) -> Content:
    """The rows of a span, and the table that they are."""
    import pyarrow as pa

    parts, first = [], 0
    with parquet(path) as file:
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if first < span[1] and first + count > span[0]:
                table = file.read_row_group(group)
                low, high = max(span[0] - first, 0), min(span[1] - first, count)
                parts.append(table.slice(low, high - low))
            first += count
        table = pa.concat_tables(parts) if parts else file.schema_arrow.empty_table()
    return Content(table.to_pylist(), table=table)


def parquet_bytes(table: Any, new: dict[str, list[Any]]) -> bytes:
    """A table with new columns as a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, values in new.items():
        text, number = pa.string(), pa.float64()
        many = any(isinstance(value, list) for value in values)
        plain = number if name.endswith("score") else text
        table = table.append_column(name, pa.array(values, pa.list_(plain) if many else plain))
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()
