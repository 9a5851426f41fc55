"""The models inside the package: there, small, described, and good enough for the README's sentence."""

from __future__ import annotations

import time

import pytest

import anyorder
from anyorder.errors import PlanError
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


@pytest.mark.parametrize("to", ["de", "en"])
def test_the_learned_order_works_out_of_the_box(to: str) -> None:
    translator = anyorder.load("de-en-joint")
    assert set(translator.policies) == {"de-en", "en-de"}
    source = {"en": "Zwei Kinder spielen im Garten.", "de": "Two children are playing in the garden."}[to]
    assert ("children" if to == "en" else "Kinder") in translator.translate(source, to=to, order="learned").text


@needs_model
@pytest.mark.parametrize("order", ["easy-first", "right2left", "uniform", "learned"])
def test_any_order_of_slots_translates(translator: anyorder.Translator, order: str) -> None:
    if order == "learned":
        with pytest.raises(PlanError, match="no learned order"):
            translator.translate("Zwei Kinder spielen im Garten.", to="en", order=order)
        return
    trace = translator.trace("Zwei Kinder spielen im Garten.", to="en", order=order)
    assert "children" in (trace.text or "") and len(trace.steps) == len(trace.canvas)


@needs_model
@needs_baseline
def test_two_passes_and_a_judge(translator: anyorder.Translator) -> None:
    before = translator.cost.forwards
    plain = translator.translate("Ein Hund läuft am Strand.", to="en", steps=1, prefix_beam=1, rescore="none")
    assert translator.cost.forwards - before == 1 and "dog" in plain.text
    judged = translator.translate("Ein Hund läuft am Strand.", to="en", nbest=3)
    assert translator.cost.forwards - before == 3 and len(judged.hypotheses) == 3


@needs_model
@needs_baseline
def test_the_baseline_translates_and_rescores(translator: anyorder.Translator) -> None:
    assert "dog" in anyorder.load("de-en-ar").translate("Ein Hund läuft am Strand.", to="en", beam=5).text.lower()
    assert "dog" in translator.translate("Ein Hund läuft am Strand.", to="en", rescore="ar").text.lower()
