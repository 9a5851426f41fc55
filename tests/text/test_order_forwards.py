"""The order "forwards": a model that grew out of an autoregressive one writes as that does, and fills canvases too."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from cli_support import build_grown, build_translator

import anyorder
from anyorder.errors import PlanError
from anyorder.native import using
from anyorder.text.plan import Plan
from anyorder.text.rows import Canvas, Input
from anyorder.traces.trace import replay

SENTENCES = ["Ein Hund läuft am Strand.", "", "Zwei Kinder spielen im Garten und ein Hund läuft.", "Ein Hund."]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[anyorder.Translator, anyorder.Translator]:
    folder = build_grown(tmp_path_factory.mktemp("models") / "grown")
    return anyorder.load(folder, kind="translation"), anyorder.load(f"{folder}-ar", kind="translation")


@pytest.mark.parametrize("options", [{}, {"beam": 3, "nbest": 3}, {"temperature": 1.0, "seed": 3}], ids=str)
def test_it_writes_what_the_autoregressive_model_writes(
    both: tuple[anyorder.Translator, anyorder.Translator], options: dict[str, Any]
) -> None:
    grown, causal = both
    expected = causal.translate(SENTENCES, "en", **options)
    for more in ({}, {"order": "forwards"}):
        found = grown.translate(SENTENCES, "en", **options, **more)
        assert [[h.ids for h in t.hypotheses] for t in found] == [[h.ids for h in t.hypotheses] for t in expected]
    assert grown.cost.canvases == 2 * causal.cost.canvases or options  # what it costs is counted


def test_its_score_of_whole_texts_is_one_pass_from_left_to_right(
    both: tuple[anyorder.Translator, anyorder.Translator],
) -> None:
    grown, causal = both
    found = grown.translate(SENTENCES[0], "en", order="mask-predict(3)", lengths=3, nbest=3, rescore="forwards")
    for h in found.hypotheses:
        pair = (grown.tokenizer.encode([SENTENCES[0]], "de")[0], h.ids)
        assert h.score == pytest.approx(causal.generator("en").score([pair])[0] / (len(h.ids) + 1), abs=1e-4)


@pytest.mark.parametrize(
    ("options", "by"),
    [
        ({"order": "easy-first"}, "forwards"),
        ({"order": "mask-predict(3)", "lengths": 2, "nbest": 2}, "forwards"),
        ({"order": "uniform | left2right", "lengths": 1}, "forwards"),
        ({"order": "left2right", "lengths": 1, "beam": 2, "nbest": 2}, "forwards"),
        ({"order": "easy-first", "lengths": 1}, "written"),
        ({}, "written"),
        ({"beam": 3, "nbest": 3}, "written"),
    ],
    ids=str,
)
def test_what_candidates_are_compared_by_unless_it_is_said(
    both: tuple[anyorder.Translator, anyorder.Translator], options: dict[str, Any], by: str
) -> None:
    """By its own log p from left to right; where nothing is compared, or it was written so, by what writing gave."""
    grown, _ = both
    said = grown.translate(SENTENCES, "en", **options)
    assert said == grown.translate(SENTENCES, "en", rescore=by, **options)
    other = "written" if by == "forwards" else "pll"
    assert said != grown.translate(SENTENCES, "en", rescore=other, **options)


@pytest.mark.parametrize("kernels", ["with kernels", "without"])
def test_what_is_compared_with_nothing_needs_no_score(
    both: tuple[anyorder.Translator, anyorder.Translator], kernels: str
) -> None:
    for translator in both:
        with nullcontext() if kernels == "with kernels" else using(None):
            scored, plain = (translator.translate(SENTENCES, "en", scores=scores) for scores in (True, False))
            assert [t.text for t in plain] == [t.text for t in scored]
            assert [h.ids for t in plain for h in t.hypotheses] == [h.ids for t in scored for h in t.hypotheses]
            assert all(math.isfinite(h.score) and math.isfinite(h.path_score) for t in scored for h in t.hypotheses)
            assert all(math.isnan(h.score) and math.isnan(h.path_score) for t in plain for h in t.hypotheses)
            assert all(math.isnan(x) for t in plain for h in t.hypotheses for x in h.logp)
            streamed = translator.translate_stream(SENTENCES, "en", scores=False)
            assert [t.text for t in streamed] == [t.text for t in scored]


CHOSEN = [
    {"beam": 3, "nbest": 2}, {"order": "left2right", "lengths": 3}, {"order": "uniform | left2right", "lengths": 1},
    {"order": "easy-first", "lengths": 1}, {"order": "mask-predict(3)", "lengths": 2, "rescore": "forwards"},
    {"order": "mask-predict(2)", "lengths": 1, "rescore": "forwards", "polish": 1},
    {"order": "mask-predict(3)", "lengths": 1}, {"order": "left2right", "lengths": 1}, {"steps": "2L", "lengths": 1},
]  # fmt: skip


@pytest.mark.parametrize("options", CHOSEN, ids=str)
def test_what_is_chosen_by_scores_has_them(
    both: tuple[anyorder.Translator, anyorder.Translator], options: dict[str, Any]
) -> None:
    grown, _ = both
    assert grown.translate(SENTENCES, "en", scores=False, **options) == grown.translate(SENTENCES, "en", **options)


def test_streams_and_traces(both: tuple[anyorder.Translator, anyorder.Translator]) -> None:
    grown, _ = both
    said = grown.translate(SENTENCES[0], "en")
    *_, last = grown.stream(SENTENCES[0], "en")
    assert last.text == said.text
    trace = grown.trace(SENTENCES[0], "en")
    assert trace.recipe == "autoregressive" and trace.text == said.text
    assert tuple(replay(trace)[-1]) == tuple(trace.tokens)


def test_given_canvases_are_filled_in_another_order(both: tuple[anyorder.Translator, anyorder.Translator]) -> None:
    grown, _ = both
    generator, mask = grown.generator("en"), grown.model.mask_id
    one = Input((9, 8, 7), (Canvas((mask, 11, mask)),))
    (found,) = generator.generate([one], Plan())
    assert len(found[0].ids) == 3 and found[0].ids[1] == 11 and mask not in found[0].ids
    with pytest.raises(PlanError, match="fill a canvas"):
        generator.generate([one], Plan.of("forwards"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lengths": 2}, "lengths could have no effect"),
        ({"order": "forwards", "steps": 3}, "steps could have no effect"),
        ({"order": "forwards | easy-first"}, "no lengths to share"),
        ({"rescore": "marginal"}, "one path"),
    ],
    ids=str,
)
def test_what_could_have_no_effect_is_refused(
    both: tuple[anyorder.Translator, anyorder.Translator], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError, match=said):
        both[0].translate(SENTENCES[0], "en", **options)


def test_models_without_one(tmp_path: Path) -> None:
    joint = anyorder.load(build_translator(tmp_path / "tiny"), kind="translation")
    for options in ({"order": "forwards"}, {"rescore": "forwards"}):
        with pytest.raises(PlanError, match="contains no autoregressive model"):
            joint.translate(SENTENCES[0], "en", **options)


def test_two_models_judge_together(both: tuple[anyorder.Translator, anyorder.Translator]) -> None:
    grown, _ = both
    found = {
        by: {h.ids: h.score for h in grown.translate(SENTENCES[0], "en", beam=3, nbest=3, rescore=by).hypotheses}
        for by in ("forwards", "ar", "both")
    }
    for ids, score in found["both"].items():
        assert score == pytest.approx((found["forwards"][ids] + found["ar"][ids]) / 2, abs=1e-5)
