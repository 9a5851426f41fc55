"""Strings in, translations out: the same alone and in a batch, in order, ranked by the score that was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from cli_support import build_translator

import anyorder
from anyorder import recipes
from anyorder.core import Counts, Given, begin, log_likelihood, marginal, pll
from anyorder.models.translation import Source
from anyorder.traces.trace import replay

SENTENCES = ["Ein Hund läuft am Strand.", "", "Zwei Kinder spielen im Garten und ein Hund läuft.", "Ein Hund."]
PLANS: list[dict[str, Any]] = [
    {},
    {"order": "uniform", "seed": 5},
    {"order": "left2right", "beam": 3, "nbest": 3},
    {"order": "negent + 0.5*logp", "steps": 3},
    {"order": "least2most", "steps": 4, "count": "anneal"},
    {"order": "confidence", "count": "threshold(0.02)", "among": "block(3)"},
    {"steps": "2L"},
    {"beam": 2, "positions": 2, "order_temperature": 1.0},
    {"temperature": 1.0, "top_p": 0.9, "order": "uniform", "seed": 1},
    {"rescore": "pll"},
    {"rescore": "ar", "beam": 2},
    {"rescore": "pll", "order": "left2right | mask-predict(3) | negent", "nbest": 3},
    {"rescore": "ar", "order": "mask-predict(3)", "polish": 3, "nbest": 3},
    {"rescore": "marginal", "order": "uniform", "samples": 3, "nbest": 4},
]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> anyorder.Translator:
    loaded = anyorder.load(build_translator(tmp_path_factory.mktemp("models") / "tiny"))
    assert isinstance(loaded, anyorder.Translator)
    return loaded


@pytest.mark.parametrize("options", PLANS, ids=str)
def test_alone_or_among_others(translator: anyorder.Translator, options: dict[str, Any]) -> None:
    together = translator.translate(SENTENCES, "en", **options)
    assert [t.source for t in together] == SENTENCES
    assert together[1].text == "" and together[1].error is None
    for sentence, one in zip(SENTENCES, together, strict=True):
        alone = translator.translate(sentence, "en", **options)
        assert [h.ids for h in alone.hypotheses] == [h.ids for h in one.hypotheses]
        assert [h.score for h in alone.hypotheses] == pytest.approx([h.score for h in one.hypotheses], abs=1e-4)
        assert list(one.hypotheses) == sorted(one.hypotheses, key=lambda h: -h.score)


def test_written_is_the_path_of_what_stands(translator: anyorder.Translator) -> None:
    once, path = (translator.translate(SENTENCES[0], "en", rescore=r, nbest=4) for r in ("written", "path"))
    assert [h.text for h in once.hypotheses] == [h.text for h in path.hypotheses]  # nothing is written twice
    for h in once.hypotheses:
        assert h.score == pytest.approx(h.path_score / len(h.ids), abs=1e-4)
    again = translator.translate(SENTENCES[0], "en", order="least2most", count="anneal", steps=4, nbest=4)
    for h in again.hypotheses:
        assert h.score == pytest.approx((h.log_length + sum(h.logp)) / len(h.ids), abs=1e-4)
        assert h.path_score < h.log_length + sum(h.logp)  # it counts what was taken back


@pytest.mark.parametrize("rescore", ["pll", "ar"])
def test_rescoring_is_the_scorers_own_mean_log_p(translator: anyorder.Translator, rescore: str) -> None:
    best = translator.translate(SENTENCES[0], "en", rescore=rescore, nbest=4)
    assert translator.beside is not None
    scorer = translator if rescore == "pll" else translator.beside()
    model, causal = scorer.model, rescore == "ar"
    source = torch.tensor(scorer.tokenizer.encode([SENTENCES[0]], "de"))
    for hypothesis in best.hypotheses:
        tokens = torch.tensor([[*hypothesis.ids, *([model.special.eos] if causal else [])]])
        state = begin(tokens, model.mask_id, model.pad_id, open=torch.ones_like(tokens, dtype=torch.bool))
        value = (log_likelihood if causal else pll)(model, model.encode(Source(source, 0, 1)), state)
        assert hypothesis.score == pytest.approx(float(value) / tokens.shape[1], abs=1e-4)


@pytest.mark.parametrize("rescore", ["written", "path", "pll", "ar"])
def test_a_sum_is_the_mean_times_the_length(translator: anyorder.Translator, rescore: str) -> None:
    """Eq. 4 takes the argmax over L as it is: with rescore "path" the score is log p(G|X)."""
    mean, plain = (
        translator.translate(SENTENCES[2], "en", rescore=rescore, normalise=n, nbest=4).hypotheses
        for n in ("mean", "sum")
    )
    means = {h.ids: h.score for h in mean}
    for h in plain:
        assert h.score == pytest.approx(means[h.ids] * (len(h.ids) + (rescore == "ar")), abs=1e-3)
        assert rescore != "path" or h.score == pytest.approx(h.path_score)
    assert plain[0].score == max(h.score for h in plain)


def test_the_marginal_is_the_mean_over_sampled_paths(translator: anyorder.Translator) -> None:
    """By the core's estimate, with log p(L|X); more samples change it."""
    many, few = (
        translator.translate(
            SENTENCES[0], "en", order="uniform", rescore="marginal", samples=m, normalise="sum", nbest=4
        )
        for m in (40, 2)
    )
    model, generator = translator.model, translator.generator("en")
    source = translator.tokenizer.encode([SENTENCES[0]], "de")
    for h in many.hypotheses:
        state = begin(torch.tensor([h.ids]), model.mask_id, model.pad_id, open=torch.ones(1, len(h.ids)) > 0, seed=9)
        decoder = generator.decoder(anyorder.Plan.of("uniform"))
        value = marginal(model, model.encode(Source(torch.tensor(source), 0, 1)), state, decoder, 40)
        assert h.score == pytest.approx(h.log_length + float(value), abs=0.5)
    assert {h.ids: h.score for h in many.hypotheses} != {h.ids: h.score for h in few.hypotheses}
    assert translator.beside is not None
    with pytest.raises(anyorder.PlanError, match="one path to a text"):
        translator.beside().translate(SENTENCES[0], "en", rescore="marginal")


