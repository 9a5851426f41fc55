"""`anyorder.generate`: transformers', LLaDA's and Dream's own names give their outputs; the rest is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import anyorder
from anyorder.errors import AnyorderError

PUBLISHED = Path(__file__).parents[1] / "published"


def records(name: str) -> list[Any]:
    lines = (PUBLISHED / name / "golden.jsonl").read_text("utf-8").splitlines()
    return [r for r in map(json.loads, lines) if r["what"] == "generate"]


@pytest.fixture(scope="module")
def llada() -> Any:
    return anyorder.load(PUBLISHED / "llada")


def test_lladas_names_give_its_tokens(llada: Any) -> None:
    for r in records("llada")[::4]:
        how = {"threshold": r["threshold"]} if "threshold" in r else {"steps": r["steps"]}
        names = {"gen_length": r["gen_length"], "block_length": r["block_length"], "temperature": 0.0, "cfg_scale": 0.0}
        found = (
            anyorder.generate(llada, torch.tensor([r["prompt"]]), remasking="low_confidence", **names, **how)
            if ("threshold" not in r)
            else anyorder.generate(llada, torch.tensor([r["prompt"]]), **names, **how)
        )
        assert found[0].tolist() == r["prompt"] + r["tokens"]


def test_dreams_names_give_its_tokens() -> None:
    dream = anyorder.load(PUBLISHED / "dream")
    for r in records("dream")[::6]:
        names = {
            "max_new_tokens": r["gen_length"],
            "steps": r["steps"],
            "alg": r["method"],
            "alg_temp": 0.0,
            "eps": 1e-3,
        }
        found = anyorder.generate(dream, torch.tensor([r["prompt"]]), **names)
        assert found[0].tolist() == r["prompt"] + r["tokens"]


def test_padded_prompts_and_several_sequences(llada: Any) -> None:
    a, b = (r["prompt"] for r in records("llada")[:2])
    alone = [anyorder.generate(llada, [p], max_new_tokens=8)[0].tolist() for p in (a, b)]
    wide = max(len(a), len(b))
    ids = torch.tensor([[0] * (wide - len(p)) + p for p in (a, b)])
    mask = torch.tensor([[0] * (wide - len(p)) + [1] * len(p) for p in (a, b)])
    together = anyorder.generate(llada, ids, attention_mask=mask, max_new_tokens=8)
    assert [row[: len(p) + 8] for row, p in zip(together.tolist(), (a, b), strict=True)] == alone
    many = anyorder.generate(llada, [a], max_new_tokens=8, do_sample=True, num_return_sequences=3)
    assert len({tuple(row) for row in many.tolist()}) == 3


def test_a_streamer_is_given_the_finished_beginning(llada: Any) -> None:
    class Streamer:
        def __init__(self) -> None:
            self.got: list[int] = []
            self.ended = False

        def put(self, value: torch.Tensor) -> None:
            self.got += value.flatten().tolist()

        def end(self) -> None:
            self.ended = True

    prompt, streamer = records("llada")[0]["prompt"], Streamer()
    out = anyorder.generate(llada, [prompt], max_new_tokens=8, streamer=streamer)
    again = anyorder.generate(llada, [prompt], max_new_tokens=8)
    assert streamer.ended and streamer.got == out[0].tolist() == again[0].tolist()
    with pytest.raises(AnyorderError, match="follows one hypothesis"):
        anyorder.generate(llada, [prompt], max_new_tokens=8, num_beams=2, streamer=streamer)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({}, "say how much to write"),
        ({"max_new_tokens": 4, "repetition_penalty": 2.0}, "no argument repetition_penalty"),
        ({"max_new_tokens": 4, "alg_temp": 0.4, "alg": "entropy"}, "could have no effect"),
        ({"max_new_tokens": 4, "gen_length": 4}, "say the same"),
        ({"max_new_tokens": 4, "top_k": 5}, "need a temperature"),
        ({"gen_length": 10, "block_length": 4}, "no multiple"),
        ({"gen_length": 4, "mask_id": 7}, "the mask of"),
    ],
)
def test_refusals(llada: Any, how: dict[str, Any], says: str) -> None:
    with pytest.raises(AnyorderError, match=says):
        anyorder.generate(llada, [[5, 6]], **how)
