"""Packages in layers: each imports only from those before it, at the top of a file or inside a function."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import anyorder

ROOT = Path(anyorder.__file__).parent
LAYERS = (
    ("errors",),
    ("files", "options"),
    ("machine", "progress"),
    ("pool",),
    ("core",),
    ("recipes",),
    ("native",),
    ("models", "data", "traces"),
    ("text",),
    ("training",),
    ("adapters",),
    ("lab", "serve", "corpus"),
    ("reference", "cluster"),  # old names
    ("cli",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
LIBRARIES = ("transformers", "numpy", "tokenizers", "safetensors")
FRONT = ("__init__", "__main__")  # the front door names everything


def parts(node: ast.AST) -> list[str]:
    """The packages of anyorder that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module == "anyorder":
        names = [f"anyorder.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        names = [node.module or ""]
    else:
        return []
    return [name.split(".")[1] for name in names if name.startswith("anyorder.")]


def wrong(package: str, source: str) -> list[str]:
    """The imports that a file of `package` must not have."""
    found = [part for node in ast.walk(ast.parse(source)) for part in parts(node)]
    return sorted({p for p in found if p != package and p in LEVEL and LEVEL[p] >= LEVEL[package]})


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_each_file_imports_only_from_layers_before_it(file: Path) -> None:
    package = file.relative_to(ROOT).parts[0].removesuffix(".py")
    if package not in FRONT:
        assert package in LEVEL, f"{package} has no place in the layers"
        assert not wrong(package, file.read_text("utf-8"))


def test_a_lazy_import_is_seen() -> None:
    lazy = "if 1:\n    from anyorder.text.load import load\n    import anyorder.cli\n    from anyorder import training"
    assert wrong("models", lazy) == ["cli", "text", "training"]
    assert wrong("cli", lazy) == [] and wrong("models", "from anyorder.core import State") == []
    assert wrong("models", "from anyorder.data.read import read_tsv") == ["data"]  # side by side is not before


def test_the_core_needs_torch_alone() -> None:
    for file in (ROOT / "core").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                outside = [n for n in names if n.split(".")[0] in LIBRARIES]
                assert not outside and all(p in ("core", "errors") for p in parts(node)), (file.name, names)