def test_a_decoder_s_own_length_is_asked(translator: anyorder.Translator) -> None:
    five = replace(recipes.easy_first, length=Given(5))
    found = translator.translate(SENTENCES[0], "en", order=five, nbest=9).hypotheses
    assert [len(h.ids) for h in found] == [5] and found[0].log_length == 0.0
    seven = Counts.of([(n, 7) for n in range(1, 40)])
    found = translator.translate(SENTENCES[0], "en", order=replace(five, length=seven), lengths=2, nbest=9).hypotheses
    assert len(found) == 2 and 7 in [len(h.ids) for h in found]
    with pytest.raises(anyorder.PlanError, match="length model could have no effect"):
        translator.candidates([SENTENCES[0]], "en", plan=anyorder.Plan.of(five), lengths=[4])


def test_several_orders_give_one_list_of_candidates(translator: anyorder.Translator) -> None:
    options: dict[str, Any] = {"rescore": "ar", "beam": 2, "nbest": 50}
    alone = [translator.translate(SENTENCES[0], "en", order=o, **options) for o in ("left2right", "right2left")]
    both = translator.translate(SENTENCES[0], "en", order="left2right | right2left", **options)
    texts = {h.text: h.score for one in alone for h in one.hypotheses}
    assert len(texts) > max(len(one.hypotheses) for one in alone)  # they do not find the same
    assert {h.text: h.score for h in both.hypotheses} == pytest.approx(texts, abs=1e-4)
    assert both.text == max(alone, key=lambda one: one.hypotheses[0].score).text


TRACED: list[dict[str, Any]] = [
    {},
    {"beam": 3},
    {"order": "least2most", "steps": 3, "count": "anneal"},
    {"order": "left2right | right2left", "rescore": "ar"},
]


