"""Soak: mixed traffic on the shipped model at one, two and ten times its capacity; every translation is checked.

python -m benchmarks.soak --minutes 10            # writes docs/results/serving.md
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks._asking import Asking
from benchmarks.serving import MODEL, TEXTS, WAIT, family, load, percentile
from benchmarks.serving_page import save

KINDS = ("translate",) * 6 + ("chat", "stream", "easy", "fill", "score", "nonsense", "leave")
SAMPLE = 5.0  # seconds between two looks at the memory
REST = 3.0  # seconds without requests before the look at what is kept
FULL = (4, 10)  # times the capacity, seconds: before the first load the queue is full once, so that its room is taken


def memory(pid: int) -> float:
    """Megabytes that a process and its children have, each page that they share counted once."""
    total = 0.0
    for one in family(pid):
        with open(f"/proc/{one}/smaps_rollup", encoding="utf-8") as shares:
            total += next(int(line.split()[1]) / 1024 for line in shares if line.startswith("Pss:"))
    return total


class Traffic:
    """Requests of all kinds, at a rate, whoever has been answered."""

    def __init__(self, url: str, pid: int, right: dict[str, str]) -> None:
        self.asking, self.pid, self.right, self.texts = Asking(url), pid, right, list(right)
        self.seen: Counter[str] = Counter()
        self.took: list[float] = []
        self.refusing: list[float] = []  # seconds until a refusal
        self.memory: list[float] = []  # megabytes, every few seconds

    async def run(self, rate: float, seconds: float) -> None:
        """That many requests a second, for so long; then wait for the last answer."""
        draw, begun, tasks = random.Random(1), time.perf_counter(), set()
        while (now := time.perf_counter() - begun) < seconds:
            while self.seen["asked"] < now * rate:
                self.seen["asked"] += 1
                task = asyncio.create_task(self.one(draw.choice(KINDS), draw.choice(self.texts)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if now >= SAMPLE * len(self.memory):
                self.memory.append(memory(self.pid))
            await asyncio.sleep(0.005)
        await asyncio.gather(*tasks)
        self.asking.close()

    async def busily(self, clients: int, seconds: float) -> float:
        """Requests a second that clients who always ask again get answered."""
        draw, begun = random.Random(2), time.perf_counter()

        async def client() -> None:
            while time.perf_counter() - begun < seconds:
                self.seen["asked"] += 1
                await self.one(draw.choice(KINDS), draw.choice(self.texts))

        await asyncio.gather(*(client() for _ in range(clients)))
        self.asking.close()
        return self.seen["asked"] / (time.perf_counter() - begun)

    async def one(self, kind: str, text: str) -> None:
        """One request."""
        begun, way = time.perf_counter(), {"to": "en", "from": "de"}
        path, ask, wait = "/translate", {"q": text, "source": "de", "target": "en"}, WAIT
        if kind == "chat":
            path = "/v1/chat/completions"
            ask = {"model": MODEL, "messages": [{"role": "user", "content": text}], **way}
        elif kind == "stream":
            path, ask = "/v1/stream", {"text": text, **way}
        elif kind == "fill":
            path, ask = "/v1/fill", {"text": "A [MASK] [MASK].", "source": text, "to": "en", "n": 2}
        elif kind == "score":
            path, ask = "/v1/score", {"texts": ["A dog runs."], "sources": [text], "to": "en"}
        elif kind == "easy":
            ask |= {"order": "easy-first", "lengths": 1}
        elif kind == "nonsense":
            ask = {"q": text, "target": "xx", "order": "none"}
        elif kind == "leave":
            wait = 0.05
        try:
            status, answer = await self.asking.post(path, ask, wait)
        except TimeoutError:
            self.seen["left" if kind == "leave" else "late"] += 1
        except OSError:
            self.seen["lost"] += 1
        else:
            self.note(kind, text, status, answer, time.perf_counter() - begun)

    def note(self, kind: str, text: str, status: int, answer: bytes, seconds: float) -> None:
        """Count an answer, and compare it with what the library says."""
        self.seen[str(status)] += 1
        if status != 200:
            self.seen["wrong"] += status == 400 and kind != "nonsense"
            if status == 503:
                self.refusing.append(seconds)
            return
        self.took.append(seconds)
        if kind in ("translate", "leave"):
            self.seen["wrong"] += json.loads(answer)["translatedText"] != self.right[text]
        elif kind == "chat":
            self.seen["wrong"] += json.loads(answer)["choices"][0]["message"]["content"] != self.right[text]
        elif kind == "stream":
            last = json.loads(answer.strip().split(b"data: ")[-1])
            self.seen["wrong"] += last.get("text") != self.right[text]


async def recovered(url: str, text: str, normal: float) -> float:
    """Seconds after which a request takes at most twice its normal time."""
    begun, asking = time.perf_counter(), Asking(url)
    while time.perf_counter() - begun < 60:
        start = time.perf_counter()
        status, _ = await asking.post("/translate", {"q": text, "source": "de", "target": "en"}, WAIT)
        if status == 200 and time.perf_counter() - start <= 2 * normal:
            break
        await asyncio.sleep(0.1)
    asking.close()
    return time.perf_counter() - begun


def soak(minutes: float, keep: Callable[[dict[str, Any]], None]) -> None:
    """The whole of it, against a process of its own; what was found is kept after every load."""
    import anyorder

    texts = TEXTS.read_text("utf-8").splitlines()[:60]
    found = anyorder.load(MODEL).translate(texts, "en", source="de")
    right = {text: one.text for text, one in zip(texts, found, strict=True)}
    gc.collect()
    gc.freeze()  # or looking for garbage would hold up the clients, and be taken for the server's time
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # as many connections as may be
    command = [sys.executable, "-m", "anyorder", "serve", "--port", "0", "-m", MODEL]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split(" at ")[1].split()[0]
        threading.Thread(target=lambda: [None for _ in process.stderr or ()], daemon=True).start()
        try:
            for part in _against(url, process.pid, right, minutes):
                keep(part)
        finally:
            process.kill()


def _against(url: str, pid: int, right: dict[str, str], minutes: float) -> Iterator[dict[str, Any]]:
    texts, share = list(right), minutes * 60 / 3
    asyncio.run(load(url, texts, 4, 4))  # warm
    normal = percentile(asyncio.run(load(url, texts[:1], 1, 4)), 0.95)
    capacity = asyncio.run(Traffic(url, pid, right).busily(16, 12))
    asyncio.run(Traffic(url, pid, right).run(FULL[0] * capacity, FULL[1]))
    rows = []
    for times in (1, 2, 10):
        traffic = Traffic(url, pid, right)
        asyncio.run(traffic.run(times * capacity, share))
        s, quick = traffic.seen, asyncio.run(recovered(url, texts[0], normal))
        time.sleep(REST)
        rows.append({
            "times": times, "asked": s["asked"], "answered": s["200"], "refused": s["503"], "wrong": s["wrong"],
            "broken": s["500"] + s["late"] + s["lost"] + s["504"], "p50": percentile(traffic.took, 0.5),
            "p99": percentile(traffic.took, 0.99), "memory": traffic.memory, "rest": memory(pid), "recovery": quick,
            "seen": dict(s),
            "refusing": percentile(traffic.refusing, 0.99) if traffic.refusing else None,
        })  # fmt: skip
        print(rows[-1], flush=True)
        yield {"rows": rows, "capacity": capacity, "normal": normal, "minutes": minutes * len(rows) / 3}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--dry", action="store_true", help="measure, and write nothing")
    asked = parser.parse_args()
    soak(asked.minutes, (lambda _: None) if asked.dry else lambda found: save(soak=found))
