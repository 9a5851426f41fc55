"""LibreTranslate's API, by its own client."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import anyorder
from anyorder.serve.app import create
from anyorder.serve.run import Background

libretranslatepy = pytest.importorskip("libretranslatepy")


def test_its_own_client_works_unchanged(url: str, models: dict[str, Any]) -> None:
    client = libretranslatepy.LibreTranslateAPI(url)
    alone = models["tiny"].translate("Ein Hund läuft am Strand.", "en").text
    assert client.translate("Ein Hund läuft am Strand.", "de", "en") == alone
    assert {one["code"] for one in client.languages()} == {"de", "en"}
    found = client.detect("Ein Hund läuft am Strand.")
    assert {one["language"] for one in found} == {"de", "en"} and sum(one["confidence"] for one in found) <= 100.2


def test_languages_are_told_apart_by_the_shipped_model() -> None:
    model = anyorder.load("de-en")
    german, english = (
        ("Ein Hund läuft am Strand.", "Das Wetter ist heute schön."),
        ("A man is riding a bike.", "Two men"),
    )
    texts = {german[0]: "de", english[0]: "en", german[1]: "de", english[1]: "en"}
    with Background(create({"de-en": model})) as url:
        for text, language in texts.items():
            (first, *_) = httpx.post(f"{url}/detect", json={"q": text}, timeout=60).json()
            assert first["language"] == language and first["confidence"] > 80
        ask = {"q": list(texts), "source": "auto", "target": "en", "alternatives": 1}
        answer = httpx.post(f"{url}/translate", json=ask, timeout=60).json()
        assert [d["language"] for d in answer["detectedLanguage"]] == list(texts.values())
        assert answer["translatedText"][1] == "A man is riding a bike."  # it is in English already
        for n in (0, 2):
            assert answer["alternatives"][n] and answer["alternatives"][n] != [answer["translatedText"][n]]


@pytest.mark.parametrize("name", ["tiny", "tiny-ar", "grown"])
def test_alternatives_are_the_next_best(models: dict[str, Any], name: str) -> None:
    with Background(create({name: models[name]})) as url:
        ask = {"q": "Ein Hund läuft am Strand.", "source": "de", "target": "en", "alternatives": 2}
        answer = httpx.post(f"{url}/translate", json=ask, timeout=60).json()
    beam = {} if name == "tiny" else {"beam": 3}
    best, *others = models[name].translate(ask["q"], "en", source="de", nbest=3, **beam).hypotheses
    assert answer == {"translatedText": best.text, "alternatives": [h.text for h in others]}


def test_forms_as_well_as_json(client: httpx.Client) -> None:
    form = {"q": "Ein Hund.", "source": "de", "target": "en"}
    assert client.post("/translate", data=form).json() == client.post("/translate", json=form).json()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"target": "fr"}, "fr is not supported"),
        ({"source": "xx"}, "xx is not supported"),
        ({"format": "html"}, "format"),
        ({"q": None}, "q"),
        ({"q": []}, "empty"),
        ({"alternatives": 99}, "alternatives"),
        ({"order": "backwards"}, "no order"),
        ({"order": "/etc/passwd.safetensors"}, "files are not read"),
        ({"steps": 10_000}, "steps"),
        ({"beam": 99}, "beam"),
        ({"nonsense": 1}, "nonsense"),
        ({"q": "x" * 5001}, "characters"),
        ({"q": "Hund " * 70}, "split"),
        ({"beam": 2, "steps": 3}, "beam"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(client: httpx.Client, change: dict[str, Any], word: str) -> None:
    answer = client.post("/translate", json={"q": "Ein Hund.", "source": "de", "target": "en", **change})
    assert answer.status_code == 400, answer.text
    (said,) = answer.json().values()
    assert word in said and "Traceback" not in said and "/src/" not in said
