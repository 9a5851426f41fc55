"""`anyorder translate`: lines in and out, options, mistakes, and being stopped."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_support import Run

from anyorder.cli import _streams
from anyorder.data import lines as lines_of
from anyorder.traces import reading

LINES = ["Ein Hund läuft am Strand.", "", "Zwei Kinder spielen.", "Ein Garten."]


def data(lines: list[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def test_a_sentence(run: Run, model_folder: Path) -> None:
    done = run("translate", LINES[0], "--to", "en", "-m", model_folder)
    assert done.code == 0 and len(done.lines) == 1 and done.out.strip() and not done.err


def test_lines_come_back_in_order_and_equal_single_ones(run: Run, model_folder: Path) -> None:
    done = run("translate", "-t", "en", "-m", model_folder, stdin=data(LINES))
    alone = [run("translate", x, "-t", "en", "-m", model_folder).out.rstrip("\n") if x else "" for x in LINES]
    assert done.code == 0 and done.out.split("\n") == [*alone, ""]
    assert len(set(alone)) == 4


@pytest.mark.parametrize(
    "options",
    [
        ["--order", "left2right"],
        ["--order", "negent + 0.9*logp", "--steps", "3"],
        ["--count", "threshold(0.9)"],
        ["--count", "anneal", "--steps", "4"],
        ["--steps", "2L"],
        ["--beam", "2", "--positions", "2", "--lengths", "2"],
        ["--rescore", "pll"],
        ["--rescore", "ar"],
        ["--temperature", "1", "--seed", "3"],
        ["--among", "block(2)"],
        ["--from", "de"],
    ],
)
def test_options(run: Run, model_folder: Path, options: list[str]) -> None:
    done = run("translate", LINES[0], "--to", "en", "-m", model_folder, *options)
    assert done.code == 0 and done.out.strip() and not done.err


def test_seeds_matter(run: Run, model_folder: Path) -> None:
    texts = [
        run("translate", LINES[0], "-t", "en", "-m", model_folder, "--temperature", "1", "--seed", seed).out
        for seed in ("3", "3", "4")
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("beam", ["1", "3"])
def test_an_autoregressive_model(run: Run, model_folder: Path, tmp_path: Path, beam: str) -> None:
    file = tmp_path / "t.jsonl"
    done = run("translate", LINES[0], "--to", "en", "-m", f"{model_folder}-ar", "--beam", beam, "--trace", file)
    trace = reading.read(file)[0]
    assert done.code == 0 and done.lines == [_streams.one_line(str(trace.text))] and trace.recipe == "autoregressive"
    assert [step.positions for step in trace.steps] == [[i] for i in range(trace.length)]


def test_json_and_nbest(run: Run, model_folder: Path) -> None:
    done = run("translate", LINES[0], "", "--to", "en", "-m", model_folder, "--nbest", "3", "--json")
    first, empty = (json.loads(line) for line in done.lines)
    scores = [h["score"] for h in first["hypotheses"]]
    assert (
        len(scores) == 3 and scores == sorted(scores, reverse=True) and first["text"] == first["hypotheses"][0]["text"]
    )
    assert empty == {"source": "", "text": "", "score": None, "hypotheses": [], "error": None}
    plain = run("translate", LINES[0], "--to", "en", "-m", model_folder, "--nbest", "3")
    assert plain.lines == [f"1 ||| {h['text']} ||| {h['score']:.4f}" for h in first["hypotheses"]]


def test_show_and_trace(run: Run, model_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    done = run("translate", *LINES[:3:2], "--to", "en", "-m", model_folder, "--show", "--trace", file)
    traces = reading.read(file)
    assert [t.source for t in traces] == LINES[:3:2]
    text = run("translate", LINES[0], "--to", "en", "-m", model_folder).out.strip()
    steps = len(traces[0].steps)
    assert traces[0].text == text and done.lines[0] == LINES[0] and done.lines[steps + 3] == text
    assert done.lines[1].split() == ["0", *["_"] * traces[0].length]
    assert all(line.count("[") >= 1 for line in done.lines[2 : steps + 2])
    again = run("translate", LINES[0], "--to", "en", "-m", model_folder, "--trace", file)
    assert again.code == 0 and len(reading.read(file)) == 1  # a new run begins a new file


def test_view_writes_a_page_and_opens_it(
    run: Run, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    args = ["translate", LINES[0], "--to", "en", "-m", model_folder, "--view"]
    done = run(*args, "--trace", tmp_path / "t.jsonl")
    page = (tmp_path / "t.html").read_text()
    assert done.code == 0 and opened == [(tmp_path / "t.html").as_uri()] and "<html" in page and "Hund" in page
    assert run(*args).code == 0 and Path(opened[1].removeprefix("file://")).read_text().count("<html") == 1


def test_a_line_that_is_too_long_is_left_empty(run: Run, model_folder: Path) -> None:
    lines = [LINES[0], "xyz " * 100, LINES[3]]
    done = run("translate", "-t", "en", "-m", model_folder, stdin=data(lines))
    assert done.code == 1 and done.out.split("\n")[1] == "" and len(done.lines) == 3 and all(done.lines[::2])
    assert "line 2: " in done.err and "split" in done.err and "1 of 3 lines" in done.err
    assert run("translate", lines[1], "-t", "en", "-m", model_folder).code == 1


def test_bytes_that_are_not_text(run: Run, model_folder: Path) -> None:
    stdin = data(LINES) + "für\n".encode("latin1") + data(LINES)
    done = run("translate", "-t", "en", "-m", model_folder, stdin=stdin)
    assert done.code == 1 and len(done.lines) == 4
    assert "line 5: byte 2 of the line" in done.err and "UTF-8" in done.err and "Traceback" not in done.err


def test_resume(run: Run, model_folder: Path, tmp_path: Path) -> None:
    lines = [f"{line} {i}" for i in range(20) for line in LINES]
    source, whole, part = tmp_path / "in.de", tmp_path / "whole.en", tmp_path / "part.en"
    source.write_bytes(data(lines))
    common = ["translate", "-t", "en", "-m", model_folder, "--steps", "2", "--lengths", "1", "-i", source]
    assert run(*common, "-o", whole).code == 0
    expected = whole.read_text()
    part.write_text("".join(line + "\n" for line in expected.split("\n")[:33]) + expected.split("\n")[33][:2])
    shutil.copyfile(f"{whole}.resume", f"{part}.resume")
    assert run(*common, "-o", part, "--resume").code == 0
    assert part.read_text() == expected and expected.count("\n") == 80
    with gzip.open(tmp_path / "in.de.gz", "wb") as packed:
        packed.write(data(lines))
    assert run(*common[:-1], tmp_path / "in.de.gz").out == expected
    assert run(*common, "-o", part, "--resume").code == 0
    assert part.read_text() == expected
    assert run(*common, "--resume").code == 2


def test_windows_begin_small_and_stay_bounded() -> None:
    lines = [f"{i} é" for i in range(5000)]
    found = list(lines_of.windows(io.BufferedReader(io.BytesIO(data(lines).replace(b"\n", b"\r\n"))), "x"))
    assert [x for _, w in found for x in w] == lines and [n for n, _ in found][:2] == [1, 17]
    assert len(found[0][1]) == lines_of.SMALL and max(len(w) for _, w in found) == lines_of.LARGE
    given = list(lines_of.windows(io.BufferedReader(io.BytesIO(data(lines))), "x", [3, 4000, 5]))
    assert [x for _, w in given for x in w] == lines and [n for n, _ in given][:5] == [1, 4, 4004, 4009, 4137]
    with pytest.raises(lines_of.InputError, match="line 2: a line of more than"):
        list(lines_of.windows(io.BufferedReader(io.BytesIO(b"a\n" + b"b" * 3_000_000)), "x"))


def test_a_translation_is_one_line() -> None:
    assert _streams.one_line("a\nb\r\nc") == "a b  c"


MISTAKES = [
    (["--to", "fr"], 2, ["'fr'", "de, en"]),
    (["--to", "en", "--order", "easyfirst"], 2, ["did you mean 'easy-first'", "left2right"]),
    (["--to", "en", "--order", "negent + logq"], 2, ["logq", "logp", "^"]),
    (["--to", "en", "--count", "treshold(0.9)"], 2, ["threshold"]),
    (["--to", "en", "--count", "anneal"], 2, ["steps"]),
    (["--to", "en", "--steps", "none"], 2, ["steps"]),
    (["--to", "en", "--order", "learned"], 2, ["learned"]),
    (["--to", "en", "--beam", "0"], 2, ["beam"]),
    (["--to", "en", "--beam", "2", "--steps", "4"], 2, ["constant(4)", "leave out steps and count"]),
    (["--to", "en", "--temperature", "-1"], 2, ["temperature"]),
    (["--to", "en", "--order", "random", "--beam", "2", "--count", "3"], 2, ["leave out steps and count"]),
    (["--to", "en", "--rescore", "bleu"], 2, ["bleu"]),
    (["--to", "en", "--input", "missing.de"], 1, ["missing.de"]),
    (["--to", "en", "-o", "no/such/folder/x"], 1, ["no/such/folder/x"]),
    ([], 2, ["--to"]),
]


@pytest.mark.parametrize(("args", "code", "says"), MISTAKES)
def test_mistakes_are_answered_kindly(
    run: Run, model_folder: Path, args: list[str], code: int, says: list[str]
) -> None:
    done = run("translate", *([] if "--input" in args else ["Ein Hund."]), *args, "-m", model_folder)
    assert done.code == code and not done.out
    assert all(word in done.err for word in says) and "Traceback" not in done.err


def test_models_that_are_none(run: Run, model_folder: Path, tmp_path: Path) -> None:
    def of(name: object) -> str:
        done = run("translate", "Ein Hund.", "--to", "en", "-m", str(name))
        assert done.code == 1 and "Traceback" not in done.err
        return done.err

    assert "config.json" in of(tmp_path)
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.json").write_bytes((model_folder / "config.json").read_bytes())
    assert "model.safetensors and no tokenizer.json" in of(half)
    (half / "config.json").write_text("{")
    assert "not JSON" in of(half)
    assert "no model" in of(tmp_path / "nothing" / "here")
    (tmp_path / "x.pth").write_bytes(b"")
    assert "anyorder convert" in of(tmp_path / "x.pth")


def _heed_ctrl_c() -> None:
    """Where the tests run in the background, Ctrl-C is ignored, and a child would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_keeps_what_is_done(model_folder: Path, tmp_path: Path) -> None:
    """A real process with an endless input: everything it has written when stopped is whole lines, in order."""
    out = tmp_path / "out.en"
    command = [sys.executable, "-m", "anyorder", "translate", "-t", "en", "-m", str(model_folder), "-o", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, preexec_fn=_heed_ctrl_c
    )
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(data(LINES * 100))
    process.stdin.flush()  # and the pipe stays open
    while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < 40):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    try:
        code = process.wait(60)
    finally:
        process.kill()
    err = process.stderr.read().decode()
    assert code == 130 and "Traceback" not in err and "--resume" in err
    text = out.read_text()
    assert text.endswith("\n") and 40 <= text.count("\n") <= 400
    assert f"stopped after line {text.count(chr(10))}" in err


def test_lines_of_a_slow_pipe_are_answered_at_once(model_folder: Path) -> None:
    command = [sys.executable, "-m", "anyorder", "translate", "-t", "en", "-m", str(model_folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    for line in LINES[:1] * 2:
        process.stdin.write(data([line]))
        process.stdin.flush()
        assert process.stdout.readline().strip()
    process.stdin.close()
    assert process.wait(60) == 0 and process.stdout.read() == b""
