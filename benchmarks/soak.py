"""Soak: mixed traffic on the shipped model at one, two and ten times its capacity; every translation is checked.

python -m benchmarks.soak --minutes 10            # writes docs/results/serving.md
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import httpx

from benchmarks.serving import MODEL, TEXTS, load, percentile
from benchmarks.serving_page import save

KINDS = ("translate",) * 6 + ("chat", "stream", "fill", "score", "nonsense", "leave")


def memory(pid: int) -> float:
    """Resident megabytes."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


class Traffic:
    """Requests of all kinds, at a rate, whoever has been answered."""

    def __init__(self, url: str, right: dict[str, str]) -> None:
        self.url, self.right, self.texts = url, right, list(right)
        self.seen: Counter[str] = Counter()
        self.took: list[float] = []

    async def run(self, rate: float, seconds: float) -> None:
        draw, tasks = random.Random(1), []
        begun = time.perf_counter()
        async with httpx.AsyncClient(base_url=self.url, timeout=90, limits=httpx.Limits(max_connections=500)) as client:
            while (now := time.perf_counter() - begun) < seconds:
                while len(tasks) < now * rate:
                    tasks.append(asyncio.create_task(self.one(client, draw.choice(KINDS), draw.choice(self.texts))))
                await asyncio.sleep(0.005)
            await asyncio.gather(*tasks)

    async def one(self, client: httpx.AsyncClient, kind: str, text: str) -> None:
        self.seen["asked"] += 1
        begun, way = time.perf_counter(), {"to": "en", "from": "de"}
        path, ask, timeout = "/translate", {"q": text, "source": "de", "target": "en"}, 90.0
        if kind == "chat":
            path = "/v1/chat/completions"
            ask = {"model": MODEL, "messages": [{"role": "user", "content": text}], **way}
        elif kind == "stream":
            path, ask = "/v1/stream", {"text": text, **way, "lengths": 1}
        elif kind == "fill":
            path, ask = "/v1/fill", {"text": "A [MASK] [MASK].", "source": text, "to": "en", "n": 2}
        elif kind == "score":
            path, ask = "/v1/score", {"texts": ["A dog runs."], "sources": [text], "to": "en"}
        elif kind == "nonsense":
            ask = {"q": text, "target": "xx", "order": "none"}
        elif kind == "leave":
            timeout = 0.05
        try:
            answer = await client.post(path, json=ask, timeout=timeout)
        except httpx.TimeoutException:
            self.seen["left" if kind == "leave" else "late"] += 1
            return
        except httpx.TransportError:
            self.seen["lost"] += 1
            return
        self.note(kind, text, answer, time.perf_counter() - begun)

    def note(self, kind: str, text: str, answer: httpx.Response, seconds: float) -> None:
        self.seen[str(answer.status_code)] += 1
        if answer.status_code != 200:
            self.seen["wrong"] += answer.status_code == 400 and kind != "nonsense"
            return
        self.took.append(seconds)
        if kind in ("translate", "leave"):
            self.seen["wrong"] += answer.json()["translatedText"] != self.right[text]
        elif kind == "chat":
            self.seen["wrong"] += answer.json()["choices"][0]["message"]["content"] != self.right[text]


async def recovered(url: str, text: str, normal: float) -> float:
    """Seconds after which a request takes at most twice its normal time."""
    begun = time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=90) as client:
        while time.perf_counter() - begun < 60:
            start = time.perf_counter()
            answer = await client.post("/translate", json={"q": text, "source": "de", "target": "en"})
            if answer.status_code == 200 and time.perf_counter() - start <= 2 * normal:
                return time.perf_counter() - begun
            await asyncio.sleep(0.1)
    return float("inf")


def soak(minutes: float) -> dict[str, Any]:
    """The whole of it, against a process of its own."""
    import anyorder

    texts = TEXTS.read_text("utf-8").splitlines()[:60]
    found = anyorder.load(MODEL).translate(texts, "en", source="de")
    right = {text: one.text for text, one in zip(texts, found, strict=True)}
    command = [sys.executable, "-m", "anyorder", "serve", "--port", "0", "-m", MODEL]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split(" at ")[1].split()[0]
        threading.Thread(target=lambda: [None for _ in process.stderr or ()], daemon=True).start()
        try:
            return _against(url, process.pid, right, minutes)
        finally:
            process.kill()


def _against(url: str, pid: int, right: dict[str, str], minutes: float) -> dict[str, Any]:
    texts = list(right)
    asyncio.run(load(url, texts, 4, 4))  # warm
    alone = asyncio.run(load(url, texts[:1], 1, 4))
    normal = percentile(alone, 0.95)
    begun = time.perf_counter()
    capacity = len(asyncio.run(load(url, texts, 16, 8))) / (time.perf_counter() - begun)
    before, rows = memory(pid), []
    for times in (1, 2, 10):
        traffic = Traffic(url, right)
        asyncio.run(traffic.run(times * capacity, minutes * 60 / 3))
        quick = asyncio.run(recovered(url, texts[0], normal))
        s = traffic.seen
        rows.append({
            "times": times, "asked": s["asked"], "answered": s["200"], "refused": s["503"], "wrong": s["wrong"],
            "broken": s["500"] + s["late"] + s["lost"] + s["504"], "p50": percentile(traffic.took, 0.5),
            "p99": percentile(traffic.took, 0.99), "rss": memory(pid), "recovery": quick, "seen": dict(s),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return {"rows": rows, "capacity": capacity, "minutes": minutes, "rss": before, "recovery": rows[-1]["recovery"]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    save("soak", soak(parser.parse_args().minutes))
