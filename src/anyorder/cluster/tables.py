"""Rows of tables: CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import IO, Any

from anyorder.cluster.places import file_system, opened
from anyorder.cluster.rows import Content, Span, to_bytes
from anyorder.data.lines import CONVERT, LONGEST, readable
from anyorder.errors import DataError, extra


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
