"""Our own endpoints give what the library gives: fill, infill, score, trace, stream; and Hugging Face's fill-mask."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from anyorder.traces.reading import read
from anyorder.traces.trace import replay

TEXT = "Ein Hund läuft am Strand."


def events(text: str) -> list[tuple[str, Any]]:
    parts = [dict(line.split(": ", 1) for line in part.split("\n")) for part in text.strip().split("\n\n")]
    return [(part["event"], json.loads(part["data"])) for part in parts]


def test_a_trace_is_the_librarys(client: httpx.Client, models: dict[str, Any]) -> None:
    for how in ({"order": "left2right"}, {"beam": 2}, {"order": "mask-predict(3)"}, {"order": "wino"}):
        found = client.post("/v1/trace", json={"text": TEXT, "to": "en", **how})
        (trace,) = read(io.StringIO(found.text))
        assert trace == models["tiny"].trace(TEXT, "en", **how)
    masks = "the [MASK] sat on the [MASK] ."
    (trace,) = read(io.StringIO(client.post("/v1/trace", json={"model": "bert", "text": masks}).text))
    assert trace == models["bert"].trace(masks)


def test_a_stream_tells_every_step_of_the_trace(client: httpx.Client, models: dict[str, Any]) -> None:
    ways: list[tuple[str, dict[str, Any]]] = [
        ("tiny", {"order": "easy-first"}), ("tiny", {"order": "mask-predict(3)"}),
        ("grown", {"order": "easy-first", "draft": True}),  # of the draft nothing is told
    ]  # fmt: skip
    for model, how in ways:
        ask = {"model": model, "text": TEXT, "to": "en", "lengths": 1, **how}
        told = events(client.post("/v1/stream", json=ask).text)
        alone = models[model].trace(TEXT, "en", lengths=1, **how)
        assert [name for name, _ in told] == ["begin", *["step"] * len(alone.steps), "end"]
        steps = [one["step"] for name, one in told if name == "step"]
        assert [s["positions"] for s in steps] == [s.positions for s in alone.steps]
        assert [s["tokens"] for s in steps] == [s.tokens for s in alone.steps]
        assert told[-1][1]["text"] == alone.text
        assert len(replay(alone)) == len(steps) + 1


def test_streams_from_left_to_right_share_batches(client: httpx.Client, models: dict[str, Any], app: Any) -> None:
    """Each has the steps and the cost that it has alone; the last bits of a log p may differ with the batch."""
    texts = [TEXT, "Zwei Kinder.", "Ein Hund.", "Kinder spielen im Garten am Strand."] * 2
    ask = {"model": "grown", "to": "en", "from": "de"}
    shared = app.state.server.meters.rows._sum
    before, steps = shared.get(), app.state.server.meters.steps._value.get()
    with ThreadPoolExecutor(len(texts)) as pool:
        found = list(pool.map(lambda text: client.post("/v1/stream", json=ask | {"text": text}).text, texts))
    for text, told in zip(texts, found, strict=True):
        alone = models["grown"].trace(text, "en", source="de")
        *_, (name, end) = events(told)
        (trace,) = read(io.StringIO("\n".join(map(json.dumps, end["records"]))))
        assert name == "end" and [s.ids for s in trace.steps] == [s.ids for s in alone.steps]
        for one, other in zip(trace.steps, alone.steps, strict=True):
            assert one.logp == pytest.approx(other.logp, abs=1e-4) and one.positions == other.positions
        assert (trace.text, trace.forwards, trace.head_rows) == (alone.text, alone.forwards, alone.head_rows)
    assert shared.get() - before > 1.5 * (app.state.server.meters.steps._value.get() - steps), "each had its own batch"


def test_a_stream_that_has_nothing_to_tell_is_refused_as_any_request(client: httpx.Client) -> None:
    refused = client.post("/v1/stream", json={"model": "bert", "text": "there is no blank"})
    assert refused.status_code == 400 and "no mask" in refused.json()["error"]["message"]


def test_words_that_are_fixed_stay(client: httpx.Client, models: dict[str, Any]) -> None:
    canvas = [None, {"text": "dog"}, None, None]
    told = events(client.post("/v1/stream", json={"text": TEXT, "to": "en", "canvas": canvas}).text)
    ids = models["tiny"].tokenizer.encode(["dog"], "en")[0]
    names = models["tiny"].tokenizer.tokens(ids)
    assert told[0][1]["canvas"] == [None, *names, None, None]
    head, *_, end = told[-1][1]["records"]
    assert end["tokens"][1 : 1 + len(names)] == names and None not in end["tokens"]
    assert head["canvas"] == told[0][1]["canvas"]
    for wrong in ([{"text": "dog"}], ["<mask>", None], ["no such token", None], [None] * 99):
        refused = client.post("/v1/stream", json={"text": TEXT, "to": "en", "canvas": wrong})
        assert refused.status_code == 400 and refused.json()["error"]["param"] == "canvas"


def test_fill_infill_and_score(client: httpx.Client, models: dict[str, Any]) -> None:
    bert, tiny = models["bert"], models["tiny"]
    text = "the [MASK] sat on the [MASK] ."
    found = client.post("/v1/fill", json={"model": "bert", "text": text, "n": 3}).json()["fillings"]
    alone = bert.fill(text, 3)
    assert [f["text"] for f in found] == [f.text for f in alone]
    assert [f["probability"] for f in found] == pytest.approx([f.probability for f in alone])
    gap = client.post("/v1/infill", json={"model": "bert", "text": "the {} on the mat .", "longest": 3, "n": 2}).json()
    assert [f["text"] for f in gap["fillings"]] == [f.text for f in bert.infill("the {} on the mat .", range(1, 4), 2)]
    scores = client.post("/v1/score", json={"model": "bert", "texts": ["the cat sat ."]}).json()["scores"]
    assert scores[0]["total"] == pytest.approx(bert.score("the cat sat .").total, abs=1e-4)
    ask = {"texts": ["A dog."], "sources": [TEXT], "to": "en"}
    total = client.post("/v1/score", json=ask).json()["scores"][0]["total"]
    assert total == pytest.approx(tiny.score([TEXT], ["A dog."], "en")[0], abs=1e-3)
    masked = {"text": "A [MASK] runs.", "source": TEXT, "to": "en", "n": 2}
    fillings = client.post("/v1/fill", json=masked).json()["fillings"]
    assert len(fillings) == 2 and all(f["text"].startswith("A") for f in fillings)
    assert fillings[0]["logp"] >= fillings[1]["logp"]


def test_choices_are_the_librarys(client: httpx.Client, models: dict[str, Any]) -> None:
    asked = {"model": "bert", "text": "the {} ran .", "labels": ["cat", "the dog"]}
    found = client.post("/v1/choose", json=asked).json()["choices"]
    assert [c["label"] for c in found] == [c.label for c in models["bert"].choose("the {} ran .", ["cat", "the dog"])]
    form = "the {who:cat|dog} sat on {where:mat|the park} ."
    told = client.post("/v1/choose", json={"model": "bert", "text": form}).json()
    assert told["best"] == models["bert"].read(form).best and set(told["slots"]) == {"who", "where"}
    assert client.post("/v1/choose", json={"model": "tiny", "text": "{}", "labels": ["a", "b"]}).status_code == 400


def test_fill_mask_has_hugging_faces_shape(client: httpx.Client, models: dict[str, Any], url: str) -> None:
    one = client.post("/models/bert", json={"inputs": "the [MASK] sat ."}).json()
    alone = models["bert"].fill("the [MASK] sat .", 5)
    assert [f["sequence"] for f in one] == [f.text for f in alone] and one[0]["token"] == alone[0].ids[0]
    two = client.post("/models/bert", json={"inputs": ["the [MASK] sat on the [MASK] ."], "parameters": {"top_k": 2}})
    assert len(two.json()[0]) == 2 and len(two.json()[0][0]["token"]) == len(two.json()[0][0]["token_str"]) == 2
    hub = pytest.importorskip("huggingface_hub")
    found = hub.InferenceClient(f"{url}/models/bert").fill_mask("the [MASK] sat .")
    assert [f.token_str for f in found] == [f["token_str"] for f in one]
    assert client.post("/models/tiny", json={"inputs": "[MASK]"}).status_code == 400


def test_every_example_of_the_documentation_runs(client: httpx.Client) -> None:
    """Each request that /openapi.json shows as an example is answered, for a model that it is meant for."""
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for ask in methods.values():
            body = ask.get("requestBody")
            if body is None:
                continue
            example = next(iter(body["content"].values()))["example"]
            example |= (
                {"model": "bert"}
                if path in ("/v1/infill", "/v1/choose")
                else {"model": "tiny"}
                if "model" in example
                else {}
            )
            answer = client.post(path.replace("{name}", "bert"), json=example)
            assert answer.status_code == 200, (path, example, answer.text)
