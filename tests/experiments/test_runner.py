"""The processes of an experiment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import multiprocessing
import time

from anyorder.experiments.runner import end_with_parent


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
