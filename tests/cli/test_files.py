"""Nothing is lost: outputs that are inputs, two writers, --resume after something changed, full disks."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import shutil
from pathlib import Path

import pytest
from cli_support import Run

from anyorder import files
from anyorder.cli import _guard, commands
from anyorder.traces import reading

SENTENCES = ["Ein Hund läuft am Strand.", "", "Zwei Kinder spielen.", "Ein Garten."]
LINES = "".join(f"{line} {i}\n" if line else "\n" for i in range(10) for line in SENTENCES)
FAST = ["--steps", "2", "--lengths", "1"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.de"
    path.write_text(LINES)
    return path


@pytest.fixture
def translate(model_folder: Path, source: Path) -> list[object]:
    return ["translate", "-t", "en", "-m", model_folder, *FAST, "-i", source]


@pytest.mark.parametrize("name", commands())
def test_every_file_of_every_command_is_known(name: str) -> None:
    module = name.replace("-", "_")
    command = getattr(importlib.import_module(f"anyorder.cli.{module}"), module)
    assert all(use is not None for _, use in _guard.roles(command).values()), _guard.roles(command)


@pytest.mark.parametrize("link", [None, os.link, os.symlink])
def test_no_output_is_an_input(run: Run, translate: list[str], source: Path, link: object) -> None:
    other = source.with_name("other.en")
    if link is None:
        other = source
    else:
        link(source, other)  # type: ignore[operator]
    for option in (["-o", other], ["-o", source.with_name("fine"), "--trace", other]):
        done = run(*translate, *option)
        assert done.code == 1 and "same file that is read by --input:" in done.err and source.read_text() == LINES
    beside = source.with_name("b.en")
    done = run(*translate, "-o", beside, "--trace", beside)
    assert done.code == 1 and "--output" in done.err and not beside.exists()


def test_evaluate_keeps_its_files(run: Run, model_folder: Path, source: Path) -> None:
    reference = source.with_name("a.en")
    reference.write_text(LINES)
    common = ["evaluate", "-m", model_folder, "--source", source, "--reference", reference]
    for file in (source, reference):
        assert run(*common, "-o", file).code == 1 and file.read_text() == LINES


def test_view_keeps_its_files(run: Run, model_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    assert run("translate", "Ein Hund.", "-t", "en", "-m", model_folder, "--trace", file).code == 0
    before = file.read_bytes()
    for option in (["-o", file], ["--svg", file], ["-o", tmp_path / "x", "--svg", tmp_path / "x"]):
        assert run("view", file, "--no-open", *option).code == 1 and file.read_bytes() == before
    page = tmp_path / "page.html"
    file.rename(page)
    assert run("view", page, "--no-open").code == 1 and page.read_bytes() == before
    page.rename(file)
    page = tmp_path / "t.html"
    page.write_text("my own page")
    done = run("view", file, "--no-open")
    assert done.code == 1 and "no page of anyorder" in done.err and page.read_text() == "my own page"
    assert run("view", file, "--no-open", "-o", page).code == 0 and "<html" in page.read_text()
    assert run("view", file, "--no-open").code == 0  # over a page of ours


def test_texts_do_not_resume(run: Run, model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.en"
    out.write_text("1\n2\n3\n")
    done = run("translate", "Ein Hund.", "-t", "en", "-m", model_folder, "-o", out, "--resume")
    assert done.code == 2 and "--input" in done.err and out.read_text() == "1\n2\n3\n"


def test_what_is_shown_is_not_in_the_output(run: Run, translate: list[str], tmp_path: Path) -> None:
    plain, watched = tmp_path / "plain.en", tmp_path / "watched.en"
    assert run(*translate, "-o", plain).code == 0
    done = run(*translate, "-o", watched, "--show")
    assert done.code == 0 and watched.read_text() == plain.read_text() and "forward passes" in done.out


def cut(out: Path, size: int) -> None:
    """As if the run had been killed when that many bytes were written."""
    with open(out, "r+b") as file:
        file.truncate(size)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_resume_gives_what_one_run_gives(run: Run, translate: list[str], tmp_path: Path, suffix: str) -> None:
    out, trace = tmp_path / f"a.en{suffix}", tmp_path / "t.jsonl"
    assert run(*translate, "-o", out, "--trace", trace).code == 0
    expected, traced = out.read_bytes(), trace.read_bytes()
    text = gzip.decompress(expected) if suffix else expected
    assert text.count(b"\n") == 40 and len(reading.read(trace)) == 30
    for file, size in ((out, 0), (out, len(expected) // 2), (out, len(expected) - 1), (trace, len(traced) - 9)):
        cut(file, size)
        assert run(*translate, "-o", out, "--trace", trace, "--resume").code == 0
        assert out.read_bytes() == expected and trace.read_bytes() == traced
    record = tmp_path / f"a.en{suffix}.resume"
    for size in (0, record.stat().st_size - 3):
        cut(record, size)
        assert run(*translate, "-o", out, "--trace", trace, "--resume").code == 0
        assert out.read_bytes() == expected and trace.read_bytes() == traced
    assert not list(tmp_path.glob(f"{files.ASIDE}*"))


CHANGES = [(["--json"], "json"), (["--order", "left2right"], "order"), (["--seed", "3"], "seed"), (["--int8"], "int8")]


@pytest.mark.parametrize(("options", "says"), CHANGES)
def test_resume_refuses_another_run(
    run: Run, translate: list[str], tmp_path: Path, options: list[str], says: str
) -> None:
    out = tmp_path / "a.en"
    assert run(*translate, "-o", out).code == 0
    cut(out, 200)
    before = out.read_bytes()
    done = run(*translate, "-o", out, "--resume", *options)
    assert done.code == 1 and f"{says} was " in done.err and out.read_bytes() == before


def test_resume_refuses_what_changed(
    run: Run, translate: list[str], model_folder: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.en"
    go = [*translate, "-o", out, "--resume"]
    assert run(*go).code == 0
    expected = out.read_bytes()
    source.write_text(LINES + "Ein Hund.\n")  # more to do is no change
    assert run(*go).code == 0 and out.read_bytes().startswith(expected) and out.read_bytes().count(b"\n") == 41
    source.write_text("x" + LINES)
    done = run(*go)
    assert done.code == 1 and "lines 1 to 16 of the input" in done.err
    source.write_text(LINES[:40])
    assert run(*go).code == 1
    source.write_text(LINES)
    out.write_bytes(b"X" + expected[1:])
    done = run(*go)
    assert done.code == 1 and "was changed" in done.err and out.read_bytes() == b"X" + expected[1:]
    (tmp_path / "a.en.resume").unlink()
    done = run(*go)
    assert done.code == 1 and "a.en.resume" in done.err and out.read_bytes() == b"X" + expected[1:]
    (tmp_path / "a.en.resume").write_text("my notes")
    assert run(*go[:-1]).code == 1 and (tmp_path / "a.en.resume").read_text() == "my notes"
    other = tmp_path / "other"
    shutil.copytree(model_folder, other)
    (tmp_path / "a.en.resume").unlink()
    assert run(*go[:-1]).code == 0
    counts = json.loads((other / "lengths.json").read_text())
    (other / "lengths.json").write_text(json.dumps(counts, indent=1))
    done = run(*[other if a == model_folder else a for a in go])
    assert done.code == 1 and "model was" in done.err


def test_two_writers(run: Run, translate: list[str], tmp_path: Path) -> None:
    out = tmp_path / "a.en"
    assert run(*translate, "-o", out).code == 0
    before = out.read_bytes()
    with files.open_claimed(out):
        for more in (["--resume"], []):
            done = run(*translate, "-o", out, *more)
            assert done.code == 1 and "another process" in done.err and out.read_bytes() == before


def test_a_full_disk_keeps_whole_blocks(
    run: Run, translate: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real ENOSPC: the limit of a file's size. What is whole stays, and the run can go on."""
    import resource
    import signal

    whole, out = tmp_path / "whole.en", tmp_path / "a.en"
    assert run(*translate, "-o", whole).code == 0
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (whole.stat().st_size - 10, resource.RLIM_INFINITY))
        done = run(*translate, "-o", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, ignored)
    assert done.code == 1 and "can not be written" in done.err and "stopped after line 16; add --resume" in done.err
    assert out.read_bytes().count(b"\n") == 16 and whole.read_bytes().startswith(out.read_bytes())
    assert run(*translate, "-o", out, "--resume").code == 0 and out.read_bytes() == whole.read_bytes()


