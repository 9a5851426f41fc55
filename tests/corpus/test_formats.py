"""Files in spans: however a file is cut, every row is in one span, once, in order."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from anyorder.corpus import formats, places
from anyorder.corpus.work import cut
from anyorder.data.lines import LONGEST
from anyorder.errors import DataError, UsageError

TEXTS = ["Ein Hund.", "", "Zwei „Kinder“ spielen,\tsagt er.", "a" * 40, "Ende", " x "]
ROWS = [{"text": text, "n": str(i)} for i, text in enumerate(TEXTS * 3)]


def write_file(path: Path, kind: str) -> Path:
    if kind == "text":
        path.write_text("".join(row["text"] + "\n" for row in ROWS), encoding="utf-8")
    elif kind == "jsonl":
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS), encoding="utf-8")
    elif kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["text", "n"])
            writer.writeheader()
            writer.writerows([{**row, "text": row["text"] + '\n"quoted",\n'} for row in ROWS])
    elif kind == "fasta":
        path.write_text("".join(f">id {row['n']}\nMKT\nVV{row['n']}\n\n" for row in ROWS))
    else:
        pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, of the extra [cluster]")
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=5)
    return path


def expected(kind: str) -> list[dict[str, Any]]:
    if kind == "text":
        return [{"text": row["text"]} for row in ROWS]
    if kind == "csv":
        return [{**row, "text": row["text"] + '\n"quoted",\n'} for row in ROWS]
    if kind == "fasta":
        return [{"id": f"id {row['n']}", "sequence": f"MKTVV{row['n']}"} for row in ROWS]
    return ROWS


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["text", "jsonl", "csv", "fasta", "parquet"])
def test_every_row_once_however_it_is_cut(tmp_path: Path, kind: str, packed: bool) -> None:
    path = write_file(tmp_path / f"x.{formats.ENDINGS[kind]}", kind)
    if packed:
        if kind == "parquet":
            pytest.skip("Parquet packs its columns itself")
        path = tmp_path / f"{path.name}.gz"
        path.write_bytes(gzip.compress((tmp_path / path.name.removesuffix(".gz")).read_bytes()))
    counts = set()
    for size in (1, 2, 3, 7, 30, 64, 1000, 1 << 20):
        shards = cut([places.look(str(path))], size)
        counts.add(len(shards))
        content = [formats.read(shard.file.path, shard.span) for shard in shards]
        assert [row for c in content for row in c.records] == expected(kind)
        assert not any(c.problems for c in content) and [s.number for s in shards] == list(range(len(shards)))
    assert min(counts) == 1 and max(counts) >= len(ROWS)


def test_rows_that_can_not_be_read_have_a_problem_and_the_others_none(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text": "a"}\n{"text":\n[1]\n\xff\n{"text": "b"}\n' + b"x" * (LONGEST + 9) + b"\n{}\n")
    (shard,) = cut([places.look(str(path))], 1 << 30)
    content = formats.read(str(path), shard.span)
    assert content.records == [{"text": "a"}, {}, {}, {}, {"text": "b"}, {}, {}]
    said = ["not JSON", "not a JSON object", "not UTF-8", "more than"]
    assert list(content.problems) == [1, 2, 3, 5]
    assert all(word in problem for word, problem in zip(said, content.problems.values(), strict=True))
    short = tmp_path / "x.csv"
    short.write_text("a,b\n1,2\n3\n")
    (shard,) = cut([places.look(str(short))], 1 << 30)
    assert list(formats.read(str(short), shard.span).problems) == [1]
    bad = tmp_path / "x.fasta"
    bad.write_text("MKT\n")
    with pytest.raises(DataError, match="not FASTA"):
        formats.read(str(bad), (0, 4))


def test_tables_that_are_not_utf8(tmp_path: Path) -> None:
    """A field that is no text is left empty, with the reason; fields that are stay."""
    table = tmp_path / "x.csv"
    table.write_bytes(b"id,text,note\n1,Stra\xdfe,a\n2,gut,sch\xf6n\n3,gut,sch\xc3\xb6n\n")
    (shard,) = cut([places.look(str(table))], 1 << 30)
    content = formats.read(str(table), shard.span)
    assert [list(record.values()) for record in content.records] == [
        ["1", "", "a"],
        ["2", "gut", ""],
        ["3", "gut", "schön"],
    ]
    assert list(content.problems) == [0, 1] and "'text' is not UTF-8" in content.problems[0]
    table.write_bytes(b"id,Stra\xdfe\n1,a\n")
    with pytest.raises(DataError, match="names of the columns are not UTF-8"):
        cut([places.look(str(table))], 1 << 30)
    fasta = tmp_path / "x.fasta"
    fasta.write_bytes(b">a\nMK\n>b\nM\xdf\nK\n>Stra\xdfe\nMK\n>d\nMK\n")
    (shard,) = cut([places.look(str(fasta))], 1 << 30)
    content = formats.read(str(fasta), shard.span)
    assert list(content.problems) == [1, 2] and len(content.records) == 4
    written = formats.write("fasta", content, {"new": ["x", "", "", "y"]}, "new", str(fasta))
    assert b"\\x" not in written and written.startswith(b">a\nx\n>b\n>")


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    table = tmp_path / "x.csv"
    table.write_text("text,id,text\na,1,b\n")
    with pytest.raises(DataError, match="'text' is there twice"):
        cut([places.look(str(table))], 1 << 30)


def test_lines_of_json_are_kept_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = [
        '{"text": "a", "n": 1e400, "m": 12345678901234567890.123}',
        '{ "text":"\\ud83d" , "e":1E5 }',
        "{}",
        '{"text":',
    ]
    path.write_text("\n".join(lines))
    (shard,) = cut([places.look(str(path))], 1 << 30)
    content = formats.read(str(path), shard.span)
    new = {"translation": ["x", "y", "", ""], "error": ["", "", "", "not JSON"]}
    written = formats.write("jsonl", content, new, "translation", str(path)).decode().splitlines()
    assert written == [
        lines[0][:-1] + ', "translation": "x", "error": ""}',
        '{ "text":"\\ud83d" , "e":1E5, "translation": "y", "error": ""}',
        '{"translation": "", "error": ""}',
        '{"translation": "", "error": "not JSON"}',
    ]


def test_files_are_found_in_order_and_of_one_format(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c/d.txt", ".hidden.txt", "_done/x.txt", "z.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    names = [Path(file.path).name for file in places.find(str(tmp_path))]
    assert names == ["a.txt", "b.txt", "d.txt", "z.jsonl"]
    assert [Path(f.path).name for f in places.find(str(tmp_path / "*.txt"))] == ["a.txt", "b.txt"]
    with pytest.raises(UsageError, match="several formats"):
        formats.one_kind(places.find(str(tmp_path)))
    with pytest.raises(DataError, match="does not exist"):
        places.find(str(tmp_path / "nothing"))
    with pytest.raises(DataError, match="no file"):
        places.find(str(tmp_path / "*.nothing"))
