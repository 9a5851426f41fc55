"""Rows in files: plain text, JSON lines, CSV, FASTA and Parquet; any part of a file can be read without the rest.

A part of a file is a span: of bytes (unpacked, where the file is gzip), and of rows for Parquet. A row belongs to the
span that it begins in, so spans that cover a file hold every row once.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from anyorder.cluster.places import Input, file_system, reading
from anyorder.errors import DataError, UsageError, extra

SUFFIXES = {
    "jsonl": ("jsonl", "ndjson", "json"), "csv": ("csv", "tsv"), "fasta": ("fasta", "fa", "faa", "fna"),
    "parquet": ("parquet", "pq"),
}  # fmt: skip
ENDINGS = {"text": "txt", "jsonl": "jsonl", "csv": "csv", "fasta": "fasta", "parquet": "parquet"}
LONGEST = 1 << 20  # bytes of a line
FOLD = 60  # letters of a line of FASTA
Span = tuple[int, int]


@dataclass
class Content:
    """The rows of a span; a row that can not be read has a problem instead."""

    records: list[dict[str, Any]] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)  # row → what is wrong with it
    table: Any = None  # Parquet's own, which keeps the types of columns

    def add(self, record: dict[str, Any], problem: str | None = None) -> None:
        """Append a record, and what is wrong with it, if anything is."""
        if problem is not None:
            self.problems[len(self.records)] = problem
        self.records.append(record)


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
        with _parquet(file.path) as content:
            return sum(content.metadata.row_group(i).total_byte_size for i in range(content.num_row_groups))
    if not _packed(file.path):
        return file.size
    total = 0
    with _open(file.path) as content, reading(file.path):
        while chunk := content.read(1 << 20):
            total += len(chunk)
    return total


def spans(file: Input, size: int, most: int) -> Iterator[Span]:
    """A file of `size` bytes in spans of about `most`."""
    kind = kind_of(file.path)
    if kind == "parquet":
        yield from _row_spans(file.path, size, most)
    elif kind == "csv":
        yield from _csv_spans(file.path, most)
    else:
        for start in range(0, size, most):
            yield start, min(start + most, size)


def read(path: str, span: Span) -> Content:
    """The rows that begin in a span."""
    kind, content = kind_of(path), Content()
    if kind == "parquet":
        return _read_parquet(path, span)
    with _open(path) as file, reading(path):
        if kind == "csv":
            _read_csv(path, file, span, content)
        elif kind == "fasta":
            _read_fasta(path, file, span, content)
        else:
            _read_lines(path, file, span, content, kind)
    return content


def write(kind: str, content: Content, new: dict[str, list[Any]], main: str, path: str) -> bytes:
    """Rows with new columns as the bytes of a file; text and FASTA keep the column `main` alone."""
    texts = ["" if value is None else str(value) for value in new[main]]
    if kind == "text":
        return _bytes("".join(text.replace("\r", " ").replace("\n", " ") + "\n" for text in texts))
    if kind == "fasta":
        return _bytes("".join(_folded(r.get("id", ""), t) for r, t in zip(content.records, texts, strict=True)))
    rows = [
        {**record, **dict(zip(new, values, strict=True))}
        for record, values in zip(content.records, zip(*new.values(), strict=True), strict=True)
    ]
    if kind == "jsonl":
        return _bytes("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    if kind == "csv":
        names = list(dict.fromkeys(name for row in rows for name in row))
        out = io.StringIO()
        writer = csv.DictWriter(out, names, delimiter=_delimiter(path), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return _bytes(out.getvalue())
    return _parquet_bytes(content.table, new)


# ---------------------------------------------------------------- lines


def _read_lines(path: str, file: IO[bytes], span: Span, content: Content, kind: str) -> None:
    for at, line in _lines(file, span):
        where = f"{path}, byte {at:,}"
        if len(line) > LONGEST:
            content.add({}, f"{where}: a line of more than {LONGEST:,} bytes; is this text?")
            continue
        try:
            text = line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            content.add({}, f"{where}: byte {error.start + 1} of the line is not UTF-8")
            continue
        text = text.removeprefix("\ufeff") if at == 0 else text
        if kind == "text":
            content.add({"text": text})
        elif text.strip():
            try:
                record = json.loads(text)
                problem = None if isinstance(record, dict) else f"{where}: not a JSON object"
            except (ValueError, RecursionError):
                record, problem = {}, f"{where}: not JSON"
            content.add(record if problem is None else {}, problem)


def _lines(file: IO[bytes], span: Span) -> Iterator[tuple[int, bytes]]:
    """(where it begins, a line with its end) of all that begin in a span; one that is too long is cut."""
    at, stop = span
    if at:  # the line that is under way here began before: it ends here, or later
        file.seek(at - 1)
        at += sum(map(len, _rest(file))) - 1
    while at < stop and (line := file.readline(LONGEST + 1)):
        yield at, line
        at += len(line)
        if len(line) > LONGEST and not line.endswith(b"\n"):
            at += sum(map(len, _rest(file)))


def _rest(file: IO[bytes]) -> Iterator[bytes]:
    """What is left of a line, in pieces."""
    while piece := file.readline(1 << 16):
        yield piece
        if piece.endswith(b"\n"):
            return


# ---------------------------------------------------------------- FASTA


def _read_fasta(path: str, file: IO[bytes], span: Span, content: Content) -> None:
    """Records whose > is in the span; a record may go on beyond it."""
    lines: list[str] | None = None
    for at, raw in _lines(file, (span[0], 1 << 62)):
        line = raw.decode("utf-8", "backslashreplace").strip()
        if line.startswith(">"):
            if at >= span[1]:
                break
            lines = []
            content.add({"id": line[1:].strip(), "sequence": lines})
        elif len(raw) > LONGEST and content.records:
            content.problems[len(content.records) - 1] = f"{path}, byte {at:,}: a line of more than {LONGEST:,} bytes"
        elif lines is not None:
            lines.append(line)
        elif line and span[0] == 0:
            raise DataError(f"{path} is not FASTA: it does not begin with >")
        elif at >= span[1]:
            break
    for record in content.records:
        record["sequence"] = "".join(record["sequence"])


def _folded(name: str, text: str) -> str:
    letters = "".join(text.split())
    return f">{name}\n" + "".join(letters[i : i + FOLD] + "\n" for i in range(0, len(letters), FOLD))


# ---------------------------------------------------------------- CSV


def _csv_spans(path: str, most: int) -> Iterator[Span]:
    """Spans that begin where rows do: a line end within quotes is none."""
    start, at, quoted = -1, 0, False
    with _open(path) as file, reading(path):
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


def _read_csv(path: str, file: IO[bytes], span: Span, content: Content) -> None:
    def rows(data: IO[bytes]) -> Any:
        text = io.TextIOWrapper(data, "utf-8-sig", errors="backslashreplace", newline="")
        return csv.reader(text, delimiter=_delimiter(path))

    csv.field_size_limit(LONGEST)
    header = next(rows(io.BytesIO(_header(file))))
    file.seek(span[0])
    for number, row in enumerate(rows(io.BytesIO(file.read(span[1] - span[0]))), 1):
        if not row:
            continue
        problem = f"{path}, row {number} after byte {span[0]:,}: {len(row)} fields, the header has {len(header)}"
        fits = len(row) == len(header)
        content.add(dict(zip(header, row if fits else [""] * len(header), strict=True)), None if fits else problem)


def _header(file: IO[bytes]) -> bytes:
    """The first row, which may be several lines."""
    out = b""
    while (line := file.readline()) and (out := out + line).count(b'"') % 2:
        pass
    return out


def _delimiter(path: str) -> str:
    return "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","


# ---------------------------------------------------------------- Parquet


def _parquet(path: str) -> Any:
    with extra("cluster"):
        import pyarrow.parquet as pq
    fs, name = file_system(path)
    try:
        return pq.ParquetFile(name, filesystem=fs)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} can not be read as Parquet: {str(error).splitlines()[0]}") from None


def _row_spans(path: str, size: int, most: int) -> Iterator[Span]:
    with _parquet(path) as file:
        rows = file.metadata.num_rows
    step = max(1, rows * most // max(1, size))
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


def _read_parquet(path: str, span: Span) -> Content:
    import pyarrow as pa

    parts, first = [], 0
    with _parquet(path) as file:
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if first < span[1] and first + count > span[0]:
                table = file.read_row_group(group)
                low, high = max(span[0] - first, 0), min(span[1] - first, count)
                parts.append(table.slice(low, high - low))
            first += count
        table = pa.concat_tables(parts) if parts else file.schema_arrow.empty_table()
    return Content(table.to_pylist(), table=table)


def _parquet_bytes(table: Any, new: dict[str, list[Any]]) -> bytes:
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


# ---------------------------------------------------------------- bytes


def _packed(path: str) -> bool:
    fs, name = file_system(path)
    with reading(path), fs.open(name, "rb") as file:
        return bool(file.read(2) == b"\x1f\x8b")


def _open(path: str) -> IO[bytes]:
    """The bytes of a file, unpacked; gzip is known by its content."""
    fs, name = file_system(path)
    packed = _packed(path)
    file = fs.open(name, "rb")
    return gzip.open(file) if packed else file  # type: ignore[return-value]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