def test_full_standard_output(run: Run, translate: list[str]) -> None:
    assert run(*translate, "-o", "/dev/null").code == 0 and not Path("/dev/null.resume").exists()
    done = run(*translate, "-o", "/dev/full")
    assert done.code == 1 and "No space left" in done.err and "Traceback" not in done.err


def test_whole_files(tmp_path: Path) -> None:
    file, link = tmp_path / "a", tmp_path / "b"
    link.symlink_to(file)
    files.write_whole(link, "one")
    assert file.read_text() == "one" and link.is_symlink()
    with pytest.raises(RuntimeError), files.whole(file) as stream:
        stream.write(b"tw")
        raise RuntimeError
    assert file.read_text() == "one" and sorted(tmp_path.iterdir()) == [file, link]
    with pytest.raises(files.FileError, match="not empty"), files.whole_folder(tmp_path):
        pass
    with pytest.raises(RuntimeError), files.whole_folder(tmp_path / "new") as new:
        (new / "x").write_text("x")
        raise RuntimeError
    assert not (tmp_path / "new").exists()
    with files.whole_folder(tmp_path / "new") as new:
        (new / "x").write_text("x")
    assert (tmp_path / "new" / "x").read_text() == "x" and len(list(tmp_path.iterdir())) == 3


def test_files_of_any_name_beside_an_output_stay(run: Run, translate: list[str], tmp_path: Path) -> None:
    """A file that is not complete yet takes the place of no other, nor is written through a link."""
    victim, out = tmp_path / "victim.txt", tmp_path / "out"
    victim.write_text("mine")
    (tmp_path / "out.partial").write_text("my own notes")
    with files.whole(out) as one, files.whole(out) as other:
        there = {p.name for p in tmp_path.iterdir()} - {"victim.txt", "out.partial", "a.de"}
        assert len(there) == 2 and all(name.startswith(files.ASIDE) for name in there)
        one.write(b"one")
        other.write(b"other")
    assert out.read_text() == "one" and (tmp_path / "out.partial").read_text() == "my own notes"
    (tmp_path / "out.partial").unlink()
    (tmp_path / "out.partial").symlink_to(victim)
    assert run(*translate[:-2], "Ein Hund.", "-o", out).code == 0
    assert victim.read_text() == "mine" and not out.is_symlink() and out.read_text().count("\n") == 1
    trace, page = tmp_path / "page.html.partial", tmp_path / "page.html"
    assert run(*translate[:-2], "Ein Hund.", "--trace", trace).code == 0
    before = trace.read_bytes()
    assert run("view", trace, "-o", page, "--no-open").code == 0
    assert trace.read_bytes() == before and page.exists()
    record = tmp_path / "b.en.resume"
    assert run(*translate, "-o", tmp_path / "b.en").code == 0
    before = record.read_bytes()
    done = run(*translate[:-1], record, "-o", tmp_path / "b.en")
    assert done.code == 1 and "is the same file" in done.err and record.read_bytes() == before
    assert not list(tmp_path.glob(f"{files.ASIDE}*"))


def test_permissions_of_whole_files(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        for file in (new, old):
            files.write_whole(file, "x")
    finally:
        os.umask(before)
    assert new.stat().st_mode & 0o777 == 0o640 == old.stat().st_mode & 0o777
    with pytest.raises(FileNotFoundError, match="no/where"):
        files.write_whole(tmp_path / "no/where", "x")


def test_fingerprints_differ() -> None:
    assert files.fingerprint("a\nb") != files.fingerprint("a\n b") and len(files.fingerprint(b"")) == 16
