"""The answer to a request never depends on who else is there: many at once equal each alone, for every recipe."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

import anyorder
from anyorder import recipes

WORDS = ("Ein", "Hund", "läuft", "am", "Strand", "Kinder", "spielen", "im", "Garten", "Zwei")
ORDERS = [*recipes.STRATEGIES, *(f"{n}(3)" for n in recipes.FAMILIES if n not in ("wino", "klass", "fast-dllm"))]
ORDERS += ["wino", "klass", "fast-dllm", "easy-first | left2right"]
HOW: list[dict[str, Any]] = [
    *({"order": order} for order in ORDERS), {"beam": 3}, {"beam": 2, "positions": 2, "order": "uniform"},
    {"temperature": 1.0, "seed": 3}, {"steps": 2, "count": "anneal"}, {"rescore": "pll", "steps": "2L"},
    {"rescore": "ar", "order": "easy-first", "order_temperature": 1.0},
]  # fmt: skip


def sentence(n: int) -> str:
    return " ".join(WORDS[(n * 7 + k * (n % 3 + 1)) % len(WORDS)] for k in range(1 + n % 4)) + "."


async def all_at_once(url: str, asks: list[dict[str, Any]]) -> list[httpx.Response]:
    limits = httpx.Limits(max_connections=len(asks))
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        return list(await asyncio.gather(*(client.post("/translate", json=ask) for ask in asks)))


def test_two_hundred_requests_at_once_equal_two_hundred_alone(url: str, models: dict[str, Any], app: Any) -> None:
    """Every recipe, beams, samples and rescoring, mixed; alone means without a server."""
    asks = [{"q": sentence(n), "source": "de", "target": "en", "lengths": 2, **HOW[n % len(HOW)]} for n in range(200)]
    answers = asyncio.run(all_at_once(url, asks))
    alone: dict[str, str] = {}
    for ask, answer in zip(asks, answers, strict=True):
        assert answer.status_code == 200, answer.text
        how = {k: v for k, v in ask.items() if k not in ("q", "source", "target")}
        key = f"{ask['q']} {how}"
        if key not in alone:
            alone[key] = models["tiny"].translate(ask["q"], "en", source="de", **how).text
        assert answer.json()["translatedText"] == alone[key], how
    rows = app.state.server.meters.rows
    assert sum(b.get() for b in rows._buckets[2:]) > 0, "rows of several requests never shared a batch"


def test_rows_join_a_batch_under_way(url: str, models: dict[str, Any]) -> None:
    """Requests that come one after the other while others are being written get what they get alone."""
    asks = [{"q": sentence(n + 1), "source": "de", "target": "en", "lengths": 2} for n in range(24)]

    async def one_after_the_other() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            waiting = []
            for ask in asks:
                waiting.append(asyncio.create_task(client.post("/translate", json=ask)))
                await asyncio.sleep(0.003)
            return list(await asyncio.gather(*waiting))

    for ask, answer in zip(asks, asyncio.run(one_after_the_other()), strict=True):
        alone = models["tiny"].translate(ask["q"], "en", source="de", lengths=2).text
        assert answer.json() == {"translatedText": alone}


def test_texts_that_end_by_themselves_join_and_leave(url: str, models: dict[str, Any]) -> None:
    """From left to right with a cache: rows at any column, of any source, in one batch."""
    how: list[dict[str, Any]] = [
        {},
        {"order": "forwards"},
        {},
        {"beam": 3},
        {"temperature": 1.0},
        {"order": "easy-first"},
        {"order": "mask-predict(3)", "draft": True, "rescore": "forwards"},
    ]
    asks = [(sentence(n + 1), how[n % len(how)]) for n in range(35)]

    async def one_after_the_other() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            waiting = []
            for text, more in asks:
                ask = {"model": "grown", "prompt": text, "from": "de", "to": "en", "max_tokens": 100, **more}
                waiting.append(asyncio.create_task(client.post("/v1/completions", json=ask)))
                await asyncio.sleep(0.003)
            return list(await asyncio.gather(*waiting))

    for (text, more), answer in zip(asks, asyncio.run(one_after_the_other()), strict=True):
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["text"] == models["grown"].translate(text, "en", source="de", **more).text


@pytest.mark.parametrize("q", [["Ein Hund.", "", "Zwei Kinder spielen im Garten."], "Ein Hund.\n\nZwei Kinder."])
def test_a_list_or_lines_are_what_they_are_one_by_one(client: httpx.Client, models: dict[str, Any], q: Any) -> None:
    answer = client.post("/translate", json={"q": q, "source": "de", "target": "en"}).json()["translatedText"]
    lines = q if isinstance(q, list) else q.splitlines()
    alone = [models["tiny"].translate(line, "en").text for line in lines]
    assert (answer if isinstance(answer, list) else answer.split("\n")) == alone


def test_every_recipe_is_asked_for() -> None:
    named = {order.split("(")[0] for how in HOW for order in [str(how.get("order", ""))]}
    assert {*recipes.STRATEGIES, *recipes.FAMILIES} <= named
    assert anyorder.Plan.of("wino").check()
