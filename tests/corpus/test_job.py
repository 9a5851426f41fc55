"""A whole job: what comes out, that it goes on where it stopped, and that nothing is lost or mixed."""

from __future__ import annotations

import csv
import gzip
import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corpus_support import parts

from anyorder import load
from anyorder import machine as freed
from anyorder.corpus import task as tasks
from anyorder.corpus.job import Job, Outcome
from anyorder.corpus.task import Task
from anyorder.errors import AnyorderError, UsageError
from anyorder.files import ASIDE, FileError
from anyorder.pool import HERE, Processes

Do = Callable[..., Outcome]
LINES = [f"Ein Hund läuft am Strand {i}." if i % 7 else "" for i in range(60)]
FAST = {"steps": 2, "lengths": 1}
TRANSLATE = Task("translate", "tiny", "en", options=FAST)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.de"
    path.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return path


def test_lines_come_out_in_order_as_translate_gives_them(do: Do, models: Path, source: Path, tmp_path: Path) -> None:
    outcome = do(TRANSLATE, source, tmp_path / "out", size=200)
    wanted = load(models / "tiny", kind="translation").translate(LINES, "en", **FAST)
    assert parts(tmp_path / "out").decode().splitlines() == [" ".join(t.text.splitlines()) for t in wanted]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert outcome.rows == manifest["rows"] == len(LINES) and not outcome.failed and manifest["passes"] > 0
    assert [part["file"] for part in manifest["parts"]] == sorted(p.name for p in (tmp_path / "out").glob("part-*"))
    assert len(manifest["parts"]) > 5


def test_how_it_is_cut_does_not_matter(do: Do, source: Path, tmp_path: Path) -> None:
    packed = tmp_path / "in.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    for place, size, out in ((source, 40, "a"), (source, None, "b"), (packed, 300, "c")):
        do(TRANSLATE, place, tmp_path / out, size=size)
    assert parts(tmp_path / "a") == parts(tmp_path / "b") == parts(tmp_path / "c")


def test_columns_are_kept_and_errors_are_in_one(do: Do, tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "Ein Hund."}, {"id": 2, "text": None}, {"id": 3, "text": "xyz " * 100}, {"id": 4}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "no json\n")
    outcome = do(TRANSLATE, tmp_path / "x.jsonl", tmp_path / "out")
    found = [json.loads(line) for line in parts(tmp_path / "out").decode().splitlines()]
    assert [row.get("id") for row in found] == [1, 2, 3, 4, None] and outcome.bad_rows == 4
    assert found[0]["translation"] and not found[0]["error"] and isinstance(found[0]["translation_score"], float)
    said = ["holds no text", "split the sentence", "holds no text", "not JSON"]
    assert all(word in row["error"] for word, row in zip(said, found[1:], strict=True))
    assert all(row["translation"] == "" and row["translation_score"] is None for row in found[1:])


