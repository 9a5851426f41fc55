"""The two commands of the README: what they do on a machine that is not right, and that they do nothing twice."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("bash", "cmp", "cp", "dirname", "rm", "mkdir", "cat")
OLD = '#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.1" && exit 0\nexit 1\n'
KERNELS = "src/anyorder/native/kernels.c"
# A Python whose venv is a folder with a pip that writes down what it is asked.
NEW = """#!/bin/sh
[ "$1" = --version ] && echo "Python 3.12.0"
if [ "$2" = venv ]; then
    mkdir -p .venv/bin
    printf '#!/bin/sh\\necho "pip $@" >> log.txt\\n' > .venv/bin/pip
    printf '#!/bin/sh\\necho "anyorder $@" >> log.txt\\n' > .venv/bin/anyorder
    printf '#!/bin/sh\\necho "python $@" >> log.txt\\n' > .venv/bin/python
    chmod +x .venv/bin/pip .venv/bin/anyorder .venv/bin/python
fi
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of the scripts, and a PATH with nothing but a few tools on it."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for name in ("translate.sh", "test.sh", "pyproject.toml", "setup.py", KERNELS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for tool in (*TOOLS, "chmod"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def run(place: Path, python: str, *args: str) -> subprocess.CompletedProcess[str]:
    program = place / "bin" / "python3"
    program.write_text(python)
    program.chmod(0o755)
    return subprocess.run(
        [str(place / "bin/bash"), *args], cwd=place, env={"PATH": str(place / "bin")}, capture_output=True, text=True
    )


@pytest.mark.parametrize("script", ["translate.sh", "test.sh"])
def test_an_old_python_is_explained(place: Path, script: str) -> None:
    done = run(place, OLD, script, "Ein Hund.")
    assert done.returncode == 1 and "3.11" in done.stderr and "Python 3.8.1" in done.stderr
    assert not (place / ".venv").exists()


def test_set_up_happens_once(place: Path) -> None:
    for _ in range(2):
        assert run(place, NEW, "translate.sh", "Ein Hund läuft.").returncode == 0
    assert run(place, NEW, "translate.sh", "A dog.", "--to", "de").returncode == 0
    torch, package, *rest = (place / "log.txt").read_text().splitlines()
    assert "torch==" in torch and "--editable" in package
    translate = "anyorder translate --show"
    assert rest == [f"{translate} --to en Ein Hund läuft."] * 2 + [f"{translate} A dog. --to de"]


@pytest.mark.parametrize("name", ["pyproject.toml", KERNELS])
def test_set_up_happens_again_when_what_it_was_made_from_changes(place: Path, name: str) -> None:
    run(place, NEW, "translate.sh", "Ein Hund.")
    with open(place / name, "a") as file:
        file.write("# more\n")
    run(place, NEW, "translate.sh", "Ein Hund.")
    assert (place / "log.txt").read_text().count("torch==") == 2


def test_what_the_tests_need_is_enough_to_translate(place: Path) -> None:
    for script in ("test.sh", "translate.sh"):
        assert run(place, NEW, script, "x").returncode == 0
    _, package, test, translate = (place / "log.txt").read_text().splitlines()
    assert package.endswith("[dev]") and translate.startswith("anyorder translate")
    assert test.startswith("python -m pytest ") and test.endswith(" x")
