"""fill, infill, generate and score, on a small BERT: joint probabilities are what they say."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from cli_support import build_bert

import anyorder


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> anyorder.LanguageModel:
    loaded = anyorder.load(build_bert(tmp_path_factory.mktemp("models") / "bert"))
    assert isinstance(loaded, anyorder.LanguageModel)
    return loaded


def _log_p(writer: anyorder.LanguageModel, ids: list[int], position: int) -> torch.Tensor:
    """log p at a position from the model's own full forward pass, special symbols left out."""
    with torch.no_grad():
        logits = writer.model.model(input_ids=torch.tensor([ids])).logits[0, position]
    logits[list(writer.model.special_ids)] = -torch.inf
    return logits.log_softmax(-1)


def test_several_masks_are_filled_jointly(writer: anyorder.LanguageModel) -> None:
    """With a beam that keeps everything, the best fillings are those of brute force over all pairs of words."""
    text = "the [MASK] sat on the [MASK] ."
    canvas = writer.tokenizer.encode(text)
    first, second = (i for i, t in enumerate(canvas) if t == writer.model.mask_id)
    words = [i for i in range(len(writer.tokenizer)) if i not in writer.model.special_ids]
    joint = {}
    for a, b in itertools.product(words, words):
        half = canvas.copy()
        half[first] = a
        joint[a, b] = float(_log_p(writer, canvas, first)[a] + _log_p(writer, half, second)[b])
    best = sorted(joint, key=lambda pair: -joint[pair])[:5]
    found = writer.fill(text, n=5, order="left2right", beam=len(words) ** 2)
    assert [f.ids for f in found] == best
    assert [f.logp for f in found] == pytest.approx([joint[pair] for pair in best], abs=1e-4)
    assert found[0].probability == pytest.approx(math.exp(joint[best[0]]), abs=1e-5)


def test_fill_takes_lists_and_keeps_their_order(writer: anyorder.LanguageModel) -> None:
    texts = ["the [MASK] sat .", "yesterday a [MASK] [MASK] in the park .", "a <mask> ran ."]
    together = writer.fill(texts, n=2)
    for text, some in zip(texts, together, strict=True):
        alone = writer.fill(text, n=2)
        assert [f.ids for f in alone] == [f.ids for f in some]
    assert [len(f[0].ids) for f in together] == [1, 2, 1]


def test_infill_chooses_the_length_by_score(writer: anyorder.LanguageModel) -> None:
    found = writer.infill("the {} on the mat .", length=range(1, 4), n=12, beam=6)
    assert len({len(f.ids) for f in found}) > 1
    for filling in found:
        own = writer.score(filling.text)
        assert filling.score == pytest.approx(own.total / len(own.logp), abs=1e-4)
    assert [f.score for f in found] == sorted((f.score for f in found), reverse=True)


def test_generate_is_seeded(writer: anyorder.LanguageModel) -> None:
    one, two = writer.generate(length=6, n=2, seed=3)
    again = writer.generate(length=6, n=2, seed=3)
    assert [one.ids, two.ids] == [f.ids for f in again] and one.ids != two.ids
    assert writer.generate(length=6, n=1, seed=4)[0].ids != one.ids
    assert len(one.ids) == 6 and not set(one.ids) & set(writer.model.special_ids)


def test_score_is_the_pseudo_log_likelihood(writer: anyorder.LanguageModel) -> None:
    score = writer.score("the cat sat .")
    ids = writer.tokenizer.encode("the cat sat .")
    for k, position in enumerate(range(1, len(ids) - 1)):
        hidden = ids.copy()
        hidden[position] = writer.model.mask_id
        with torch.inference_mode():
            logits = writer.model.model(input_ids=torch.tensor([hidden])).logits[0, position]
        assert score.logp[k] == pytest.approx(float(logits.log_softmax(-1)[ids[position]]), abs=1e-4)
    assert score.perplexity == pytest.approx(math.exp(-score.total / 4))


@pytest.mark.parametrize("option", ["lengths", "rescore", "nbest", "polish", "normalise"])
def test_an_option_without_effect_is_refused(writer: anyorder.LanguageModel, option: str) -> None:
    value = {"rescore": "path", "normalise": "sum"}.get(option, 3)
    more = {"rescore": "pll"} if option == "polish" else {}
    for call in (writer.fill, writer.infill, lambda text, **o: writer.generate(length=4, **o)):
        with pytest.raises(anyorder.PlanError, match="has no use for"):
            call("the [MASK] {} .", **{option: value}, **more)
    for watch in (writer.trace, lambda text, **o: list(writer.stream(text, **o))):
        with pytest.raises(anyorder.PlanError, match="has no use for beam"):
            watch("the [MASK] .", beam=2)


def test_stream_and_trace_show_the_same_filling(writer: anyorder.LanguageModel) -> None:
    text = "the [MASK] [MASK] on the [MASK] ."
    moments = list(writer.stream(text))
    trace = writer.trace(text)
    assert len(moments) == len(trace.steps) == 3
    assert moments[0].text.count("___") == 2 and moments[-1].text == trace.text
    assert [list(m.written) for m in moments] == [s.positions for s in trace.steps]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.fill("nothing is missing"), "there is no mask"),
        (lambda w: w.infill("nothing is missing"), "there is no gap"),
        (lambda w: w.infill("a {} .", length=0), "at least 1"),
        (lambda w: w.generate(length=0), "at least 1"),
        (lambda w: w.score(""), "nothing to score"),
    ],
)
def test_mistakes_are_explained(writer: anyorder.LanguageModel, call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(anyorder.TextError, match=message):
        call(writer)


def test_with_a_temperature_n_fillings_are_drawn(writer: anyorder.LanguageModel) -> None:
    text = "the [MASK] sat on the [MASK] ."
    drawn = writer.fill(text, 5, temperature=1.0)
    assert len(drawn) == 5 and len({f.ids for f in drawn}) > 1
    assert drawn == writer.fill(text, 5, temperature=1.0, beam=1) == writer.fill([text, text], 5, temperature=1.0)[1]
    assert drawn != writer.fill(text, 5, temperature=1.0, seed=1)