def test_csv_parquet_and_several_texts_a_row(do: Do, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('id,text\n1,"Ein\nHund."\n2,Zwei Kinder.\n')
    do(TRANSLATE, tmp_path / "x.csv", tmp_path / "a")
    (part,) = (tmp_path / "a").glob("part-*.csv")
    rows = list(csv.DictReader(part.open(newline="")))
    assert [row["text"] for row in rows] == ["Ein\nHund.", "Zwei Kinder."] and all(row["translation"] for row in rows)
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, of the extra [cluster]")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["Ein Hund.", ""], "n": pa.array([1, 2], pa.int8())}), tmp_path / "x.parquet")
    do(replace(TRANSLATE, n=2, options={"lengths": 2}), tmp_path / "x.parquet", tmp_path / "b")
    (part,) = (tmp_path / "b").glob("part-*.parquet")
    table = pq.read_table(part)
    assert table.schema.field("n").type == pa.int8() and table["error"].to_pylist() == ["", ""]
    assert [len(some) for some in table["translation"].to_pylist()] == [2, 0]
    with pytest.raises(UsageError, match="--format jsonl"):
        do(replace(TRANSLATE, n=2), tmp_path / "x.csv", tmp_path / "c")


MASKED = [
    (Task("fill", "bert"), "the [MASK] sat", "no mask here"),
    (Task("infill", "bert", length=(1, 2)), "the {} sat", "no gap here"),
    (Task("generate", "bert", length=(3,)), "the cat", None),
    (Task("score", "bert"), "the cat sat", None),
    (Task("score", "tiny", "en"), "Ein Hund.\tA dog.", "no tab here"),
]


@pytest.mark.parametrize(("task", "good", "bad"), MASKED, ids=[t.name + (t.to or "") for t, _, _ in MASKED])
def test_every_task(do: Do, tmp_path: Path, task: Task, good: str, bad: str | None) -> None:
    (tmp_path / "x.txt").write_text("\n".join([good, bad or good, good]) + "\n")
    outcome = do(task, tmp_path / "x.txt", tmp_path / "out")
    lines = parts(tmp_path / "out").decode().split("\n")
    assert len(lines) == 4 and lines[0] and lines[0] == lines[2] and outcome.bad_rows == (bad is not None)
    assert (lines[1] == "") == (bad is not None)
    do(task, tmp_path / "x.txt", tmp_path / "json", kind="jsonl")
    first = json.loads(parts(tmp_path / "json").decode().splitlines()[0])
    assert str(first[task.into]) == lines[0] and list(first) == ["text", *task.columns]


def test_proteins(do: Do, tmp_path: Path) -> None:
    (tmp_path / "x.fasta").write_text(">one\nthe cat\n[MASK] on\n>two\nthe dog\n")
    outcome = do(Task("fill", "bert", column="sequence"), tmp_path / "x.fasta", tmp_path / "out")
    assert outcome.bad_rows == 1 and parts(tmp_path / "out").decode().startswith(">one\nthecat")
    assert parts(tmp_path / "out").decode().endswith(">two\n")
    do(Task("score", "bert", column="sequence"), tmp_path / "x.fasta", tmp_path / "scores")
    assert json.loads(parts(tmp_path / "scores").decode().splitlines()[1])["score"] < 0


def test_other_file_systems(do: Do, source: Path, tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/corpus/in.de", source.read_bytes())
    outcome = do(TRANSLATE, "memory://corpus/*.de", "memory://out", size=300)
    do(TRANSLATE, source, tmp_path / "out", size=300)
    found = b"".join(memory.cat_file(name) for name in sorted(memory.glob("/out/part-*")))
    assert found == parts(tmp_path / "out") and outcome.rows == len(LINES)
    assert do(TRANSLATE, "memory://corpus/*.de", "memory://out", size=300).kept == len(outcome.reports)


def test_finished_shards_are_not_repeated_and_the_rest_is_the_same(do: Do, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    do(TRANSLATE, source, out, size=200)
    whole, manifest = parts(out), (out / "manifest.json").read_bytes()
    (out / "_done" / "000001.json").unlink()  # as if it had been stopped after the part, before its record
    (out / "part-000003.txt").unlink()
    (out / "_done" / "000004.json").write_text('{"rows"')
    (out / f"{ASIDE}0123").write_text("begun")
    times = {p.name: p.stat().st_mtime_ns for p in out.glob("part-*")}
    outcome = do(TRANSLATE, source, out, size=200)
    assert parts(out) == whole and (out / "manifest.json").read_bytes() == manifest
    again = {p.name for p in out.glob("part-*") if p.stat().st_mtime_ns != times.get(p.name)}
    assert again == {"part-000001.txt", "part-000003.txt", "part-000004.txt"}
    assert outcome.kept == len(outcome.reports) - 3 and not (out / f"{ASIDE}0123").exists()


def test_jobs_are_not_mixed(do: Do, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    do(TRANSLATE, source, out, size=200)
    whole = parts(out)
    for task, size in ((replace(TRANSLATE, options={"steps": 3}), 200), (TRANSLATE, 300)):
        with pytest.raises(FileError, match="of another run"):
            do(task, source, out, size=size)
    with pytest.raises(FileError, match="steps was 2, is 3"):
        do(replace(TRANSLATE, options={**FAST, "steps": 3}), source, out, size=200)
    changed = out / "part-000002.txt"
    kept = changed.read_bytes()
    changed.write_text("mine\n")
    with pytest.raises(FileError, match="was changed after it was written"):
        do(TRANSLATE, source, out, size=200)
    assert changed.read_text() == "mine\n"
    changed.write_bytes(kept)
    source.write_text(source.read_text().replace("Hund", "Kind"))
    with pytest.raises(FileError, match="inputs: not the same as before"):
        do(TRANSLATE, source, out, size=200)
    assert parts(out) == whole


def test_an_output_is_no_input(do: Do, source: Path, tmp_path: Path) -> None:
    before = source.read_bytes()
    (tmp_path / "link").symlink_to(tmp_path)
    for place, output in ((source, tmp_path), (tmp_path, tmp_path / "out"), (source, tmp_path / "link")):
        with pytest.raises(FileError, match="another folder"):
            do(TRANSLATE, place, output)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(FileError, match="not empty"):
        do(TRANSLATE, source, tmp_path / "mine")
    assert source.read_bytes() == before and [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_one_job_at_a_time(do: Do, models: Path, source: Path, tmp_path: Path) -> None:
    refused: list[str] = []

    def second(shard: Any, report: Any) -> None:
        with pytest.raises(FileError, match="being written by another process") as error:
            do(TRANSLATE, source, tmp_path / "out")
        refused.append(str(error.value))

    Job(replace(TRANSLATE, model=str(models / "tiny")), str(source), str(tmp_path / "out")).run(HERE, second)
    assert refused


@pytest.mark.parametrize(
    ("task", "place", "word"),
    [
        (replace(TRANSLATE, to="fr"), "in.de", "does not know the language 'fr'"),
        (replace(TRANSLATE, column="nothing"), "in.de", "no column 'nothing'"),
        (replace(TRANSLATE, into="n"), "in.csv", "a column 'n' already"),
        (replace(TRANSLATE, model="nowhere/at/all"), "in.de", "no model"),
        (TRANSLATE, "missing.de", "does not exist"),
        (replace(TRANSLATE, options={"order": "sideways"}), "in.de", "sideways"),
        (Task("score", "bert", options={"beam": 2}), "in.de", "no effect"),
        (Task("fill", "bert", options={"polish": 1, "rescore": "pll"}), "in.de", "no use for rescore"),
    ],
)
def test_mistakes_are_told(do: Do, source: Path, tmp_path: Path, task: Task, place: str, word: str) -> None:
    (tmp_path / "in.csv").write_text("text,n\nx,1\n")
    with pytest.raises(AnyorderError, match=word.replace("(", r"\(")):
        do(task, tmp_path / place, tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("part-*"))


def test_a_process_that_is_killed_is_replaced(do: Do, models: Path, source: Path, tmp_path: Path) -> None:
    """Real processes; the first to finish a shard is killed with -9 while it does the next."""
    do(TRANSLATE, source, tmp_path / "one", size=100)
    killed: list[int] = []

    def kill(shard: Any, report: Any) -> None:
        if not killed:
            victim = multiprocessing.active_children()[0]
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    task = replace(TRANSLATE, model=str(models / "tiny"))
    outcome = Job(task, str(source), str(tmp_path / "two"), size=100).run(Processes(2), kill)
    assert killed and not outcome.failed and parts(tmp_path / "one") == parts(tmp_path / "two")
    one, two = ((tmp_path / name / "manifest.json").read_bytes() for name in ("one", "two"))
    assert one == two
    assert not multiprocessing.active_children()  # none is left behind


def test_a_row_that_would_be_too_much_is_left_empty(do: Do, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    rows = ["Ein Hund.", "Ein Hund läuft am Strand " * 2, "Zwei."]
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in rows))
    task = replace(TRANSLATE, options={"order": "easy-first", "lengths": 1, "most_passes": 30})
    outcome = do(task, source, tmp_path / "out")
    found = [json.loads(line) for line in parts(tmp_path / "out").splitlines()]
    assert outcome.bad_rows == 1 and [bool(row["error"]) for row in found] == [False, True, False]
    assert "at most 30 are allowed" in found[1]["error"] and found[2]["translation"]


def test_a_worker_gives_freed_memory_back_now_and_then(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(freed, "_trim", lambda: given.append)
    monkeypatch.setattr(tasks, "CHUNK", 20)  # a line at a time
    opened = replace(TRANSLATE, model=str(models / "tiny")).open()
    opened({"text": LINES[1:4]})
    assert not given  # too early
    monkeypatch.setattr(freed, "EVERY", 0.0)
    opened({"text": LINES[1:4]})
    assert len(given) == 3
