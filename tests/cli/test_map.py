"""`anyorder map`: a corpus by local processes; stopped, killed and run again; mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_support import Run
from corpus_support import parts

FAST = ["--steps", "2", "--lengths", "1", "--shard-size", "600"]


def corpus(path: Path, lines: int = 400) -> Path:
    path.write_text("".join(f"Ein Hund läuft am Strand {i}.\n" for i in range(lines)), encoding="utf-8")
    return path


def test_a_run_that_is_killed_goes_on_and_gives_what_translate_gives(
    run: Run, model_folder: Path, tmp_path: Path
) -> None:
    source, out = corpus(tmp_path / "in.de"), tmp_path / "out"
    args = ["map", "translate", source, out, "--to", "en", "-m", model_folder, *FAST]
    command = [sys.executable, "-m", "anyorder", *map(str, args), "--workers", "1"]
    for end, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
        before = len(list(out.glob("_done/*.json")))
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_ctrl_c)
        while process.poll() is None and len(list(out.glob("_done/*.json"))) < before + 2:
            time.sleep(0.02)
        process.send_signal(end)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code and "Traceback" not in err
    assert "the same command goes on from there" in err and not (out / "manifest.json").exists()
    assert json.loads((out / "job.json").read_text())["task"]["options"]["steps"] == 2  # a number, as in Python
    done = run(*args, "--workers", "1")
    assert done.code == 0 and "400 rows in 21 of 21 shards" in done.out and "of them done before" in done.out
    plain = run("translate", "-t", "en", "-m", model_folder, "--steps", "2", "--lengths", "1", "-i", source)
    assert parts(out).decode() == plain.out and (out / "manifest.json").exists()
    again = run(*args)
    assert again.code == 0 and "21 of them done before" in again.out


def _heed_ctrl_c() -> None:
    """Let a child heed Ctrl-C, whatever it inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["translate"], "--to"),
        (["fill", "--to", "en"], "--to has no use in map fill"),
        (["fill"], "say which language model"),
        (["score", "--target", "x", "-m", "bert"], "--target is the column of translations"),
        (["translate", "--to", "en", "--length", "3"], "--length has no use"),
        (["translate", "--to", "en", "--format", "parquet"], "text or jsonl"),
        (["translate", "--to", "en", "--nbest", "2"], "--format jsonl"),
        (["generate", "-m", "bert", "--length", "2-3"], "one number"),
        (["translate", "--to", "en", "--beam", "4", "--steps", "3"], "a beam writes one position"),
        (["translate", "--to", "en", "--order", "sideways"], "sideways"),
    ],
)
def test_mistakes_are_told_before_anything_begins(run: Run, tmp_path: Path, args: list[str], word: str) -> None:
    done = run("map", args[0], corpus(tmp_path / "in.de", 2), tmp_path / "out", *args[1:])
    assert done.code == 2 and word in done.err and not (tmp_path / "out").exists()


def test_rows_that_fail_are_counted_and_the_language_is_checked(run: Run, model_folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "x.jsonl"
    source.write_text('{"text": "Ein Hund."}\n{"text": 3}\n')
    common = ["-m", model_folder, "--workers", "1"]
    done = run("map", "translate", source, tmp_path / "out", "--to", "en", *common)
    assert done.code == 1 and "part-000000.jsonl, row 2: the column 'text' holds no text" in done.err
    assert "1 row is left empty" in done.err
    wrong = run("map", "translate", source, tmp_path / "other", "--to", "fr", *common)
    assert wrong.code == 2 and "does not know the language" in wrong.err
    assert os.listdir(tmp_path / "out" / "_done") == ["000000.json"]
