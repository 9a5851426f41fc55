"""OpenAI's API, by its own client: completions, chats, streams, errors in its shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

openai = pytest.importorskip("openai")

TEXT = "Ein Hund läuft am Strand."


@pytest.fixture(scope="module")
def api(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


def chat(api: Any, text: str = TEXT, **more: Any) -> Any:
    return api.chat.completions.create(model="tiny", messages=[{"role": "user", "content": text}], **more)


def test_models(api: Any) -> None:
    assert [m.id for m in api.models.list()] == ["tiny", "bert", "tiny-ar", "grown"]
    assert api.models.retrieve("tiny").owned_by == "anyorder"


def test_a_translation_is_what_the_library_gives(api: Any, models: dict[str, Any]) -> None:
    alone = models["tiny"].translate(TEXT, "en", source="de")
    way = {"extra_body": {"to": "en", "from": "de"}}
    whole = api.completions.create(model="tiny", prompt=TEXT, **way)
    assert whole.choices[0].text == alone.text and whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens == len(alone.hypotheses[0].ids)
    said = chat(api, **way)
    assert said.choices[0].message.content == alone.text and said.choices[0].message.role == "assistant"
    options = {"order": "left2right", "beam": 2, "lengths": 2}
    other = chat(api, extra_body={"to": "en", "from": "de", **options}).choices[0].message.content
    assert other == models["tiny"].translate(TEXT, "en", source="de", **options).text


def test_several_choices_and_seeds(api: Any, models: dict[str, Any]) -> None:
    way = {"to": "en", "from": "de"}
    best = chat(api, n=3, extra_body=way).choices
    alone = models["tiny"].translate(TEXT, "en", source="de", nbest=3, beam=3)
    assert [c.message.content for c in best] == [h.text for h in alone.hypotheses]
    drawn = [chat(api, n=2, seed=5, temperature=1.0, extra_body=way) for _ in range(2)]
    texts = [[c.message.content for c in one.choices] for one in drawn]
    assert texts[0] == texts[1] and texts[0][0] != texts[0][1]
    many = api.completions.create(model="tiny", prompt=[TEXT, "Zwei Kinder."], extra_body=way)
    each = [models["tiny"].translate(t, "en", source="de").text for t in (TEXT, "Zwei Kinder.")]
    assert [c.text for c in many.choices] == each and [c.index for c in many.choices] == [0, 1]


def test_texts_under_a_rule_share_batches_with_free_ones(api: Any, models: dict[str, Any]) -> None:
    """By OpenAI's field, vLLM's, and an option of ours; what else is written at the same time stays as it is."""
    way = {"to": "en", "from": "de", "order": "easy-first"}
    free = chat(api, extra_body=way).choices[0].message.content
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}

    def ask(given: dict[str, Any]) -> str:
        return str(chat(api, **given).choices[0].message.content)

    asked: list[tuple[dict[str, Any], Any]] = [
        ({"extra_body": way}, None),
        ({"response_format": form, "extra_body": way}, lambda t: isinstance(json.loads(t)["ok"], bool)),
        ({"extra_body": way | {"structured_outputs": {"regex": r"\d{2}:\d{2}"}}}, re.compile(r"\d\d:\d\d").fullmatch),
        ({"extra_body": way | {"structured_outputs": {"choice": ["yes", "no"]}}}, {"yes", "no"}.__contains__),
        ({"extra_body": way | {"include": "xyz"}}, re.compile(r".*\bxyz\b.*").fullmatch),
        ({"extra_body": way}, None),
    ]
    with ThreadPoolExecutor(len(asked)) as pool:
        for (given, fits), text in zip(asked, pool.map(ask, [given for given, _ in asked]), strict=True):
            assert text == free if fits is None else fits(text), (given, text)
    api.completions.create(model="bert", prompt="the ", max_tokens=6, extra_body={"pattern": "(cat|dog)( [a-z]+)*"})
    with pytest.raises(openai.BadRequestError, match="'not' is not obeyed"):
        bad = {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}
        chat(api, response_format=bad, extra_body=way)


@pytest.mark.parametrize("order", ["left2right", "easy-first", "mask-predict(3)"])
def test_a_stream_adds_up_to_the_whole(api: Any, order: str) -> None:
    how = {"extra_body": {"to": "en", "from": "de", "order": order, "lengths": 1}}
    whole = chat(api, **how).choices[0].message.content
    chunks = list(chat(api, stream=True, stream_options={"include_usage": True}, **how))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].usage.completion_tokens > 0
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    text = api.completions.create(model="tiny", prompt=TEXT, stream=True, **how)
    assert "".join(c.choices[0].text for c in text) == whole


def test_the_finished_beginning_is_sent_as_it_grows(api: Any) -> None:
    """From left to right a text comes in pieces; a decoder that may take symbols back says nothing before the end."""
    prompt = {"model": "bert", "prompt": "the cat", "max_tokens": 12, "temperature": 0, "stream": True}
    for order, several in (("left2right", True), ("mask-predict(3)", False)):
        chunks = [c.choices[0].text for c in api.completions.create(**prompt, extra_body={"order": order})]
        assert (len([c for c in chunks if c]) > 1) is several
        whole = api.completions.create(**prompt | {"stream": False}, extra_body={"order": order}).choices[0].text
        assert "".join(chunks) == whole


def test_a_stop_sequence_ends_a_text_streamed_or_not(api: Any) -> None:
    how: dict[str, Any] = {"model": "bert", "prompt": "the", "max_tokens": 12, "temperature": 0}
    how["extra_body"] = {"order": "left2right"}
    whole = api.completions.create(**how).choices[0].text
    stop = " ".join(whole.split()[2:4])
    cut = api.completions.create(**how, stop=[stop, "never"]).choices[0]
    assert cut.text == whole[: whole.index(stop)] and cut.finish_reason == "stop"
    assert "".join(c.choices[0].text for c in api.completions.create(**how, stop=stop, stream=True)) == cut.text


def test_log_probabilities(api: Any, models: dict[str, Any]) -> None:
    (best,) = models["tiny"].translate(TEXT, "en", source="de").hypotheses
    how = {"extra_body": {"to": "en", "from": "de"}}
    found = api.completions.create(model="tiny", prompt=TEXT, logprobs=3, **how).choices[0]
    assert "".join(found.logprobs.tokens) == found.text == best.text
    assert found.logprobs.token_logprobs == pytest.approx(best.logp, abs=1e-4)
    assert all(len(top) == 3 for top in found.logprobs.top_logprobs)
    content = chat(api, logprobs=True, top_logprobs=2, **how).choices[0].logprobs.content
    assert [c.logprob for c in content] == pytest.approx(best.logp, abs=1e-4)
    assert all(c.logprob <= c.top_logprobs[0].logprob + 1e-6 for c in content)


def test_a_language_model_goes_on_and_fills_gaps(api: Any, models: dict[str, Any]) -> None:
    text = api.completions.create(model="bert", prompt="the cat", max_tokens=4, seed=2)
    alone = models["bert"].generate("the cat", length=4, seed=2)[0]
    assert text.choices[0].text == models["bert"].tokenizer.decode(alone.ids) and text.usage.completion_tokens == 4
    assert text.choices[0].finish_reason == "length"
    gap = api.completions.create(model="bert", prompt="the ", suffix=" on the mat .", max_tokens=3, temperature=0)
    best = models["bert"].infill("the {} on the mat .", range(1, 4))[0]
    assert gap.choices[0].text == models["bert"].tokenizer.decode(best.ids)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"logit_bias": {"50": 1}}, "logit_bias"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "grammar"}}, "response_format"),
        ({"extra_body": {"structured_outputs": {"grammar": "root ::= x"}}}, "structured_outputs"),
        ({"n": 1000}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"extra_body": {"anything": 1}}, "anything"),
    ],
)
def test_what_has_no_meaning_is_refused_in_its_own_shape(api: Any, more: dict[str, Any], field: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        chat(api, **more)
    body = refused.value.body
    assert body["param"] == field and body["type"] == "invalid_request_error" and body["message"]


def test_errors_have_its_types(api: Any, url: str) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        api.completions.create(model="/etc/passwd", prompt="x")
    assert missing.value.body["code"] == "model_not_found"
    with pytest.raises(openai.BadRequestError):
        chat(api, "Hund " * 80)
    with pytest.raises(openai.BadRequestError, match="conversations"):
        api.chat.completions.create(model="tiny", messages=[{"role": "system", "content": "x"}] * 2)
    with pytest.raises(openai.BadRequestError, match="suffix"):
        api.completions.create(model="tiny", prompt=TEXT, suffix="x")
