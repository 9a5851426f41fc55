"""Answers to messages with published diffusion LMs: template, ends, stop, their authors' settings, guidance, caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import anyorder
from anyorder.core import begin, decode
from anyorder.errors import AnyorderError, PlanError, TextError
from anyorder.models.diffusion_lm import Guided
from anyorder.recipes import dream, llada
from anyorder.text.conversation import answer, ended, shown, stopped
from anyorder.text.language_model import LanguageModel

FOLDERS = Path(__file__).parents[1] / "published"
ASK = [{"role": "user", "content": "Ein Junge"}]


@pytest.fixture(scope="module", params=["llada", "dream"])
def writer(request: pytest.FixtureRequest) -> LanguageModel:
    loaded = anyorder.load(FOLDERS / request.param)
    assert isinstance(loaded, LanguageModel)
    return loaded


def plain(writer: LanguageModel, ids: list[int], length: int, decoder: Any, model: Any = None) -> list[int]:
    """What the core writes after these ids."""
    model = model or writer.model
    tokens = torch.tensor([ids + [writer.model.mask_id] * length])
    state = begin(tokens, model.mask_id, model.pad_id)
    return decode(model, model.encode(None), state, decoder).tokens[0, len(ids) :].tolist()


def test_messages_are_a_prompt_by_the_template_and_the_answer_stands_alone(writer: LanguageModel) -> None:
    (found,) = writer.generate(ASK, length=16, temperature=0.0, order="confidence")
    text = writer.tokenizer.apply_chat_template(ASK, tokenize=False, add_generation_prompt=True)
    (same,) = writer.generate(text, length=16, temperature=0.0, order="confidence")
    assert found.ids == same.ids and same.text == text + found.text
    assert found.text == answer(ended(found.ids, writer.model.ends), writer.tokenizer)


def test_ends_cut_the_text_and_special_symbols_are_not_shown(writer: LanguageModel) -> None:
    words, end = writer.tokenizer.encode(" ein Ball", add_special_tokens=False), writer.model.ends[0]
    beyond = len(writer.tokenizer) + 1  # the model knows it, the tokenizer does not
    special = next(i for i in writer.tokenizer.added_tokens_decoder if i not in writer.model.ends)
    ids = [*words, special, beyond, end, *words]
    assert ended(ids, writer.model.ends) == [*words, special, beyond]
    assert shown(ids, writer.tokenizer) == words * 2
    assert answer(ended(ids, writer.model.ends), writer.tokenizer) == " ein Ball", "the space stays"


def test_stop() -> None:
    assert stopped("one two three", ["three", "tw"]) == "one " and stopped("one", ["x"]) == "one"


def test_stop_cuts_what_was_written_only(writer: LanguageModel) -> None:
    (whole,) = writer.generate("ab", length=12)
    written = whole.text.removeprefix("ab")
    (cut,) = writer.generate("ab", length=12, stop=written[3:5])
    assert cut.text == "ab" + written[: written.find(written[3:5])] and cut.ids == whole.ids
    assert writer.generate("ab", length=12, stop=["ab"])[0].text.startswith("ab")


def test_the_authors_settings_are_the_default(writer: LanguageModel) -> None:
    ids = writer.tokenizer.encode("Ein Junge", add_special_tokens=False)
    before = writer.cost.forwards
    (found,) = writer.generate("Ein Junge", length=48)
    if writer.model.family.name == "LLaDA":  # nothing is drawn; 48 steps for 48 symbols
        assert list(found.ids) == plain(writer, ids, 48, llada(32, 32))
        assert writer.cost.forwards - before == 48
        (fewer,) = writer.generate("Ein Junge", length=48, steps=24)
        assert list(fewer.ids) == plain(writer, ids, 48, llada(16, 32))
        assert len(writer.generate("Ein Junge")[0].ids) == 128 - len(ids), "as many as the model has room for"
    else:
        assert writer.cost.forwards - before == 48
        (sure,) = writer.generate("Ein Junge", length=48, temperature=0.0, top_p=1.0, steps=12)
        assert list(sure.ids) == plain(writer, ids, 48, dream(12))
        assert found.ids != sure.ids and found.ids == writer.generate("Ein Junge", length=48)[0].ids
        assert found.ids != writer.generate("Ein Junge", length=48, seed=1)[0].ids
    assert len(writer.generate("a", max_new_tokens=5)[0].ids) == 5


def test_n_differ_only_where_something_is_drawn(writer: LanguageModel) -> None:
    found = writer.generate(ASK, length=12, n=3, temperature=1.0)
    assert len({f.ids for f in found}) == 3


def test_guidance_is_the_formula(writer: LanguageModel) -> None:
    ids = writer.tokenizer.encode("Ein Junge", add_special_tokens=False)
    prompt = torch.arange(len(ids) + 8) < len(ids)
    guided = Guided(writer.model, 1.5, prompt)
    (found,) = writer.generate("Ein Junge", length=8, order="confidence", temperature=0.0, guidance=1.5)
    from anyorder.recipes import most_confident

    assert list(found.ids) == plain(writer, ids, 8, most_confident, guided)
    (without,) = writer.generate("Ein Junge", length=8, order="confidence", temperature=0.0)
    assert found.ids != without.ids


def test_a_rule_is_kept_with_the_authors_settings(writer: LanguageModel) -> None:
    import re

    (found,) = writer.generate("ab", length=6, pattern="[a-z]{1,20}")
    assert re.fullmatch("[a-z]{1,20}", found.text.removeprefix("ab"))


def test_rows_with_other_prompts_share_a_batch_under_guidance(writer: LanguageModel) -> None:
    from anyorder.text.plan import Plan

    plan = Plan.of("confidence", guidance=2.0)
    inputs = [writer._input([*[40] * k, *[writer.model.mask_id] * 6]) for k in (2, 5, 3)]
    together = writer.generator.generate(inputs, plan)
    for one, found in zip(inputs, together, strict=True):
        assert writer.generator.generate([one], plan)[0][0].ids == found[0].ids


@pytest.mark.parametrize("cache", ["approximate-prefix", "approximate-dual"])
def test_an_approximate_cache_only_when_asked(writer: LanguageModel, cache: Any) -> None:
    with pytest.raises(PlanError, match=f"take '{cache}'"):
        writer.generate("a", length=8, order="llada(4, 4)", cache=cache.removeprefix("approximate-"))
    assert len(writer.generate("a", length=8, order="llada(4, 4)", cache=cache)[0].ids) == 8
    with pytest.raises(PlanError, match="no cache"):
        writer.generate("a", length=8, cache=cache, guidance=1.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prompt": []}, "a message at least"),
        ({"prompt": [{"role": "user"}]}, "a message is"),
        ({"prompt": [{"role": "king", "content": "a"}]}, "role of a message"),
        ({"prompt": [{"role": "user", "content": [{"type": "image"}]}]}, "images are not read"),
        ({"prompt": "a", "length": 4, "max_new_tokens": 5}, "the same"),
        ({"prompt": "a", "length": 0}, "at least 1"),
        ({"prompt": "a", "stop": ""}, "stop is a text"),
        ({"prompt": "a" * 300, "length": 200}, "canvas has"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(writer: LanguageModel, given: dict[str, Any], message: str) -> None:
    with pytest.raises(AnyorderError, match=message):
        writer.generate(**given)


def test_without_a_template_there_is_no_conversation(writer: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer.tokenizer, "chat_template", None)
    with pytest.raises(TextError, match="no chat template"):
        writer.generate(ASK)
    with pytest.raises(TextError, match="no chat template"):
        writer.generate("a", system="Be brief.")
