"""Every code block of the README and the docs is run, every link leads somewhere, and generated pages are fresh.

The blocks run as written, in a folder with small models of the names they use; the shipped model is used where it is.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from cli_support import build_bert, build_translator

from anyorder.models.policy import Policy

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"(?:<!-- not run: (?P<reason>[^\n]*) -->\n)?^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
DATA = ("bibtex", "text", "json", "toml", "yaml")  # nothing to run


class Block(NamedTuple):
    line: int
    kind: str
    code: str
    reason: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(text[: m.start("code")].count("\n") + 1, m["kind"], m["code"], m["reason"]) for m in BLOCK.finditer(text)
    ]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the blocks are run: what they speak of is there."""
    where = tmp_path_factory.mktemp("docs")
    build_bert(where / "bert-base-uncased", "once", "upon", "time")
    (where / "roberta-base").symlink_to(where / "bert-base-uncased")
    build_translator(where / "de-en")
    Policy(width=16).save(where / "policy-de-en.safetensors")
    (where / "lines.de").write_text("Ein Hund läuft am Strand.\nZwei Kinder spielen.\n", encoding="utf-8")
    for name in ("translate.sh", "scripts", "pyproject.toml", "setup.py", "src"):
        (where / name).symlink_to(ROOT / name)
    return where


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_blocks_run(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": "docs"}
    for block in blocks(page):
        if block.kind == "python" and not block.reason:
            code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()):
                exec(code, names)


SHELL = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.kind == "bash"
]


@pytest.mark.parametrize("block", SHELL)
def test_shell_blocks_run(block: Block, folder: Path, tmp_path: Path) -> None:
    if block.reason:
        pytest.skip(block.reason)
    program = tmp_path / "anyorder"  # this very package, wherever it is installed
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m anyorder "$@"\n')
    program.chmod(0o755)
    venv = folder / ".venv" / "bin"
    if not venv.exists():  # what ./translate.sh sets up, without setting it up again
        venv.mkdir(parents=True)
        (venv / "anyorder").write_text(program.read_text())
        (venv / "anyorder").chmod(0o755)
        made_from = ("pyproject.toml", "setup.py", "src/anyorder/native/kernels.c")
        (venv.parent / "installed-base").write_bytes(b"".join((ROOT / name).read_bytes() for name in made_from))
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", "-euc", block.code], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() or ">" in block.code


def test_every_block_is_of_a_known_kind() -> None:
    odd = [f"{p.name}:{b.line} {b.kind!r}" for p in PAGES for b in blocks(p) if b.kind not in ("python", "bash", *DATA)]
    assert not odd


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if link and not (page.parent / link).exists()]
    assert not missing
    docs = ROOT / "docs"
    if docs in page.parents:  # the site has nothing but the docs: name files of the repository, without a link
        assert not [link for link in links if link and docs not in (page.parent / link).resolve().parents]


def test_a_page_chooses_rows_of_a_table(tmp_path: Path) -> None:
    make_docs = runpy.run_path(str(ROOT / "scripts" / "make_docs.py"))
    table = tmp_path / "results.md"
    table.write_text(
        "# R\n\n## A b\n\n| | | x | y |\n|---|---|---|---|\n| → | a, T = L | 1 | 2 |\n| ← | a, T = L | 3 | 4 |\n"
    )
    marker = f"<!-- table: {table}#a-b\ncolumns: → x, ← y\n%s => told\n-->\n"
    page = make_docs["filled"](marker % "a, T = L" + "old\n<!-- end -->")
    assert page == marker % "a, T = L" + "\n| | → x | ← y |\n|---|---:|---:|\n| told | 1 | 4 |\n\n<!-- end -->"
    assert make_docs["filled"](page) == page
    with pytest.raises(SystemExit, match=r"for the row .b."):  # a row that is gone is no silent gap
        make_docs["filled"](marker % "b" + "<!-- end -->")


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_docs.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example: Path, folder: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, example], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
