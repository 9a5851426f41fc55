"""Requests drawn from the OpenAPI document, sensible and not, against a running server: never a 500.

    python tests/serve_fuzz.py http://127.0.0.1:8000 10000 [SEED]     # a server that runs
    python tests/serve_fuzz.py own 1000 SEED                          # one with small models, made for it

Counts of the second are added to those in docs/results/serving.md: a seed is a piece of the whole.
"""

from __future__ import annotations

import random
import string
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

STRANGE: list[Any] = [
    None, True, 0, -1, 1, 2, 3, 7, 10**6, -(2**70), 0.5, 1e308, -0.0, "", " ", "a", "\x00", "\u202e", "Ein Hund.", "{}",
    "[MASK] x", "🐕" * 5, "de", "en", [], {}, [None], {"text": "x"}, "L", "2L", "threshold(0.9)", "wino", "x" * 300,
]  # fmt: skip
ORDERS = ["easy-first", "forwards", "mask-predict(3)", "negent + 0.9*logp", "llada(2)", "gibbs(2)", "remdm(2)",
          "learned", "1e9*logp", "inf*logp", "random", "stale", "semi-autoregressive(2)", "path-planning(3)", "a | b",
          "left2right | wino", "entropy-bounded(0.1)", "constant-time(0)", "klass(2,2,2)", "adaptive-gibbs(2)",
          "0*logp"]  # fmt: skip
COUNTS = ["1", "2", "0", "constant", "anneal", "even", "whole", "threshold(0.9)", "factor(1)", "kl-stable", "fixed(2)",
          "above(1)"]  # fmt: skip
AMONG = ["masked", "everywhere", "revisit", "block(2)", "dilated(4)", "block(0)"]
WORDS = {"order": ORDERS, "count": COUNTS, "among": AMONG,
         "to": ["de", "en", "fr"], "from": ["de", "en"], "source": ["de", "en", "auto", "Ein Hund."],
         "target": ["en", "de"], "text": ["Ein Hund läuft.", "the [MASK] sat .", "a {} b", "[MASK]"],
         "q": ["Ein Hund.", ["Ein Hund.", "Zwei"]], "prompt": ["the cat", ["the", "a"]], "inputs": ["the [MASK] sat"],
         "canvas": [[None, {"text": "dog"}, None], [None], ["x"]], "texts": [["the cat sat"]],
         "sources": [["Ein Hund."]], "messages": [[{"role": "user", "content": "Ein Hund."}]]}  # fmt: skip


class Fuzz:
    """Requests by a seed."""

    def __init__(self, document: dict[str, Any], models: list[str], seed: int) -> None:
        self.draw, self.document, self.models = random.Random(seed), document, models
        self.words = WORDS | {"model": [*models, "none"]}
        self.paths = [
            (path, method, one) for path, methods in document["paths"].items() for method, one in methods.items()
        ]

    def value(self, schema: dict[str, Any], depth: int = 0) -> Any:
        """Something of this schema, or of none."""
        draw = self.draw
        if draw.random() < 0.06 or depth > 4:
            return draw.choice(STRANGE)
        if "$ref" in schema:
            return self.value(self.document["components"]["schemas"][schema["$ref"].split("/")[-1]], depth)
        if "anyOf" in schema:
            return self.value(draw.choice(schema["anyOf"]), depth + 1)
        if "enum" in schema or "const" in schema:
            return draw.choice(schema.get("enum", [schema.get("const")]))
        kind = schema.get("type")
        if kind == "object":
            return self.fields(schema, depth)
        if kind == "array":
            return [self.value(schema.get("items", {}), depth + 1) for _ in range(draw.randrange(4))]
        if kind == "string":
            return "".join(draw.choices(string.printable + "äß[MASK]{}", k=draw.randrange(20)))
        if kind == "integer":
            return draw.choice([0, 1, 2, 3, 5, 20, 99, -1, 2**40])
        if kind == "number":
            return draw.choice([0, 0.1, 0.9, 1, 1.5, -1, 1e30])
        return draw.choice([True, False]) if kind == "boolean" else draw.choice(STRANGE)

    def fields(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """An object: what is needed mostly, the rest now and then."""
        out, needed = {}, schema.get("required", ())
        for name, field in schema.get("properties", {}).items():
            if self.draw.random() < (0.97 if name in needed else 0.12):
                known = self.words.get(name)
                out[name] = (
                    self.draw.choice(known) if known and self.draw.random() < 0.85 else self.value(field, depth + 1)
                )
        return out

    def ask(self) -> tuple[str, str, Any]:
        """(method, path, body)"""
        path, method, one = self.draw.choice(self.paths)
        path = path.replace("{name}", self.draw.choice([*self.models, "x%2F..", "%00", "ä"]))
        body = one.get("requestBody")
        if body is None:
            return method, path, None
        return method, path, self.value(next(iter(body["content"].values()))["schema"])


def fuzz(client: httpx.Client, seed: int, many: int) -> dict[int, int]:
    """How often each status was answered; an assertion with the request where one is 500."""
    models = [one["id"] for one in client.get("/v1/models").json()["data"]]
    source = Fuzz(client.get("/openapi.json").json(), models, seed)
    seen: dict[int, int] = {}
    for _ in range(many):
        method, path, body = source.ask()
        answer = client.request(method, path) if body is None else client.request(method, path, json=body)
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, (method, path, body, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["error"], (method, path, body, answer.text)
        for leak in ("Traceback", "site-packages", "/src/anyorder"):
            assert leak not in answer.text, (method, path, body, answer.text)
    return seen


@contextmanager
def small() -> Iterator[str]:
    """`anyorder serve` with small models: translators, autoregressive ones beside and within, a BERT."""
    from cli_support import build_bert, build_grown, build_translator

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_translator(folder / "tiny")
        build_bert(folder / "bert")
        build_grown(folder / "grown")
        served = [part for n in ("tiny", "bert", "tiny-ar", "grown") for part in ("-m", str(folder / n))]
        command = [sys.executable, "-m", "anyorder", "serve", "--port", "0", *served]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            url = process.stderr.readline().split(" at ")[1].split()[0]
            threading.Thread(target=lambda: [None for _ in process.stderr or ()], daemon=True).start()
            try:
                yield url
            finally:
                process.terminate()


def _main(where: str, many: int, seed: int) -> None:
    if where != "own":
        with httpx.Client(base_url=where, timeout=120) as asking:
            print(fuzz(asking, seed, many))
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from benchmarks.serving_page import known, save

    with small() as url, httpx.Client(base_url=url, timeout=120) as asking:
        seen = fuzz(asking, seed, many)
    save(fuzz=known().get("fuzz", {}) | {str(seed): {str(status): n for status, n in sorted(seen.items())}})
    print(seed, seen)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
