"""The mean of models: its weights are the mean of theirs, it is a model like any, and what has no mean is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cli_support import TEXTS, build_grown, build_translator

import anyorder
from anyorder.errors import ModelError, PlanError
from anyorder.files import FileError
from anyorder.models.average import average
from anyorder.models.folder import LENGTHS, TRAINED, ModelFolder
from anyorder.models.tokenizer import Tokenizer, train_tokenizer
from anyorder.models.weights import own_weights


@pytest.fixture
def grown(tmp_path: Path) -> tuple[ModelFolder, ModelFolder]:
    """A model that contains an autoregressive one, trained a little since, and the one it grew out of."""
    folder = ModelFolder(build_grown(tmp_path / "tiny"))
    model = folder.model()
    torch.manual_seed(2)
    for p in model.parameters():
        p.add_(torch.randn_like(p) * 0.1)
    folder.save(model, tokenizer=folder.tokenizer())
    return folder, ModelFolder(tmp_path / "tiny-ar")


def test_weights_are_the_mean(grown: tuple[ModelFolder, ModelFolder], tmp_path: Path) -> None:
    first, second = grown
    average([first, second, second], tmp_path / "mean")
    a, b, mean = (own_weights(ModelFolder(f).model()) for f in (first.path, second.path, tmp_path / "mean"))
    assert mean.keys() == a.keys() > b.keys()
    for name, found in mean.items():
        expected = (a[name] + 2 * b[name]) / 3 if name in b else a[name]
        torch.testing.assert_close(found, expected)
    modes = {file.stat().st_mode for file in (tmp_path / "mean").iterdir()}
    assert len(modes) == 1  # whoever may read one of its files may read them all
    assert (tmp_path / "mean" / LENGTHS).read_bytes() == (first.path / LENGTHS).read_bytes()
    assert json.loads((tmp_path / "mean" / TRAINED).read_text())["mean_of"] == ["tiny", "tiny-ar", "tiny-ar"]


@pytest.mark.parametrize("way", [1, -1])
def test_it_is_a_model_of_the_first_ones_kind(grown: tuple[ModelFolder, ModelFolder], tmp_path: Path, way: int) -> None:
    average(grown[::way], tmp_path / "mean", half=True)
    made = anyorder.load(tmp_path / "mean", kind="translation")
    assert made.model.kind == grown[::way][0].model().kind and made.causal == (way == -1)
    assert len(made.translate(TEXTS[:2], to="en", beam=2)) == 2


def test_the_model_beside_it_may_be_named(grown: tuple[ModelFolder, ModelFolder], tmp_path: Path) -> None:
    first, second = grown
    average([first, second], tmp_path / "mean")
    how: dict[str, Any] = {"to": "en", "beam": 3, "nbest": 3}
    with pytest.raises(PlanError, match="no autoregressive model beside it"):
        anyorder.load(tmp_path / "mean", kind="translation").translate(TEXTS[0], rescore="ar", **how)
    made = anyorder.load(tmp_path / "mean", kind="translation", beside=second.path)
    causal, source = anyorder.load(second.path, kind="translation"), made.tokenizer.encode([TEXTS[0]], "de")[0]
    for h in made.translate(TEXTS[0], rescore="ar", **how).hypotheses:
        score = causal.generator("en").score([(source, h.ids)])[0]
        assert h.score == pytest.approx(score / (len(h.ids) + 1), abs=1e-4)
    with pytest.raises(ModelError, match="no autoregressive"):
        anyorder.load(tmp_path / "mean", kind="translation", beside=first.path)
    with pytest.raises(ModelError, match="another vocabulary"):
        anyorder.load(tmp_path / "mean", kind="translation", beside="de-en-ar")


def test_what_has_no_mean_is_refused(grown: tuple[ModelFolder, ModelFolder], tmp_path: Path) -> None:
    first, second = grown

    def refused(what: str, *folders: ModelFolder) -> None:
        with pytest.raises(ModelError, match=what):
            average(folders, tmp_path / "mean")
        assert not (tmp_path / "mean").exists()

    refused("two models or more", first)
    refused("two models or more", first, first)
    refused("different layers", first, ModelFolder(build_translator(tmp_path / "other")))
    refused("no model of anyorder", first, ModelFolder(tmp_path))
    model, words = second.model(), second.tokenizer()
    kind, sizes, special, languages = type(model), model.architecture, model.special, model.languages

    def saved(name: str, model: Any, tokenizer: Tokenizer = words, direction: str = "") -> ModelFolder:
        folder = ModelFolder(tmp_path / name)
        folder.save(model, tokenizer=tokenizer, story={"stage": {"direction": direction}})
        return folder

    refused("different sizes", first, saved("wide", kind(replace(sizes, ffn=48), special, languages)))
    refused("other languages", first, saved("turned", kind(sizes, special, languages[::-1])))
    refused("one direction only", first, saved("one-way", model, direction="de-en"))
    others = train_tokenizer([(text[::-1], "de") for text in TEXTS], len(words))
    refused("another vocabulary", first, saved("words", model, others))
    with pytest.raises(FileError, match="not empty"):
        average(grown, first.path)
