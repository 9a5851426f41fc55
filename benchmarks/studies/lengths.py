"""Where target lengths come from: p(L|X), or a draft that the model writes first from left to right.

    python -m benchmarks.studies.lengths DATA -o docs/results/lengths.md

All of val, on which the numbers of lengths were chosen, and of two test sets; both directions.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from anyorder import load
from anyorder.lab.metrics import signatures
from anyorder.text.plan import Plan
from benchmarks._publish import publish
from benchmarks.studies._compare import Way, measure, table

SETS = ("val", "test_2016_flickr", "test_2017_flickr")
FOUR = "mask-predict(4) | constant-time(4)"
ORDERS = (  # name, order, proposed lengths (0: no such row), lengths around a draft
    ("uniform, T = L", "uniform", 0, 3),
    ("easy-first, T = L", "easy-first", 4, 3),
    ("left2right, T = L", "left2right", 0, 3),
    ("mask-predict, T = 10", "mask-predict(10)", 0, 3),
    ("mask-predict, T = 4, and ⌈L/4⌉", FOUR, 0, 4),
)
INTRODUCTION = """Written by `python -m benchmarks.studies.lengths DATA`. An order writes on canvases of lengths that
are known before: those that p(L|X) of `{model}` proposes, given the source's length, or (`--draft`) those nearest to
the length of a draft, which the autoregressive model that it contains writes first. Of all candidates the one is taken
that this model finds likeliest from left to right (`--rescore forwards`); nothing has the help of another model.
Passes are canvases per sentence, the draft's and the scores' included. All sentences of each set. *Δ* is against
`{other}` with a beam of 5, p by paired bootstrap. Orders that are here with a draft alone are in [the
report](README.md#how-good-and-at-what-cost) with proposed lengths."""


def ways(model: str, other: str) -> list[Way]:
    """The baseline's beam, the model's own way, then every order with proposed lengths and with a draft's."""
    own, baseline = load(model, kind="translation"), load(other, kind="translation")
    out = [Way(f"`{other}`, beam 5", baseline, Plan.of(beam=5)), Way("forwards, greedy", own, Plan())]
    for name, order, proposed, drafted in ORDERS:
        for lengths, what, draft in ((proposed, "lengths", False), (drafted, "lengths by a draft", True)):
            if lengths:
                plan = Plan.of(order, lengths=lengths, draft=draft, rescore="forwards")
                out.append(Way(f"{name}, {lengths} {what}", own, plan))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with multi30k/")
    parser.add_argument("--model", default="de-en", help="a model that contains an autoregressive one")
    parser.add_argument("--other", default="de-en-ar", help="what it is compared with")
    parser.add_argument("--set", action="append", choices=SETS, help="only this one; may be given again")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    every = ways(options.model, options.other)
    blocks = [
        "# Lengths by a draft",
        INTRODUCTION.format(model=options.model, other=options.other),
        f"BLEU: `{signatures()['BLEU']}`",
    ]
    sets = options.set or SETS
    results = measure(every, options.data, sets)
    for name in sets:
        blocks += [f"## {name}", table(results, name, [way.name for way in every])]
    publish(blocks, options.output)


if __name__ == "__main__":
    main()
