"""Batches side by side: in order, each on one thread, with nothing changed afterwards; processes end with a parent."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from anyorder import load
from anyorder.machine import side_by_side


@pytest.fixture
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_and_the_setting_is_restored(two_threads: object) -> None:
    both = threading.Barrier(2, timeout=30)  # falls unless two parts run at the same time

    def work(part: int) -> tuple[int, int]:
        both.wait()
        return part, torch.get_num_threads()

    assert list(side_by_side(work, [3, 1, 2, 0])) == [(3, 1), (1, 1), (2, 1), (0, 1)]
    assert torch.get_num_threads() == 2
    assert "omp_get_max_threads() : 2" in torch.__config__.parallel_info()


def test_one_part_has_all_threads(two_threads: object) -> None:
    assert list(side_by_side(lambda part: torch.get_num_threads(), ["only"])) == [2]


def test_an_error_is_raised_and_the_rest_is_not_begun(two_threads: object) -> None:
    begun = []

    def work(part: int) -> int:
        begun.append(part)
        return 1 // part

    with pytest.raises(ZeroDivisionError):
        list(side_by_side(work, [1, 0, *range(2, 100)]))
    assert len(begun) < 100 and torch.get_num_threads() == 2


def test_translations_and_costs_are_those_of_one_thread(two_threads: object) -> None:
    texts = ["Ein Hund läuft am Strand.", "Zwei Männer spielen Schach.", "Guten Tag."] * 12
    here, there = load("de-en"), load("de-en")
    ours = [t.text for t in here.translate(texts, to="en")]
    torch.set_num_threads(1)
    assert [t.text for t in there.translate(texts, to="en")] == ours
    assert here.cost == there.cost


PARENT = """
import multiprocessing
import time

from anyorder.machine import end_with_parent


def child() -> None:
    end_with_parent()
    print("up", multiprocessing.current_process().pid, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
"""


def _lives(pid: int) -> bool:
    """Is it running? A process that has ended and that nobody has asked about is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT, encoding="utf-8")
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline().split()[1])
    assert _lives(pid)
    parent.kill()
    parent.wait()
    end = time.monotonic() + 20
    while _lives(pid) and time.monotonic() < end:
        time.sleep(0.05)
    left = _lives(pid)
    if left:
        os.kill(pid, 9)
    assert not left
