"""docs/results/serving.md from what benchmarks.serving and benchmarks.soak measured."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

OURS = "anyorder serve"
FOLDER = Path(__file__).parents[1] / "docs/results"


RECORD = FOLDER / "serving.json"


def known() -> dict[str, Any]:
    """What was measured so far."""
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}


def save(part: str, found: dict[str, Any]) -> None:
    """Keep what was measured, and write the page anew."""
    record = known() | {part: found}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    (FOLDER / "serving.md").write_text(page(record), "utf-8")


def page(found: dict[str, Any]) -> str:
    """The page."""
    parts = ["# Serving, measured", "Written by `python -m benchmarks.serving`, `python -m benchmarks.soak` and "
             "`python tests/serve_fuzz.py own 1000 SEED`. All sides of a table were measured in one run, taking turns; compare them with each other, not with "
             "another machine."]  # fmt: skip
    for part, write in (("speed", _speed), ("soak", _soak), ("fuzz", _fuzz)):
        parts += write(found[part]) if part in found else []
    return "\n\n".join(parts) + "\n"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f}"


def _speed(found: dict[str, Any]) -> list[str]:
    rows = [f"| {r['clients']} | {r['side']} | {r['rate']:.1f} | {_ms(r['p50'])} | {_ms(r['p95'])} | {_ms(r['p99'])} |"
            for r in found["rows"]]  # fmt: skip
    by = {(r["clients"], r["side"]): r for r in found["rows"]}
    loads = sorted({r["clients"] for r in found["rows"]})
    beside = [("lock", "rate"), ("window", "p95"), ("ctranslate2", "rate")]
    there = [(name, what) for name, what in beside if name in found["sides"]]
    ratios = [
        f"| {n} | " + " | ".join(f"{by[n, OURS][what] / by[n, name][what]:.2f}" for name, what in there) + " |"
        for n in loads
    ]
    heads = [f"{'throughput' if what == 'rate' else what}, times {name}" for name, what in there]
    return [
        "## Rising load",
        f"The shipped `de-en`, its default plan (easy-first, four lengths), one thread for the model, "
        f"{found['seconds']:g} seconds for each row; clients ask again as soon as they are answered.",
        "\n".join(f"- **{name}**: {what}" for name, what in found["sides"].items()),
        "\n".join(["| clients | side | requests/s | p50 ms | p95 ms | p99 ms |", "|---|---|---|---|---|---|", *rows]),
        "\n".join([f"| clients | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|", *ratios]),
        f"The HTTP layer alone (an empty text: parsing, keys, queue, a thread, JSON) takes {1000 * found['http']:.1f} "
        "ms a request, median.",
    ]  # fmt: skip


def _soak(found: dict[str, Any]) -> list[str]:
    rows = [
        f"| {r['times']}× | {r['asked']} | {r['answered']} | {r['refused']} | {r['wrong']} | {r['broken']} | "
        f"{_ms(r['p50'])} | {_ms(r['p99'])} | {r['rss']:.0f} |"
        for r in found["rows"]
    ]
    return [
        "## Soak",
        f"`anyorder serve` as a process, {found['minutes']:g} minutes of mixed traffic (LibreTranslate, OpenAI, "
        "streams, fillings, scores, requests that make no sense, clients that go away) at one, two and ten times the "
        f"capacity of {found['capacity']:.1f} translations a second that sixteen clients find. Every translation is "
        "compared with the library's.",
        "\n".join(["| load | asked | answered | refused (503) | wrong answers | 500 | p50 ms | p99 ms | RSS MB |",
                   "|---|---|---|---|---|---|---|---|---|", *rows]),
        f"After the flood a translation took its normal time again within {found['recovery']:.1f} s. Memory before: "
        f"{found['rss']:.0f} MB; after everything: {found['rows'][-1]['rss']:.0f} MB.",
    ]  # fmt: skip


def _fuzz(found: dict[str, dict[str, int]]) -> list[str]:
    total: Counter[str] = Counter()
    for one in found.values():
        total.update(one)
    rows = [f"| {status} | {n:,} |" for status, n in sorted(total.items())]
    broken = sum(n for status, n in total.items() if status >= "500")
    return [
        "## Fuzzed requests",
        f"{total.total():,} requests in {len(found)} runs, each of a seed of its own: bodies drawn from the OpenAPI "
        "document, with fields of the wrong kind, out of range, left out or made up, one after the other against small "
        f"models. {broken} were answered with 500 or above; no answer told of a path or a traceback, and every "
        "refusal said why.",
        "\n".join(["| status | answers |", "|---|---|", *rows]),
    ]
