"""The front door: `dir(anyorder)` is what is public, nothing heavy comes before it is used, types are known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import anyorder


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert run("import anyorder; print(*dir(anyorder))").split() == sorted(anyorder.__all__)
    assert not any(name.startswith("_") for name in anyorder.__all__)


@pytest.mark.parametrize("name", sorted(anyorder.__all__))
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    assert (getattr(anyorder, name).__doc__ or "").strip()


def test_the_library_and_its_recipes_are_there_after_one_import() -> None:
    code = "import anyorder; print(anyorder.recipes.easy_first.coordinates.order, anyorder.core.decode.__name__)"
    assert run(code) == "negent + logp decode"


def test_the_door_opens_without_the_house() -> None:
    assert run("import anyorder, sys; print('torch' in sys.modules or 'typer' in sys.modules)") == "False"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        anyorder.nonsense  # noqa: B018


def test_an_old_name_works_and_says_the_new_one() -> None:
    with pytest.deprecated_call(match=r"anyorder\.Writer is now anyorder\.LanguageModel"):
        assert anyorder.Writer is anyorder.LanguageModel
    with pytest.deprecated_call(match=r"is now anyorder\.LanguageModel"):
        from anyorder.text.writer import Writer
    assert Writer is anyorder.LanguageModel


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from anyorder.training.validation import bleu

    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(anyorder.AnyorderError, match=r"package sacrebleu.*pip install 'anyorder\[train\]'"):
        bleu(["a"], ["a"])


def test_an_editor_knows_what_load_gives(tmp_path: Path) -> None:
    file = tmp_path / "typed.py"
    file.write_text(
        "import anyorder\n"
        "reveal_type(anyorder.load().translate('Ein Hund.', to='en').text)\n"
        "reveal_type(anyorder.load('folder', kind='masked').fill('a [MASK]')[0].probability)\n"
        "anyorder.load('folder', kind='masked').translate\n"
    )
    mypy = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports=silent", str(file)]
    said = subprocess.run(mypy, capture_output=True, text=True, cwd=tmp_path).stdout
    assert 'Revealed type is "builtins.str"' in said or 'Revealed type is "str"' in said
    assert "float" in said and '"LanguageModel" has no attribute "translate"' in said
