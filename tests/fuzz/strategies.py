"""Hypothesis strategies: order expressions, texts, command lines, traces, configurations, model folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

HOSTILE = [
    "", " ", "\t", "Ein Hund.", "[/b]", "[bold]x[/bold]", "[link=file:///]x[/link]", "\x1b[31mred", "\x1b]0;title\x07",
    "\u202eabc", "\ufeff", "\x00", "a\x00b", "\udc80", "\ud800", "ein\udcffes", "<mask>", "[MASK]", "{}", "{0}", "%s",
    "今天[MASK][MASK]很好。", "x" * 300, "wort " * 80, "e\u0301" * 20, "a\r\nb", "▁▁", "</s>", "-", "--",
    "-x", "👩\u200d👩\u200d👧",
    "<script>alert(1)</script>", "../../x", "/dev/full", "NaN", "1e999", "0x10", "١٢",
]  # fmt: skip
NUMBERS = ["0", "1", "2", "3", "-1", "0.5", "1.5", "nan", "inf", "-inf", "1e9", "2e400", "9" * 30, str(2**63), "", "x"]
NAMES = [
    "negent", "logp", "position", "random", "confidence", "margin", "entropy", "stale", "uniform", "left2right",
    "right2left", "least2most", "easy-first", "hard-first", "learned", "leftmost", "mask-predict", "refinement", "wino",
    "forwards", "gibbs", "llada",
    "fast-dllm", "annealed", "constant-time", "semi-autoregressive", "adaptive-gibbs", "nothing", "∑",
]  # fmt: skip
COUNTS = [
    "fixed", "constant", "even", "anneal", "threshold", "factor", "entropy-bound", "kl-stable", "whole", "above", "odd",
]  # fmt: skip
RESCORE = ["written", "path", "pll", "forwards", "ar", "both", "marginal", "x"]
REGIONS = ["masked", "everywhere", "revisit", "block", "dilated", "nowhere"]

numbers = st.one_of(
    st.sampled_from(NUMBERS), st.integers(-5, 40).map(str), st.floats(allow_nan=True, allow_infinity=True).map(str)
)
texts = st.one_of(
    st.sampled_from(HOSTILE), st.text(max_size=40), st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join)
)
arguments = texts.map(lambda t: "".join(c for c in t if c != "\x00"))  # no shell can pass on a zero byte


def calls(names: Sequence[str]) -> st.SearchStrategy[str]:
    """name, name(1), name(0.5, nan) …"""
    brackets = st.one_of(st.just(""), st.lists(numbers, max_size=3).map(lambda a: f"({', '.join(a)})"), texts)
    return st.builds(lambda name, rest: name + rest, st.sampled_from(names), brackets)


def sums() -> st.SearchStrategy[str]:
    """Sums of features, well formed and not."""
    term = st.builds(
        lambda n, s, f: f"{n}{s}{f}",
        st.one_of(st.just(""), numbers),
        st.sampled_from(["*", "", " * "]),
        st.sampled_from(NAMES),
    )
    nested = st.integers(1, 600).map(lambda n: "(" * n + "logp" + ")" * n)
    signs = st.integers(1, 2000).map(lambda n: "-" * n + "logp")
    joined = st.lists(term, min_size=1, max_size=5).flatmap(
        lambda parts: st.sampled_from([" + ", "-", "|", " | ", ")(", "*", ""]).map(lambda s: s.join(parts))
    )
    return st.one_of(joined, nested, signs)


orders = st.one_of(st.sampled_from(NAMES), calls(NAMES), sums(), texts)
counts = st.one_of(calls(COUNTS), numbers, texts)
regions = st.one_of(calls(REGIONS), texts)
steps = st.one_of(st.sampled_from(["L", "2L", "3L"]), numbers, texts)

anything: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 50), st.just(2**63), st.floats(), orders, st.just([]), st.just({})
)


@st.composite
def expressions(draw: st.DrawFn) -> dict[str, Any]:
    """Options of a plan, as a program would give them."""
    out: dict[str, Any] = {"order": draw(orders)}
    for name, values in (("count", counts), ("among", regions), ("steps", steps)):
        if draw(st.booleans()):
            out[name] = draw(values)
    for name in ("beam", "positions", "lengths", "temperature", "order_temperature", "top_k", "top_p", "seed", "nbest",
                 "rescore", "draft", "polish", "count", "steps", "order"):  # fmt: skip
        if draw(st.integers(0, 9)) == 0:
            out[name] = draw(anything)
    return out


def flags(draw: st.DrawFn, known: dict[str, st.SearchStrategy[str] | None], most: int) -> list[str]:
    """Some options of a command."""
    out: list[str] = []
    for name in draw(st.lists(st.sampled_from(sorted(known)), max_size=most, unique=True)):
        values = known[name]
        out += (
            [name] if values is None else [f"{name}={draw(values)}"] if name.startswith("--") else [name, draw(values)]
        )
    return [a.replace("\x00", "") for a in out]


small = st.one_of(
    st.integers(-2, 4).map(str), st.integers(5, 12).map(str), st.sampled_from(["1000000", "x", "nan", ""])
)
PLAN: dict[str, st.SearchStrategy[str] | None] = {
    "--order": orders, "--count": counts, "--steps": steps, "--among": regions, "--beam": small, "--positions": small,
    "--temperature": numbers, "--seed": numbers,
}  # fmt: skip
SHOW: dict[str, st.SearchStrategy[str] | None] = {"--json": None, "--show": None}


@st.composite
def translations(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """(options, texts) of `anyorder translate`; {in}, {out}, {trace} stand for files."""
    more = {"--lengths": small, "--nbest": small, "--rescore": st.sampled_from(RESCORE),
            "--normalise": st.sampled_from(["mean", "sum", "x"]), "--samples": small, "--order-temperature": numbers,
            "--conditionals": st.sampled_from(["visible", "masked", "x"]),
            "--polish": small, "--int8": None, "--draft": None, "--beside": st.sampled_from(["de-en-ar", "x", ""]),
            "--from": st.sampled_from(["de", "en", "fr", ""]),
            "--to": st.sampled_from(["en", "de", "fr", ""])}  # fmt: skip
    options = flags(draw, {**PLAN, **SHOW, **more}, 4)
    for flag, name in (("-o", "{out}"), ("--trace", "{trace}"), ("-i", "{in}")):
        if draw(st.integers(0, 2)) == 0:
            options += [
                flag,
                draw(st.sampled_from([name, name, name, "{in}", "{out}", "{folder}", "/dev/full", "{gz}"])),
            ]
    if draw(st.integers(0, 3)) == 0:
        options.append("--resume")
    return options, draw(st.lists(arguments, max_size=3))


OWN = {
    "fill": ["-n"], "infill": ["-n", "--length"], "generate": ["-n", "--length", "--top-k", "--top-p"],
    "score": ["--tokens"],
}  # fmt: skip


@st.composite
def writings(draw: st.DrawFn) -> list[str]:
    """A command line of fill, infill, generate or score."""
    command = draw(st.sampled_from(["fill", "infill", "generate", "score"]))
    known: dict[str, st.SearchStrategy[str] | None] = {"--json": None, **({} if command == "score" else PLAN)}
    ranges = st.one_of(small, numbers, st.sampled_from(["1-3", "2..4", "1-1000000", "3-1"]))
    for flag in OWN[command]:
        known[flag] = None if flag == "--tokens" else ranges
    said = draw(st.lists(st.one_of(arguments, st.sampled_from(["the [MASK] sat", "a {} b {}", "{} " * 8])), max_size=2))
    given = said[: 1 if command == "generate" else 2]
    return [command, *flags(draw, known, 3), "--", *given]


def json_values() -> st.SearchStrategy[Any]:
    leaves = st.one_of(st.none(), st.booleans(), st.integers(-9, 10**6), st.floats(), st.sampled_from(HOSTILE))
    return st.recursive(
        leaves,
        lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(st.sampled_from(HOSTILE), x, max_size=3)),
        max_leaves=6,
    )


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """A file with something wrong: cut, bytes changed, lines moved, a value replaced, brackets without end."""
    way = draw(st.sampled_from(["cut", "bytes", "lines", "value", "deep", "empty", "other"]))
    if way == "cut":
        return good[: draw(st.integers(0, len(good)))]
    if way == "bytes":
        at, content = draw(st.integers(0, max(0, len(good) - 1))), draw(st.binary(min_size=1, max_size=8))
        return good[:at] + content + good[at + len(content) :]
    if way == "lines":
        lines = good.split(b"\n")
        i, j = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        return b"\n".join([*lines[:i], *lines[j : j + 2], *lines[i + draw(st.integers(0, 2)) :]])
    if way == "value":
        return _replaced(draw, good)
    return {"deep": b"[" * 100_000, "empty": b"", "other": draw(st.binary(max_size=60))}[way]


def _replaced(draw: st.DrawFn, good: bytes) -> bytes:
    """One value of JSON (or of one of its lines) by another."""
    lines = good.decode("utf-8", "replace").split("\n")
    whole = len(lines) > 1 and lines[0].strip() in ("{", "[")
    at = 0 if whole else draw(st.integers(0, len(lines) - 1))
    try:
        value = json.loads("\n".join(lines) if whole else lines[at])
    except ValueError:
        return good
    node = value
    while isinstance(node, (dict, list)) and node:
        keys = sorted(node) if isinstance(node, dict) else range(len(node))
        key = draw(st.sampled_from(list(keys)))
        if not isinstance(node[key], (dict, list)) or not node[key] or draw(st.booleans()):
            node[key] = draw(st.one_of(json_values(), st.sampled_from([10**9, -1, 0, 1.5, float("nan"), "x"])))
            break
        node = node[key]
    text = json.dumps(value, indent=1 if whole else None)
    return (text if whole else "\n".join([*lines[:at], text, *lines[at + 1 :]])).encode("utf-8", "replace")


SETTINGS = [
    "0", "-1", "1", "10", "1000000000", "nan", "inf", "[]", "{}", "true", '"x"', '"../../x"', "[0.9, 2]", "1.5",
    "[" * 3000,
]  # fmt: skip


@st.composite
def configurations(draw: st.DrawFn, good: str) -> str:
    """A TOML configuration of which some settings are something else."""
    lines = good.split("\n")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        key = lines[at].split("=")[0].strip()
        value = draw(st.one_of(st.sampled_from(SETTINGS), numbers))
        lines[at] = draw(st.sampled_from([f"{key} = {value}", value, "", f"[{key}]"]))
    return "\n".join(lines)
