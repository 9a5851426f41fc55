"""Reading text: every kind of file, and every way in which a line can be bad."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from anyorder.data.fetch import fetch, multi30k, split_tatoeba
from anyorder.data.read import read_hub, read_parallel, read_texts, read_tsv
from anyorder.errors import DataError, MissingError


def test_parallel_files_plain_and_gzip_give_the_same(tmp_path: Path) -> None:
    (tmp_path / "x.de").write_text("Ein Hund.\r\nEine Katze.\n", encoding="utf-8")
    (tmp_path / "x.en.gz").write_bytes(gzip.compress(b"A dog.\nA cat."))  # no newline at the end
    pairs = read_parallel(tmp_path / "x.de", tmp_path / "x.en.gz")
    assert pairs.first == ["Ein Hund.", "Eine Katze."] and pairs.second == ["A dog.", "A cat."]
    assert pairs.report.kept == 2 and not pairs.report.skipped


def test_bad_lines_are_skipped_counted_and_named(tmp_path: Path) -> None:
    (tmp_path / "x.de").write_bytes(b"gut\n\n" + b"\xff\xfe\n" + b"lang" * 100 + b"\nauch gut\n")
    (tmp_path / "x.en").write_bytes(b"good\nb\nc\nd\nalso good\n")
    pairs = read_parallel(tmp_path / "x.de", tmp_path / "x.en", longest=100)
    assert pairs.first == ["gut", "auch gut"] and pairs.second == ["good", "also good"]
    assert pairs.report.skipped == {"empty": 1, "not UTF-8": 1, "longer than 100 characters": 1}
    assert "1 not UTF-8 (first: line 3)" in str(pairs.report) and "2 kept" in str(pairs.report)


def test_misaligned_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.de").write_text("eins\nzwei\ndrei\n")
    (tmp_path / "x.en").write_text("one\ntwo\n")
    with pytest.raises(DataError, match=r"x\.en ends after 2 lines"):
        read_parallel(tmp_path / "x.de", tmp_path / "x.en")


def test_tsv_with_wrong_field_counts(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("eins\tone\nzwei\ndrei\tthree\tx\nvier\tfour\n")
    pairs = read_tsv(tmp_path / "x.tsv")
    assert pairs.first == ["eins", "vier"]
    assert (
        pairs.report.skipped == {"wrong number of fields": 2} and pairs.report.examples["wrong number of fields"] == 2
    )


def test_single_texts(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("eins\n\nzwei")
    texts = read_texts(tmp_path / "x")
    assert texts.lines == ["eins", "zwei"] and texts.report.skipped == {"empty": 1}


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.de does not exist"):
        read_texts(tmp_path / "nothing.de")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"text\n" * 1000)[:40])
    with pytest.raises(DataError, match=r"cut\.gz cannot be read"):
        read_texts(tmp_path / "cut.gz")


def test_a_local_copy_is_laid_out_as_the_fetched_corpus_would_be(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for file in multi30k():
        path = source / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(file.path.encode()))
    lines = list(fetch("multi30k", tmp_path / "data", source))
    assert len(lines) == len(multi30k()) == 18
    for file in multi30k():
        assert gzip.decompress((tmp_path / "data" / file.path).read_bytes()) == file.path.encode()
    again = list(fetch("multi30k", tmp_path / "again", source / "multi30k"))  # the corpus's own folder does as well
    assert [Path(p).relative_to(tmp_path / "again") for p in again] == [
        Path(p).relative_to(tmp_path / "data") for p in lines
    ]
    with pytest.raises(DataError, match="no text files"):
        list(fetch("multi30k", tmp_path / "data", tmp_path / "nowhere"))
    with pytest.raises(DataError, match="no corpus 'wmt99'"):
        list(fetch("wmt99", tmp_path))


def test_a_hugging_face_dataset(tmp_path: Path) -> None:
    pytest.importorskip("datasets", reason="pip install datasets")
    (tmp_path / "train.jsonl").write_text(
        '{"translation": {"de": "Ein Hund", "en": "A dog"}}\n{"translation": {"de": "Eine Katze", "en": " "}}\n'
        '{"translation": {"de": "Ein Rad", "en": null}}\n'
    )
    pairs = read_hub(str(tmp_path), None, "train", ("de", "en"))
    assert (pairs.first, pairs.second) == (["Ein Hund"], ["A dog"])
    assert pairs.report.skipped == {"empty": 1, "wrong number of fields": 1}


def test_without_the_package_a_dataset_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingError, match=r"package datasets.*pip install 'anyorder\[hub\]'"):
        read_hub("wmt14", "de-en", "train", ("de", "en"))


def test_tatoeba_pairs_share_nothing_between_splits() -> None:
    german = "".join(f"{i}\tdeu\tSatz {i % 4500}\n" for i in range(5000)).encode()
    english = "".join(f"{10000 + i}\teng\tSentence {i % 3000}\n" for i in range(5000)).encode()
    links = "".join(f"{i}\t{10000 + i}\n" for i in range(5000)).encode() + b"77777\t10001\n3\t10009\n"
    splits = split_tatoeba(german, english, links)
    assert sum(map(len, splits.values())) == 4500 and ("Satz 3", "Sentence 3") in splits["train"]
    assert len(splits["val"]) > 10 and len(splits["test"]) > 10
    for side in (0, 1):
        texts = [{pair[side] for pair in splits[name]} for name in ("train", "val", "test")]
        assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
