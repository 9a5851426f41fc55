"""Made-up traces that look like real ones: several strategies on one sentence, long ones, ones with HTML in them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from anyorder.traces.trace import Trace, TraceStep

SOURCE = "Zwei junge Männer spielen an einem sonnigen Nachmittag Fußball am Strand und lachen dabei."
TARGET = [
    "▁Two",
    "▁young",
    "▁men",
    "▁are",
    "▁play",
    "ing",
    "▁soc",
    "cer",
    "▁on",
    "▁the",
    "▁beach",
    "▁on",
    "▁a",
    "▁sun",
    "ny",
    "▁afternoon",
    ",",
    "▁laugh",
    "ing",
    ".",
]
RIVALS = ["▁boys", "▁people", "▁football", "▁at", "▁by", "▁sand", "▁day", "▁guys", "▁kids", "▁while", "▁one", "▁and"]
ORDERS = ("left2right", "easy-first", "mask-predict", "constant-time")
HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "&lt;b&gt;",
    "\"'`",
    "\u2028",
]


def example(
    recipe: str = "easy-first", target: list[str] | None = None, seed: int = 1, source: str | None = SOURCE
) -> Trace:
    """A trace that ends in `target`, by one of ORDERS or by "insertion"."""
    rng = random.Random(f"{recipe} {seed}")
    target = TARGET if target is None else target
    n = len(target)
    canvas: list[str | None] = [None] * n
    order = list(range(n))
    if recipe == "easy-first":  # from the ends and the punctuation inwards, with a few jumps
        order.sort(key=lambda i: min(i, n - 1 - i) + rng.uniform(0, n / 5))
    elif recipe != "left2right":
        rng.shuffle(order)
    edit = "replace"
    if recipe == "mask-predict":
        steps = _mask_predict(target, rng)
    elif recipe == "constant-time":
        steps = [_step(t, sorted(order[t * 4 : t * 4 + 4]), target, rng) for t in range(math.ceil(n / 4))]
    elif recipe == "insertion":
        edit, canvas, steps = "insert", [], _balanced_insertion(target, rng)
    else:
        steps = [_step(t, [i], target, rng) for t, i in enumerate(order)]
    score = sum(sum(s.logp) + (s.logz or 0.0) for s in steps) - 1.2
    return Trace(
        recipe=recipe, canvas=canvas, steps=steps, tokens=list(target), score=score, forwards=len(steps),
        head_rows=sum(len(s.positions) for s in steps) * 3, edit=edit, direction="de-en" if source else None,
        source=source, source_tokens=None, log_length=-1.2, text="".join(target).replace("▁", " ").strip(),
    )  # fmt: skip


def group(seed: int = 1, target: list[str] | None = None, source: str | None = SOURCE) -> list[Trace]:
    """The same sentence by each of ORDERS."""
    return [example(recipe, target, seed, source) for recipe in ORDERS]


def long(n: int = 200) -> list[str]:
    rng = random.Random(n)
    return [rng.choice(TARGET) for _ in range(n)]


def _step(
    t: int, positions: list[int], tokens: list[str], rng: random.Random, erased: list[int] | None = None
) -> TraceStep:
    probabilities = [rng.uniform(*rng.choice([(0.85, 0.999), (0.6, 0.95), (0.4, 0.8)])) for _ in positions]
    alternatives = []
    for position, p in zip(positions, probabilities, strict=True):
        rivals = [(r, math.log((1 - p) * 0.5 * 0.45**k)) for k, r in enumerate(rng.sample(RIVALS, 4))]
        alternatives.append([(tokens[position], math.log(p)), *rivals])
    return TraceStep(
        t=t, positions=positions, tokens=[tokens[p] for p in positions], ids=[len(tokens[p]) for p in positions],
        logp=[math.log(p) for p in probabilities], logz=-0.05 * rng.random(), erased=erased or [],
        alternatives=alternatives,
    )  # fmt: skip


def _mask_predict(target: list[str], rng: random.Random) -> list[TraceStep]:
    """Everything at once, then fewer and fewer of the doubtful ones again; drafts hold wrong words."""
    n, rounds = len(target), 5
    steps, doubtful = [], list(range(n))
    for r in range(rounds):
        left = n * (rounds - 1 - r) // rounds
        again = sorted(rng.sample(doubtful, min(left, len(doubtful))))
        draft = [rng.choice(RIVALS) if i in again and rng.random() < 0.6 else token for i, token in enumerate(target)]
        steps.append(_step(r, doubtful, draft, rng, erased=again))
        doubtful = again
    return steps


def _balanced_insertion(target: list[str], rng: random.Random) -> list[TraceStep]:
    """The middle first, then the middles of what remains on both sides."""
    spans, done, steps = [(0, len(target))], set[int](), []
    while spans:
        middles = [(a + b) // 2 for a, b in spans]
        slots = [sum(m > d for d in done) for m in middles]
        written = _step(len(steps), list(range(len(middles))), [target[m] for m in middles], rng)
        steps.append(replace(written, positions=slots, logz=None))
        done.update(middles)
        spans = [s for (a, b), m in zip(spans, middles, strict=True) for s in ((a, m), (m + 1, b)) if s[0] < s[1]]
    return steps