@pytest.mark.parametrize("options", TRACED, ids=str)
def test_a_trace_ends_in_the_translation(translator: anyorder.Translator, options: dict[str, Any]) -> None:
    trace = translator.trace(SENTENCES[0], "en", **options)
    best = translator.translate(SENTENCES[0], "en", **options)
    assert trace.text == best.text
    assert tuple(replay(trace)[-1]) == best.hypotheses[0].tokens
    assert trace.score == pytest.approx(best.hypotheses[0].path_score, abs=1e-4)


@pytest.mark.parametrize("options", TRACED, ids=str)
def test_what_is_traced_is_decoded_once(translator: anyorder.Translator, options: dict[str, Any]) -> None:
    """The passes of a traced translation are those of a translation: nothing is decoded again to be shown."""
    before = translator.cost.canvases
    plain = translator.translate(SENTENCES, "en", **options)
    middle = translator.cost.canvases
    traced = translator.translate(SENTENCES, "en", traced=True, **options)
    assert translator.cost.canvases - middle <= middle - before
    for a, b in zip(plain, traced, strict=True):
        assert a.text == b.text and (b.trace is None) == (not b.text) and (b.trace is None or b.trace.text == b.text)


@pytest.mark.parametrize("options", [{}, {"lengths": 1}, {"order": "left2right | negent"}, {"beam": 2}], ids=str)
def test_a_source_is_encoded_once(
    translator: anyorder.Translator, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all its lengths, orders and beams together."""
    encoded: list[tuple[int, ...]] = []
    encode = translator.model.encode

    def watched(source: Source) -> Any:
        encoded.extend(tuple(row) for row in source.tokens.tolist())
        return encode(source)

    monkeypatch.setattr(translator.model, "encode", watched)
    translator.translate(SENTENCES, "en", **options)
    assert len(encoded) == len([s for s in SENTENCES if s])


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("stream", {"beam": 2}, "one hypothesis is followed"),
    ("stream", {"lengths": 2}, "leave lengths out"),
    ("trace", {"nbest": 2}, "leave nbest out"),
    ("trace", {"polish": 1, "rescore": "pll"}, "no single one to show"),
    ("translate", {"plan": anyorder.Plan(), "beam": 4}, "beam would have no effect"),
    ("translate", {"beam": 4, "temperature": 1.0}, "no effect"),
]


@pytest.mark.parametrize(("method", "options", "message"), REFUSED, ids=str)
def test_an_option_without_effect_is_refused(
    translator: anyorder.Translator, method: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(anyorder.PlanError, match=message):
        found = getattr(translator, method)(SENTENCES[0], "en", **options)
        next(iter(found))


@pytest.mark.parametrize("options", [{"order": "left2right"}, {"steps": 3}, {"lengths": 2}, {"positions": 2}], ids=str)
def test_a_causal_model_refuses_what_it_cannot_follow(translator: anyorder.Translator, options: dict[str, Any]) -> None:
    assert translator.beside is not None
    with pytest.raises(anyorder.PlanError, match="left to right to its own end"):
        translator.beside().translate(SENTENCES[0], "en", **options)


def test_a_stream_shows_the_canvas_filling(translator: anyorder.Translator) -> None:
    moments = list(translator.stream(SENTENCES[0], "en", order="left2right"))
    blanks = [m.tokens.count(None) for m in moments]
    assert blanks == sorted(blanks, reverse=True) and blanks[-1] == 0
    assert [m.written for m in moments] == [(i,) for i in range(len(moments))]


def test_what_cannot_be_translated_says_why(translator: anyorder.Translator) -> None:
    long = "Hund " * 100
    good, bad = translator.translate([SENTENCES[0], long], "en")
    assert good.text and good.error is None
    assert not bad.text and "reads at most 62" in str(bad.error)
    with pytest.raises(anyorder.TextError, match="does not know the language 'fr'; it knows de, en"):
        translator.translate("Hallo", "fr")
    with pytest.raises(anyorder.PlanError, match="no learned order"):
        translator.translate("Hallo", "en", order="learned")


def test_spaces_are_read_as_one(translator: anyorder.Translator) -> None:
    once, twice = translator.translate(["Ein Hund läuft am Strand.", " Ein  Hund\tläuft am Strand. "], to="en")
    assert once.text == twice.text and once.hypotheses[0].ids == twice.hypotheses[0].ids
