"""`anyorder train configs/copy-task.toml`, as a user runs it: sequence copy is solved by both kinds of model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from anyorder.training.checkpoint import read_log

CONFIG = Path(__file__).parents[2] / "configs" / "copy-task.toml"


def test_the_copy_task_is_solved(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "anyorder", "train", str(CONFIG), "--out", str(tmp_path / "run"), "--threads", "1"]
    before = os.times().children_user
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert os.times().children_user - before < 120, "more than two minutes of one core"
    assert done.stdout.split() == [str(tmp_path / "run" / name / "best") for name in ("masked", "ar")]
    for name in ("masked", "ar"):
        last = read_log(tmp_path / "run" / name / "log.jsonl")[-1]
        assert min(last["bleu"].values()) > 97, last
