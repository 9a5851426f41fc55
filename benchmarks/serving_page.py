"""docs/results/serving.md from what benchmarks.serving and benchmarks.soak measured."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

OURS = "anyorder serve"
FOLDER = Path(__file__).parents[1] / "docs/results"


RECORD = FOLDER / "serving.json"


def known() -> dict[str, Any]:
    """What was measured so far."""
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}


def save(**parts: dict[str, Any]) -> None:
    """Keep what was measured, by the page's parts, and write the page anew."""
    record = known() | parts
    RECORD.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    (FOLDER / "serving.md").write_text(page(record), "utf-8")


def page(found: dict[str, Any]) -> str:
    """The page."""
    parts = ["# Serving, measured", "Written by `python -m benchmarks.serving`, `python -m benchmarks.soak` and "
             "`python tests/serve_fuzz.py own 1000 SEED`. All sides of a table were measured in one run, taking turns; "
             "compare them with each other, not with another machine."]  # fmt: skip
    for part, write in (("speed", _speed), ("http", _http), ("soak", _soak), ("fuzz", _fuzz)):
        parts += write(found[part]) if part in found else []
    return "\n\n".join(parts) + "\n"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f}"


def _speed(found: dict[str, Any]) -> list[str]:
    return [
        "## Rising load",
        f"The shipped `{found['model']}` with its default plan; threads of torch: {found['threads']} on every side, "
        f"cores for server and clients together: {found['cores']}; "
        f"{found['seconds']:g} seconds for each row in turns of all sides.",
        "\n".join(f"- **{name}**: {what}" for name, what in found["sides"].items()),
        "Requests that come when they come (at random, so many a second, the same ones for every side; a side that "
        "cannot do so many is left out):",
        *_tables(found["coming"], "coming", "requests/s that come"),
        "Clients that ask again as soon as they are answered:",
        *_tables(found["rows"], "clients", "clients"),
        "Clients that wait for each other's answers come together again: those of a window are answered all at once "
        "and ask all at once, so none of them ever comes while a batch is written. That is the best case for windows, "
        "and their p95 is near their median. Requests that come by themselves wait for the batch before theirs.",
        *_targets(found),
    ]


def _tables(rows: list[dict[str, Any]], what: str, head: str) -> list[str]:
    """What each side did at each load, and ours beside the others."""
    lines = [f"| {r[what]:g} | {r['side']} | {r['rate']:.1f} | {_ms(r['p50'])} | {_ms(r['p95'])} | {_ms(r['p99'])} |"
             for r in rows]  # fmt: skip
    beside = [("lock", "rate"), ("window", "rate"), ("window", "p50"), ("window", "p95"), ("ctranslate2", "rate"),
              ("ctranslate2", "p95")]  # fmt: skip
    there = [(name, field) for name, field in beside if name in {r["side"] for r in rows}]
    if what == "coming":  # all sides answer what comes
        there = [(name, field) for name, field in there if field != "rate"]
    ratios = [
        f"| {load:g} | " + " | ".join(_number(_ratio(rows, what, load, *one)) for one in there) + " |"
        for load in dict.fromkeys(r[what] for r in rows)
    ]
    heads = [f"{'throughput' if field == 'rate' else field}, times {name}" for name, field in there]
    return [
        "\n".join([f"| {head} | side | requests/s | p50 ms | p95 ms | p99 ms |", "|---|---|---|---|---|---|", *lines]),
        "\n".join([f"| {head} | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|", *ratios]),
    ]


def _ratio(rows: list[dict[str, Any]], what: str, load: float, name: str, field: str) -> float | None:
    """Ours, times another side's at the same load; None where that was left out."""
    by = {r["side"]: r for r in rows if r[what] == load}
    return float(by[OURS][field] / by[name][field]) if name in by else None


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.2f}"


def _targets(found: dict[str, Any]) -> list[str]:
    """What was aimed at, and whether it was reached."""
    out = []
    times = _ratio(found["rows"], "clients", 16, "lock", "rate")
    if times is not None:
        out.append(_aim("at least 3 times the throughput of `translate` under a lock at 16 clients", times >= 3,
                        f"{times:.2f} times"))  # fmt: skip
    for part, what, aim in (
        ("coming", "coming", "p95 below that of 20 ms windows at every load of requests that come by themselves"),
        ("rows", "clients", "the same with clients that ask again once they are answered"),
    ):
        loads = dict.fromkeys(r[what] for r in found[part])
        each = {load: _ratio(found[part], what, load, "window", "p95") for load in loads}
        missed = [f"{load:g} ({times:.2f})" for load, times in each.items() if times is not None and times >= 1]
        most = max((times for times in each.values() if times is not None), default=0.0)
        out.append(_aim(aim, not missed, f"not with {', '.join(missed)}" if missed else f"{most:.2f} at most"))
    return ["\n".join(["| aimed at | reached | measured |", "|---|---|---|", *out])]


