"""Drafts: target lengths from a text that the model writes first, from left to right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_support import build_grown, build_translator

import anyorder
from anyorder.errors import PlanError, TooMuchError
from anyorder.text.draft import nearest
from anyorder.text.plan import Plan

SENTENCES = ["Ein Hund läuft am Strand.", "Zwei Kinder spielen im Garten und ein Hund läuft.", "Ein Hund."]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> anyorder.Translator:
    return anyorder.load(build_grown(tmp_path_factory.mktemp("models") / "grown"), kind="translation")


@pytest.mark.parametrize(
    ("length", "n", "longest", "found"),
    [(5, 4, 9, [5, 6, 4, 7]), (1, 3, 9, [1, 2, 3]), (9, 3, 9, [9, 8, 7]), (0, 2, 9, [1, 2]), (2, 5, 3, [2, 3, 1])],
)
def test_the_nearest_lengths(length: int, n: int, longest: int, found: list[int]) -> None:
    assert nearest(length, n, longest) == found


def test_lengths_are_those_around_the_draft(grown: anyorder.Translator) -> None:
    drafts = [len(t.hypotheses[0].ids) for t in grown.translate(SENTENCES, "en")]
    predicted = grown.candidates(SENTENCES, "en", plan=Plan.of("easy-first", lengths=3))
    found = grown.candidates(SENTENCES, "en", plan=Plan.of("easy-first", lengths=3, draft=True))
    lengths = [[len(some[0].ids) for some in each] for each in found]
    assert lengths == [nearest(draft, 3, grown.generator("en").room) for draft in drafts]
    assert lengths != [[len(some[0].ids) for some in each] for each in predicted]  # the option has an effect
    assert all(h.log_length == 0 for each in found for some in each for h in some)


PLANS: list[dict[str, Any]] = [
    {"order": "easy-first", "lengths": 2},
    {"order": "uniform", "lengths": 3, "seed": 4},
    {"order": "mask-predict(3) | left2right", "lengths": 2, "rescore": "forwards", "nbest": 3},
    {"order": "left2right", "beam": 2, "lengths": 2, "rescore": "ar"},
    {"order": "mask-predict(2)", "lengths": 1, "rescore": "forwards", "polish": 1},
]


@pytest.mark.parametrize("options", PLANS, ids=str)
def test_alone_or_among_others(grown: anyorder.Translator, options: dict[str, Any]) -> None:
    together = grown.translate(["", *SENTENCES], "en", draft=True, **options)
    assert together[0].text == "" and together[0].error is None
    for sentence, one in zip(SENTENCES, together[1:], strict=True):
        alone = grown.translate(sentence, "en", draft=True, **options)
        assert [h.ids for h in alone.hypotheses] == [h.ids for h in one.hypotheses]
        assert [h.score for h in alone.hypotheses] == pytest.approx([h.score for h in one.hypotheses], abs=1e-4)


def test_a_draft_is_paid_for(grown: anyorder.Translator) -> None:
    def passes(**options: Any) -> int:
        before = grown.cost.canvases
        grown.translate(SENTENCES[0], "en", **options)
        return grown.cost.canvases - before

    assert passes(order="mask-predict(3)", lengths=2, draft=True) == 2 * 3 + 1 + passes()  # both scored in one tree


def test_a_trace_shows_what_was_written_on_the_best_length(grown: anyorder.Translator) -> None:
    options: dict[str, Any] = {"order": "easy-first", "lengths": 3, "draft": True}
    said = grown.translate(SENTENCES[1], "en", **options)
    trace = grown.trace(SENTENCES[1], "en", **options)
    assert trace.text == said.text and len(trace.steps) == len(said.hypotheses[0].ids)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "draft could have no effect"),
        ({"order": "forwards"}, "draft could have no effect"),
        ({"order": "easy-first", "draft": 1}, "True or False"),
    ],
    ids=str,
)
def test_what_could_have_no_effect_is_refused(grown: anyorder.Translator, options: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        grown.translate(SENTENCES[0], "en", **{"draft": True, **options})


def test_lengths_that_are_given_need_no_draft(grown: anyorder.Translator) -> None:
    with pytest.raises(PlanError, match="canvases are given"):
        grown.candidates(SENTENCES[:1], "en", plan=Plan.of("easy-first", draft=True), lengths=[4])


def test_limits_are_heeded_before_anything_is_written(grown: anyorder.Translator) -> None:
    before = grown.cost.canvases
    with pytest.raises(TooMuchError):
        grown.translate(SENTENCES[0], "en", order="easy-first", draft=True, most_passes=3)
    assert grown.cost.canvases == before


def test_models_that_write_no_draft(tmp_path: Path) -> None:
    joint = anyorder.load(build_translator(tmp_path / "tiny"), kind="translation")
    with pytest.raises(PlanError, match="could write a draft"):
        joint.translate(SENTENCES[0], "en", order="easy-first", draft=True)
