"""Texts under a rule, measured: how often they keep it, and what a step costs with one and without.

python -m benchmarks.rules validity --texts 100     texts of the shipped translator by ten patterns; random schemas
python -m benchmarks.rules table --triples 1000     random (automaton, canvas, decoder) on the exact table
python -m benchmarks.rules cost                     a step with and without, interleaved, by states and symbols
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from dataclasses import replace
from typing import Any

import torch

import anyorder
from anyorder import recipes
from anyorder.core import Automaton, NoContext, Running, Symbols, begin, decode
from anyorder.errors import RuleError
from anyorder.models.table import Table

PATTERNS = [
    r"\d{4}-\d{2}-\d{2}", r"[A-Z][a-z]+( [a-z]+)*\.", r"[a-z.]+@[a-z]+\.(com|org)", r"(yes|no|maybe)", r"A .*\.",
    r"(\w+ ){3}\w+", r"\+\d{2} \d{3} \d{4,6}", r"[^aeiou]+", r"\"[^\"]{5,30}\"",
    r"(a|the) (man|woman|dog)( [a-z]+){1,6}",
]  # fmt: skip


def validity(texts: int, schemas: int) -> None:
    """Translations by each pattern, and of random schemas, each checked by Python's own `re`, `json`, `jsonschema`."""
    import jsonschema

    from tests.text.test_rules import schemas as random_schema

    model, rng = anyorder.load("de-en-masked"), random.Random(0)
    sources = ["Ein Hund läuft durch den Schnee.", "Zwei Kinder spielen am Strand.", "Eine Frau liest ein Buch."]
    many = [rng.choice(sources)[: rng.randint(8, 40)] for _ in range(texts)]
    for expression in PATTERNS:
        for how in (
            {"order": "easy-first", "lengths": 1},
            {"order": "mask-predict(3)", "temperature": 1.0, "lengths": 1},
            {"order": "forwards"},
        ):
            found = model.translate(many, to="en", pattern=expression, **how)  # type: ignore[call-overload]
            good = sum(re.fullmatch(expression, one.text) is not None for one in found)
            print(f"{expression:45} {how['order']:16} {good} of {len(found)}", flush=True)
    kept = refused = 0
    for n in range(schemas):
        schema = random_schema(random.Random(n))
        try:
            text = model.translate(sources[n % 3], to="en", schema=schema, lengths=1, order="easy-first").text
        except RuleError as error:
            refused += 1
            print(f"schema {n} refused: {str(error)[:100]}", flush=True)
            continue
        jsonschema.validate(json.loads(text), schema)
        kept += 1
    print(f"{kept} texts of random schemas parse and validate, {refused} schemas refused")


def table(triples: int) -> None:
    """Every recipe on random automata and canvases; raises where a text does not keep its rule."""
    rng, V = torch.Generator().manual_seed(0), 3
    tables, decoders = (
        {n: Table(n, V, seed=n) for n in (3, 4, 5)},
        [r for r in recipes.every(T=4, k=2).items() if "best" not in r[1].edit.reads],
    )
    done, start = 0, time.perf_counter()
    while done < triples:
        length, q = (int(torch.randint(*r, (1,), generator=rng)) for r in ((3, 6), (2, 7)))
        step = torch.randint(0, q + 2, (V, q), generator=rng).clamp_max(q)
        automaton, model = Automaton.of_steps(step, torch.rand(q, generator=rng) < 0.4), tables[length]
        valid = [s for s in model.sequences.tolist() if automaton.accepts(s)]
        if not valid:
            continue
        rows = [valid[int(torch.randint(0, len(valid), (1,), generator=rng))] for _ in range(8)]
        blank = torch.rand(8, length, generator=rng) < 0.7
        blank[:, 0] = True
        tokens = torch.where(blank, V, torch.tensor(rows))
        name, decoder = decoders[done // 8 % len(decoders)]
        symbols = Symbols(temperature=1.0) if done // 8 % 2 else decoder.symbols
        drawn = replace(decoder, symbols=replace(symbols, renormalise=True, meanwhile=False))
        first = begin(tokens, V, V + 1, seed=done).ruled([automaton] * 8)
        ended = decode(model, model.encode(), first, drawn).tokens.tolist()
        if not all(automaton.accepts(y) for y in ended):
            raise SystemExit(f"{name}: {ended} does not keep {automaton}")
        done += 8
    print(f"{done} triples, all valid, {time.perf_counter() - start:.0f} s")


class Random:
    """A model of the shipped one's size whose head is all that it computes, so that what a rule adds is seen."""

    pad_id = 1

    def __init__(self, symbols: int, width: int = 512) -> None:
        self.mask_id, self.vocabulary = 0, symbols
        self.head = torch.randn(symbols, width) / width**0.5
        self.states = torch.randn(64, width)

    def encode(self, source: Any) -> NoContext:
        return NoContext()

    def hidden(self, context: Any, tokens: torch.Tensor) -> torch.Tensor:
        return self.states[torch.arange(tokens.shape[1]) % 64].expand(len(tokens), -1, -1)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden @ self.head.T


def rule_of(states: int, symbols: int, classes: int = 64) -> Automaton:
    """A random automaton of so many states in which every length is possible."""
    rng = torch.Generator().manual_seed(states)
    step = torch.where(
        torch.rand(classes, states, generator=rng) < 0.3,
        torch.randint(0, states, (classes, states), generator=rng),
        states,
    )
    step[0] = (torch.arange(states) + 1) % states
    return Automaton(torch.randint(0, classes, (symbols,), generator=rng), step, torch.ones(states, dtype=torch.bool))


def cost(steps: int, rows: int, length: int) -> None:
    """Steps of easy-first with a rule and without, taken in turn."""
    print(f"{rows} rows of {length} symbols, {steps} steps; milliseconds a step")
    for symbols in (8_000, 30_000, 150_000):
        model = Random(symbols)
        for states in (1, 10, 100, 500):
            rule = rule_of(states, symbols)
            blank = torch.zeros(rows, length, dtype=torch.int64)
            first = begin(blank, 0, 1)
            both = [Running(model, recipes.easy_first) for _ in range(2)]
            both[0].join(NoContext(), first)
            both[1].join(NoContext(), first.ruled([rule] * rows))
            spent: list[list[float]] = [[], []]
            for _ in range(steps):
                for n, running in enumerate(both):
                    begun = time.perf_counter()
                    running.step()
                    spent[n].append(time.perf_counter() - begun)
            a, b = (sorted(one)[len(one) // 2] * 1000 for one in spent)
            print(f"{symbols:8,} symbols {states:4} states: {a:8.1f} {b:8.1f}  × {b / a:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["validity", "table", "cost"])
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--schemas", type=int, default=100)
    parser.add_argument("--triples", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=20)
    given = parser.parse_args()
    if given.what == "validity":
        validity(given.texts, given.schemas)
    elif given.what == "table":
        table(given.triples)
    else:
        cost(given.steps, given.rows, given.length)


if __name__ == "__main__":
    main()