def _http(found: dict[str, float]) -> list[str]:
    cpu, wall = 1000 * found["cpu"], 1000 * found["wall"]
    return [
        "## HTTP",
        "A request with an empty text (parsing, keys, queue, a thread, JSON, a log line; no model) takes "
        f"{cpu:.1f} ms of the server's CPU, and {wall:.1f} ms (median) until its answer is there, beside whatever else "
        "the machine did.",
        "\n".join(["| aimed at | reached | measured |", "|---|---|---|",
                   _aim("less than 5 ms a request for HTTP", wall < 5, f"{wall:.1f} ms, {cpu:.1f} of them CPU")]),
    ]  # fmt: skip


def _aim(what: str, reached: bool, measured: str) -> str:
    return f"| {what} | {'yes' if reached else '**no**'} | {measured} |"


def _soak(found: dict[str, Any]) -> list[str]:
    rows = [
        f"| {r['times']}× | {r['asked']:,} | {r['answered']:,} | {r['refused']:,} | {r['wrong']} | {r['broken']} | "
        f"{_ms(r['p50'])} | {_ms(r['p99'])} | {'' if r['refusing'] is None else _ms(r['refusing'])} | "
        f"{r['memory'][0]:.0f} → {r['memory'][-1]:.0f} | {r['rest']:.0f} | {r['recovery']:.1f} |"
        for r in found["rows"]
    ]
    full = [r["rest"] for r in found["rows"] if r["refused"]] or [0.0]  # after loads that filled the queue
    grown = {r["times"]: _grown(r["memory"]) for r in found["rows"]}
    wrong, broken = (sum(r[key] for r in found["rows"]) for key in ("wrong", "broken"))
    slowest, back = max(r["p99"] for r in found["rows"]), found["rows"][-1]["recovery"]
    aims = [
        _aim("no wrong answer", not wrong, f"{wrong}"),
        _aim("no answer 500 or 504, none late or lost", not broken, f"{broken}"),
        _aim("memory flat within 5 % while a load goes on: its last quarter against its second one",
             max(grown.values()) <= 1.05, ", ".join(f"{n}×: {100 * (g - 1):+.1f} %" for n, g in grown.items())),
        _aim("memory flat within 5 %: at rest after the first and after the last load that filled the queue",
             full[-1] <= 1.05 * full[0], f"{full[0]:.0f} → {full[-1]:.0f} MB"),
        _aim("p99 bounded: within a full queue's time and the deadline", slowest < 60, f"{slowest:.1f} s at most"),
        _aim("normal latency again within 5 s after the flood", back <= 5, f"{back:.1f} s"),
    ]  # fmt: skip
    return [
        "## Soak",
        f"`anyorder serve` as a process, {found['minutes']:g} minutes of mixed traffic (LibreTranslate, OpenAI, "
        "streams, other orders, fillings, scores, requests that make no sense, clients that go away) at "
        f"{', '.join(str(r['times']) for r in found['rows'])} times the capacity of {found['capacity']:.1f} such "
        "requests a second that sixteen clients find. Every translation is compared with the library's. The "
        "queue was full once, for some seconds, before the first load. Memory is that of both processes, at a load's "
        "beginning and end, and at rest after it. "
        f"Normal latency is twice the p95 of a client that is alone, {_ms(2 * found['normal'])} ms.",
        "\n".join(["| load | asked | answered | refused (503) | wrong answers | broken | p50 ms | p99 ms | p99 of a "
                   "refusal, ms | memory, MB | at rest | s until normal |", "|---" * 12 + "|", *rows]),
        "\n".join(["| aimed at | reached | measured |", "|---|---|---|", *aims]),
    ]  # fmt: skip


def _grown(memory: list[float]) -> float:
    """The mean of the last quarter of a series, times that of the second one."""
    quarter = max(1, len(memory) // 4)
    return statistics.fmean(memory[-quarter:]) / statistics.fmean(memory[quarter : 2 * quarter])


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
