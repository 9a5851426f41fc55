"""The models inside the package: there, small, described, and good enough for the README's sentence."""

from __future__ import annotations

import time

import pytest

import anyorder
from anyorder.models import catalog

NAMES = catalog.shipped()
needs_model = pytest.mark.skipif("de-en" not in NAMES, reason="no trained model is in this checkout yet")
needs_baseline = pytest.mark.skipif("de-en-ar" not in NAMES, reason="no autoregressive model is in this checkout yet")


@pytest.fixture(scope="module")
def translator() -> anyorder.Translator:
    model: anyorder.Translator = anyorder.load("de-en")
    return model


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_model_is_small_and_has_a_card(name: str) -> None:
    folder = catalog.SHIPPED / name
    assert (folder / "model.safetensors").stat().st_size <= 20_000_000
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert all(word in card for word in ("Multi30k", "Tatoeba", "CC BY", "configs/"))  # data, licences, settings


@needs_model
def test_the_sentence_of_the_readme(translator: anyorder.Translator) -> None:
    text = translator.translate("Ein Hund läuft am Strand.", to="en").text
    assert "dog" in text.lower() and "beach" in text.lower()
    back = translator.translate("A dog is running on the beach.", to="de").text
    assert "Hund" in back and "Strand" in back


@needs_model
def test_a_sentence_takes_under_a_second(translator: anyorder.Translator) -> None:
    def seconds() -> float:
        begun = time.process_time()
        translator.translate("Ein Hund läuft am Strand.", to="en")
        return time.process_time() - begun

    assert min(seconds() for _ in range(3)) < 1


@needs_model
@pytest.mark.parametrize("to", ["de", "en"])
@pytest.mark.parametrize("model", ["de-en", "de-en-joint"])
def test_the_learned_order_works_out_of_the_box(model: str, to: str) -> None:
    translator = anyorder.load(model)
    assert set(translator.policies) == {"de-en", "en-de"}
    source = {"en": "Zwei Kinder spielen im Garten.", "de": "Two children are playing in the garden."}[to]
    assert ("children" if to == "en" else "Kinder") in translator.translate(source, to=to, order="learned").text


@needs_model
@pytest.mark.parametrize("to", ["de", "en"])
def test_the_learned_count_writes_in_fewer_passes(translator: anyorder.Translator, to: str) -> None:
    source = {"en": "Zwei Kinder spielen im Garten.", "de": "Two children are playing in the garden."}[to]
    trace = translator.trace(source, to, order="learned-count")
    assert ("children" if to == "en" else "Kinder") in translator.translate(source, to, order="learned-count").text
    assert max(len(step.positions) for step in trace.steps) > 1 and len(trace.steps) < 8
    fewer, more = (translator.trace(source, to, order="learned-count", count=f"above({c})") for c in (-50, 50))
    assert len(fewer.steps) == 1 and all(len(step.positions) == 1 for step in more.steps)


@needs_model
@needs_baseline
def test_the_baseline_translates_and_rescores(translator: anyorder.Translator) -> None:
    assert "dog" in anyorder.load("de-en-ar").translate("Ein Hund läuft am Strand.", to="en", beam=5).text.lower()
    assert "dog" in translator.translate("Ein Hund läuft am Strand.", to="en", rescore="ar").text.lower()
