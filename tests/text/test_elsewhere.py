"""Strings in, strings out, on a device that refuses the CPU's tensors: a masked LM, a diffusion LM, a translation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_support import build_bert, build_diffusion
from elsewhere import DEVICE, elsewhere

import anyorder
from anyorder.models import catalog

SOURCES = ["Ein Hund läuft am Strand.", "Zwei Männer sitzen auf einer Bank."]
TEXT = "the [MASK] sat on the [MASK] ."
Act = Callable[[Any], Any]
WRITING: dict[str, Act] = {
    "fill": lambda w: [(f.text, f.ids) for f in w.fill(TEXT, n=2)],
    "infill": lambda w: [f.text for f in w.infill("the {} on the mat .", length=range(1, 3), n=2)],
    "generate": lambda w: [f.ids for f in w.generate(length=5, n=2)],
    "score": lambda w: [round(x, 3) for x in w.score("the cat sat on the mat .").logp],
    "trace": lambda w: w.trace(TEXT).tokens,
    "stream": lambda w: [m.written for m in w.stream(TEXT, order="llada(2, 4)")],
}
TRANSLATING: dict[str, tuple[str, dict[str, Any]]] = {
    "its own order": ("de-en", {}),
    "a beam on slots": ("de-en", {"order": "easy-first", "beam": 3}),
    "a beam of three lengths": ("de-en-masked", {"order": "easy-first", "lengths": 3, "beam": 3}),
    "mask-predict": ("de-en-masked", {"order": "mask-predict(4)", "rescore": "pll"}),
}


@pytest.fixture(scope="module", params=["masked", "diffusion"])
def writers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A language model here and elsewhere."""
    build = build_bert if request.param == "masked" else build_diffusion
    folder: Path = build(tmp_path_factory.mktemp("models") / "model")
    here, there = anyorder.load(folder), anyorder.load(folder)
    with elsewhere():
        there.model.to(DEVICE)  # type: ignore[union-attr]
    return here, there


@pytest.mark.parametrize("act", WRITING)
def test_a_language_model(writers: tuple[Any, Any], act: str) -> None:
    here = WRITING[act](writers[0])
    with elsewhere():
        assert WRITING[act](writers[1]) == here


@pytest.mark.parametrize("case", TRANSLATING)
def test_a_translation(case: str) -> None:
    name, options = TRANSLATING[case]
    here, there = anyorder.load(name), anyorder.load(name)
    texts = [t.text for t in here.translate(SOURCES, to="en", **options)]
    folder = catalog.locate(name)
    assert folder is not None
    with elsewhere():
        there.model = folder.model().to(DEVICE)
        assert [t.text for t in there.translate(SOURCES, to="en", **options)] == texts
