"""Rows of tables: CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import IO, Any

from anyorder.cluster.places import file_system, opened, reading
from anyorder.cluster.rows import LONGEST, Content, Span, to_bytes
from anyorder.errors import DataError, extra


def csv_spans(path: str, most: int) -> Iterator[Span]:
    """Spans that begin where rows do: a line end within quotes is none."""
    start, at, quoted = -1, 0, False
    with opened(path) as file, reading(path):
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
