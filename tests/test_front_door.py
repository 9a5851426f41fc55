"""The front door: `dir(anyorder)` is what is public, nothing heavy comes before it is used, types are known."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def test_objects_are_shown_in_a_line() -> None:
    model = anyorder.load()
    assert repr(model) == "Translator('de-en', languages=('de', 'en'))"
    assert repr(model.generator("en")) == "Generator('de-en', 'de-en')"
    assert repr(anyorder.Plan.of("easy-first", beam=4)) == "Plan(order='easy-first', beam=4)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": 5}, "a text or a list of texts, not 5"),
        ({"texts": ["a", 5]}, "text 2 is 5"),
        ({"texts": b"a"}, "not b'a'"),
        ({"progress": True}, "progress is a function .*: True"),
        ({"to": "English"}, "does not know the language 'English'; write 'en'"),
        ({"plan": "easy-first"}, r"plan is a Plan, such as Plan.of\('easy-first'\)"),
    ],
    ids=str,
)
def test_a_mistake_is_answered_with_a_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(anyorder.AnyorderError, match=message):
        anyorder.load().translate(**{"texts": "Ein Hund.", "to": "en", **options})


def test_models_plans_and_translations_pickle_and_copy() -> None:
    model = anyorder.load()
    first = model.translate("Ein Hund läuft.", to="en", order="easy-first", traced=True)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.translate("Ein Hund läuft.", to="en", order="easy-first").text == first.text
        assert again.beside().name == "de-en-ar"
    for one in (anyorder.Plan.of("negent + logp", steps=3), first, first.trace):
        assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one


def test_a_notebook_shows_a_generation() -> None:
    found = anyorder.load().translate("Ein Hund läuft.", to="en", traced=True)
    shown = found._repr_html_() or ""
    assert shown.startswith("<iframe srcdoc=") and "&lt;script&gt;" in shown
    assert anyorder.Translation("x")._repr_html_() is None


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
