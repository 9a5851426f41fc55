"""Serving, measured: requests a second and latencies at rising load, all sides behind the same HTTP layer in one run.

    python -m benchmarks.serving            # writes docs/results/serving.md
    python -m benchmarks.serving --seconds 20 --clients 1 4 16 64 --threads 1

Every side is a process of its own, and torch has as many threads in each. Load is brought in two ways: by clients that
ask again as soon as they are answered, and by requests that come when they come, whether or not others are answered.
Sides take turns at every load, several times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import torch
from fastapi import FastAPI

from anyorder.serve.answers import Json
from anyorder.serve.api.libretranslate import Ask
from anyorder.serve.gate import Gate
from anyorder.serve.run import threads
from benchmarks._asking import Asking
from benchmarks.serving_page import OURS, save

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "tests/lab/records/multi30k/parallel/test_2016_flickr.de"
SIDES = {
    "anyorder serve": "rows join and leave while a batch is written, HTTP in a process of its own",
    "lock": "`translate` under a lock, a request at a time",
    "window": "`translate` of what came within 20 ms, the next batch when it is done",
    "ctranslate2": "CTranslate2, the autoregressive model, batches of what waits",
}
WINDOW = 0.020
MODEL = "de-en"
ROUNDS = 2  # turns that each side has at a load
WAIT = 90.0  # seconds for an answer
SHARES = (0.1, 0.25, 0.5, 0.75)  # of what both batching sides can do: so many requests come by themselves


# ---------------------------------------------------------------- the sides


class Taking:
    """One thread that takes what waits (at most so many, after a window) and has it translated together."""

    def __init__(self, translate: Callable[[list[str]], list[str]], most: int, window: float) -> None:
        self.translate, self.most, self.window = translate, most, window
        self.queue: SimpleQueue[tuple[str, Future[str]]] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def __call__(self, text: str) -> Future[str]:
        answer: Future[str] = Future()
        self.queue.put((text, answer))
        return answer

    def _run(self) -> None:
        while True:
            taken = [self.queue.get()]
            if self.window:
                time.sleep(self.window)
            while len(taken) < self.most:
                try:
                    taken.append(self.queue.get_nowait())
                except Empty:
                    break
            try:
                texts = self.translate([text for text, _ in taken])
            except Exception as error:
                for _, answer in taken:
                    answer.set_exception(error)
                continue
            for (_, answer), text in zip(taken, texts, strict=True):
                answer.set_result(text)


def _app(side: str, name: str) -> Any:
    """The application of a side: the same gate, the same request, the same answer."""
    import anyorder
    from anyorder.serve.app import create

    model = anyorder.load(name)
    served = create({name: model}).state.server
    if side == "ctranslate2":
        take = Taking(_ctranslate2(), 64, 0.0)
    else:
        many = 1 if side == "lock" else 256
        take = Taking(lambda texts: [t.text for t in model.translate(texts, "en", source="de")], many,
                      0.0 if side == "lock" else WINDOW)  # fmt: skip
    app = FastAPI()
    app.state.server = served

    @app.post("/translate")
    async def translate(asked: Ask) -> Json:
        assert isinstance(asked.q, str)
        return Json({"translatedText": await asyncio.wrap_future(take(asked.q)) if asked.q else ""})

    app.add_middleware(Gate, meters=served.meters, longest=1 << 20, seconds=60.0, texts=False,
                       paths=frozenset({"/translate"}))  # fmt: skip
    return app


def _ctranslate2() -> Callable[[list[str]], list[str]]:
    import anyorder
    from anyorder.models.engines import ctranslate2_run, to_ctranslate2, to_hugging_face

    ar = anyorder.load(f"{MODEL}-ar")
    direction = (ar.languages.index("de"), ar.languages.index("en"))
    names = ar.tokenizer.tokens(range(len(ar.tokenizer)))
    engine = to_ctranslate2(to_hugging_face(ar.model, direction), names, Path(tempfile.mkdtemp()))

    def translate(texts: list[str]) -> list[str]:
        ids = ctranslate2_run(engine, ar.model, names, ar.tokenizer.encode(texts, "de"))
        return [str(text) for text in ar.tokenizer.decode(ids, "en")]

    return translate


def side(name: str, model: str, threads: int) -> None:
    """Be a side: say where, and serve until killed."""
    import anyorder
    from anyorder.serve.run import Listening, bound, serve, settle
    from anyorder.serve.server import Settings

    torch.set_num_threads(threads)
    sock = bound("127.0.0.1", 0)
    ours, app = (anyorder.load(model), None) if name == OURS else (None, _app(name, model))
    sock.listen()
    print(f"http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
    if app is None:
        serve({model: ours}, Settings(), sock)
        return
    settle()  # as `anyorder serve` does
    Listening(app).run(sockets=[sock])


# ---------------------------------------------------------------- the clients


async def load(url: str, texts: Sequence[str], clients: int, seconds: float) -> list[float]:
    """Seconds that each request took, of so many clients that ask one after the other."""
    took: list[float] = []
    asking, end = Asking(url), time.perf_counter() + seconds

    async def one(start: int) -> None:
        n = start
        while time.perf_counter() < end:
            took.append(await _ask(asking, texts[n % len(texts)] if texts else ""))
            n += clients

    await asyncio.gather(*(one(k) for k in range(clients)))
    asking.close()
    return took


async def stream(url: str, texts: Sequence[str], rate: float, seconds: float) -> list[float]:
    """Seconds that each request took, of those that come at random, so many a second; the same for every side."""
    draw, asking, begun, at = random.Random(0), Asking(url), time.perf_counter(), 0.0
    asked: list[asyncio.Task[float]] = []
    while (at := at + draw.expovariate(rate)) < seconds:
        await asyncio.sleep(max(0.0, begun + at - time.perf_counter()))
        asked.append(asyncio.create_task(_ask(asking, texts[len(asked) % len(texts)])))
    took = await asyncio.gather(*asked)
    asking.close()
    return list(took)


async def _ask(asking: Asking, text: str) -> float:
    begun = time.perf_counter()
    status, answer = await asking.post("/translate", {"q": text, "source": "de", "target": "en"}, WAIT)
    assert status == 200 and "translatedText" in json.loads(answer), answer
    return time.perf_counter() - begun


def percentile(values: Sequence[float], p: float) -> float:
    """The value below which a share p is."""
    return sorted(values)[min(len(values) - 1, int(p * len(values)))]


def measure(sides: Sequence[str], model: str, threads: int, seconds: float, loads: Sequence[int]) -> dict[str, Any]:
    """All sides, taking turns at every load."""
    texts = TEXTS.read_text("utf-8").splitlines()
    command = [sys.executable, "-m", "benchmarks.serving", "--model", model, "--threads", str(threads), "--side"]
    running = {name: subprocess.Popen([*command, name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
               for name in sides}  # fmt: skip
    rows: list[dict[str, Any]] = []
    come: list[dict[str, Any]] = []
    try:
        urls = {
            name: (process.stdout.readline().strip() if process.stdout else "") for name, process in running.items()
        }
        for url in urls.values():
            asyncio.run(load(url, texts, 4, min(3.0, seconds / 2)))  # warm
        for clients in loads:
            rows += _turns(urls, seconds, "clients", clients, partial(load, texts=texts, clients=clients))
        best = {name: max(r["rate"] for r in rows if r["side"] == name) for name in urls}
        able = min(best[name] for name in (OURS, "window") if name in best)
        for rate in (round(share * able, 1) for share in SHARES):
            there = {name: url for name, url in urls.items() if SHARES[-1] * best[name] > rate - 0.1}
            come += _turns(there, seconds, "coming", rate, partial(stream, texts=texts, rate=rate))
    finally:
        for process in running.values():
            process.kill()
    return {
        "rows": rows, "coming": come, "seconds": seconds, "threads": threads, "model": model,
        "cores": len(os.sched_getaffinity(0)),
        "sides": {name: SIDES[name] for name in sides},
    }  # fmt: skip


def _turns(
    urls: dict[str, str], seconds: float, what: str, much: float, ask: Callable[..., Coroutine[Any, Any, list[float]]]
) -> list[dict[str, Any]]:
    """One load on all sides, which take turns."""
    took: dict[str, list[float]] = {name: [] for name in urls}
    spent = dict.fromkeys(urls, 0.0)
    for _ in range(ROUNDS):
        for name, url in urls.items():
            begun = time.perf_counter()
            took[name] += asyncio.run(ask(url, seconds=seconds / ROUNDS))
            spent[name] += time.perf_counter() - begun
    rows = [
        {"side": name, what: much, "rate": len(took[name]) / spent[name],
         **{f"p{p}": percentile(took[name], p / 100) for p in (50, 95, 99)}}
        for name in urls
    ]  # fmt: skip
    for row in rows:
        print(row, flush=True)
    return rows


def measure_http(model: str, threads: int) -> dict[str, float]:
    """What an empty text costs, which no model is asked about: seconds until its answer, and of the server's CPU."""
    command = [sys.executable, "-m", "benchmarks.serving", "--model", model, "--threads", str(threads), "--side", OURS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            asyncio.run(load(url, [], 1, 2))  # warm; its processes are there then
            before = _cpu(process.pid)
            took = asyncio.run(load(url, [], 1, 5))
            return {"cpu": (_cpu(process.pid) - before) / len(took), "wall": statistics.median(took)}
        finally:
            process.kill()


def family(pid: int) -> list[int]:
    """A process and its children."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process and its children have used."""
    stats = [Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()[11:13] for one in family(pid)]
    return sum(int(user) + int(system) for user, system in stats) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", choices=list(SIDES))
    parser.add_argument("--sides", choices=list(SIDES), nargs="+", default=list(SIDES))
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--threads", type=int, default=threads())
    parser.add_argument("--seconds", type=float, default=16.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--http", action="store_true", help="the HTTP layer only")
    parser.add_argument("--dry", action="store_true", help="measure, and write nothing")
    asked = parser.parse_args()
    if asked.side:
        side(asked.side, asked.model, asked.threads)
    else:
        parts: dict[str, Any] = {"http": measure_http(asked.model, asked.threads)}
        print(parts["http"])
        if not asked.http:
            parts["speed"] = measure(asked.sides, asked.model, asked.threads, asked.seconds, asked.clients)
        if not asked.dry:
            save(**parts)
