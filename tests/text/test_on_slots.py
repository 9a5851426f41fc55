"""Texts on canvases of slots: one reading everywhere, prefix beams, exact scores, traces, refusals."""

from __future__ import annotations

import math

import pytest
import torch

from anyorder import recipes
from anyorder.core import slots as S
from anyorder.errors import AnyorderError
from anyorder.models.architecture import Architecture
from anyorder.models.catalog import found
from anyorder.models.latent_alignment import LatentAlignment
from anyorder.models.translation import Source, SpecialIds
from anyorder.text.translator import Translator

TEXTS = ["Ein Hund läuft.", "Ja.", "Zwei Kinder spielen im Sand, und eine Frau liest."]


@pytest.fixture(scope="module")
def translator() -> Translator:
    """Random weights, sharp enough for texts of several symbols."""
    torch.manual_seed(3)
    tokenizer = found("de-en-ar").tokenizer()
    model = LatentAlignment(Architecture(8000, 16, 1, 2, 32, positions=80, slots=[2, 2]), SpecialIds(), ("de", "en"))
    with torch.no_grad():
        model.decoder.embeddings.weight.mul_(4)
        model.decoder.proj_bias[0] += 6
    return Translator(model.eval().requires_grad_(False), tokenizer, ("de", "en"), name="toy")


def collapsed(ids: list[int]) -> list[int]:
    out, last = [], 0
    for i in ids:
        if i not in (0, last):
            out.append(i)
        last = i
    return out


@pytest.mark.parametrize(
    "options",
    [{}, {"steps": 1}, {"prefix_beam": 1}, {"order": "easy-first"}, {"beam": 2}, {"order": "remdm(12)"}],
)
def test_a_translation_does_not_depend_on_those_beside_it(translator: Translator, options) -> None:
    together = translator.translate(TEXTS, to="en", nbest=3, **options)
    for text, one in zip(TEXTS, together, strict=True):
        alone = translator.translate(text, to="en", nbest=3, **options)
        assert [h.ids for h in one.hypotheses] == [h.ids for h in alone.hypotheses]
        assert [h.score for h in one.hypotheses] == pytest.approx([h.score for h in alone.hypotheses], abs=1e-4)
        assert all(0 not in h.ids and len(h.logp) == len(h.ids) for h in one.hypotheses)


@pytest.mark.parametrize("order", [None, "easy-first", "refinement(1)"])
def test_a_trace_ends_in_a_canvas_that_reads_as_its_text(translator: Translator, order) -> None:
    plain = translator.translate(TEXTS[0], to="en", order=order)
    trace = translator.trace(TEXTS[0], to="en", order=order)
    assert trace.text == plain.text
    canvas = [0 if token == "·" else token for token in trace.tokens]
    assert len(canvas) == 2 * len(trace.source_tokens or []) + 2
    assert tuple(collapsed(canvas)) == plain.hypotheses[0].tokens
    *_, last = translator.stream(TEXTS[0], to="en", order=order)
    read = translator.translate(TEXTS[0], to="en", order=order, prefix_beam=1)
    assert last.text == read.text


def test_scores_are_exact(translator: Translator) -> None:
    model, texts = translator.model, ["A dog.", "A man and a man."]
    sources = translator.tokenizer.encode(TEXTS[:2], "de")
    targets = translator.tokenizer.encode(texts, "en")
    scores = translator.scores(TEXTS[:2], texts, to="en")
    for source, target, score in zip(sources, targets, scores, strict=True):
        context = model.encode(Source(torch.tensor([source]), 0, 1))
        count = 2 * len(source) + 2
        logits = model.logits(model.hidden(context, torch.full((1, count), 4))[0])
        logits[:, [1, 2, 3, 4]] = -torch.inf
        s = S.states(torch.tensor([target]), torch.tensor([len(target)]), 0)
        e = S.emissions(logits.log_softmax(1)[None, :, s.columns[0]], s)
        assert score.total == pytest.approx(float(S.log_sum(e, s, torch.tensor([count]))), abs=1e-3)
        assert len(score.logp) == len(target) + 1
    (long,) = translator.scores("Ja.", "A dog and a man and a woman and a child.", to="en")
    assert long.total == -math.inf and "do not fit on the 8 slots" in (long.problem or "")


def test_the_exact_score_chooses(translator: Translator) -> None:
    some = translator.translate(TEXTS[0], to="en", rescore="marginal", normalise="sum", nbest=8).hypotheses
    scores = translator.generator("en").score([(translator.tokenizer.encode(TEXTS[:1], "de")[0], h.ids) for h in some])
    assert [h.score for h in some] == pytest.approx(scores) == sorted(scores, reverse=True)


@pytest.mark.parametrize("name", sorted(recipes.every(4, 3)))
def test_every_recipe_fills_the_slots(translator: Translator, name: str) -> None:
    order = {"gibbs": "gibbs(40)", "adaptive-gibbs": "adaptive-gibbs(40)"}.get(name, recipes.every(4, 3)[name])
    moments = list(translator.stream(TEXTS[1], to="en", order=order))
    assert moments and None not in moments[-1].tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": 3}, "one canvas"),
        ({"rescore": "pll"}, "rescore 'marginal'"),
        ({"prefix_beam": 4, "beam": 2}, "no effect"),
        ({"draft": True}, "no autoregressive model"),
        ({"ban": ["dog"]}, "a rule of symbols side by side"),
        ({"polish": 1, "rescore": "ar"}, "holds alignments"),
    ],
)
def test_what_could_have_no_effect_is_refused(translator: Translator, options, message: str) -> None:
    with pytest.raises(AnyorderError, match=message):
        translator.translate(TEXTS[0], to="en", **options)
