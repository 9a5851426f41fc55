"""The program as a whole: help, exit codes, what is imported and how long a start takes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import Run

from anyorder import __version__
from anyorder.cli import commands

HEAVY = {"transformers", "sklearn", "matplotlib", "accelerate", "scipy", "pandas", "sacrebleu", "sacremoses"}
PROBE = """
import sys
from anyorder.cli import main
try:
    main(sys.argv[1:])
finally:
    print(*{m.split(".")[0] for m in sys.modules}, file=sys.stderr)
"""


def imported(*args: str | Path) -> set[str]:
    done = subprocess.run([sys.executable, "-c", PROBE, *map(str, args)], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_help_lists_every_command_and_imports_nothing_heavy(run: Run) -> None:
    done = run("--help")
    assert done.code == 0 and all(name in done.out for name in commands())
    assert not imported("--help") & (HEAVY | {"torch", "tokenizers"})


@pytest.mark.parametrize("name", commands())
def test_every_command_has_an_example(run: Run, name: str) -> None:
    done = run(name, "--help")
    assert done.code == 0 and f"anyorder {name}" in done.out.split("Options")[0].replace("Usage: anyorder", "")


def test_translating_imports_only_what_it_needs(model_folder: Path) -> None:
    found = imported("translate", "Ein Hund.", "--to", "en", "-m", model_folder)
    assert {"torch", "tokenizers"} <= found and not found & HEAVY


def test_start_up_is_mostly_torch(model_folder: Path) -> None:
    """CPU time of a whole translation against that of `import torch`, side by side: the best of five turns.

    A turn's two sides share what else the machine does at that moment; other turns' do not.
    """

    def seconds(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        # threads that wait for each other on a busy machine burn time that no start-up needs
        subprocess.run(
            [sys.executable, *command], check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    translate = ("-m", "anyorder", "translate", "Ein Hund.", "--to", "en", "-m", str(model_folder))
    ratios: list[float] = []
    while len(ratios) < 5 and min(ratios, default=2.0) > 1.5:
        ratios.append(seconds(*translate) / seconds("-c", "import torch"))
    assert min(ratios) <= 1.5, ratios


def test_version_and_unknown_commands(run: Run) -> None:
    assert run("--version").out == f"anyorder {__version__}\n"
    wrong = run("tranlsate", "x")
    assert wrong.code == 2 and "translate" in wrong.err and "Traceback" not in wrong.err
    assert run("translate", "x", "--to", "en", "--ordr", "uniform").code == 2
