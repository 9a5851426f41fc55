"""The mean of a model that contains an autoregressive one and of the one that it grew out of, beside both.

    python -m benchmarks.studies.averages DATA -o docs/results/average.md

All of val, on which the shares were chosen, and of two test sets; both directions.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from anyorder import load
from anyorder.lab.metrics import signatures
from anyorder.models.average import average
from anyorder.models.catalog import found
from anyorder.text.plan import Plan
from benchmarks._publish import publish
from benchmarks.studies._compare import DIRECTIONS, Way, measure, table

SETS = ("val", "test_2016_flickr", "test_2017_flickr")
SHARES = {"mean": (1, 1), "mean 1 : 2": (1, 2), "mean 1 : 3": (1, 3)}  # of the model, of the autoregressive one
INTRODUCTION = """Written by `python -m benchmarks.studies.averages DATA`. `anyorder average {model} {other} -o FOLDER`
writes a model whose weights are the mean of both, and which costs what one of them costs. All sentences of each set,
from left to right to an end of its own unless an order is named; passes are canvases per sentence. *Δ* is against
`{other}` with a beam of 5, p by paired bootstrap; it is also *the other*, which rescores (`--rescore ar --beside
{other}`). The last two rows show what the mean is not for: halfway to the autoregressive model, it has forgotten how
to fill masks."""
RESCORED = {"ar": "rescoring by the other", "both": "rescoring by both"}
BEST = """On val, both directions together, the best shares are {best}; nothing was chosen on the test sets."""


def ways(model: str, other: str, folder: Path) -> list[Way]:
    """The baseline's beam first, then both models and what lies between them."""
    own, baseline = load(model, kind="translation"), load(other, kind="translation")
    out = [Way(f"{other}, beam 5", baseline, Plan.of(beam=5)), Way(f"{other}, greedy", baseline, Plan())]
    between = {}
    for name, (a, b) in SHARES.items():
        average([found(model)] * a + [found(other)] * b, folder / name)
        between[name] = replace(load(folder / name, kind="translation"), beside=lambda: baseline)  # its cost counts
    for name, translator in {model: own, **between}.items():
        greedy = [("greedy", Plan())] if name in (model, "mean") else []
        for how, plan in [*greedy, ("beam 4", Plan.of(beam=4))]:
            out.append(Way(f"{name}, {how}", translator, plan))
    for rescore, by in RESCORED.items():
        for name, translator in between.items():
            out.append(Way(f"{name}, beam 4, {by}", translator, Plan.of(beam=4, rescore=rescore)))
    filling = Plan.of("mask-predict(4)", lengths=1)
    pair = {model: own, "mean": between["mean"]}
    return out + [Way(f"{name}, mask-predict, T = 4, 1 length", one, filling) for name, one in pair.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with multi30k/")
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--other", default="de-en-ar", help="the autoregressive model that it grew out of")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    blocks = [
        "# The mean of two models",
        INTRODUCTION.format(model=options.model, other=options.other),
        f"BLEU: `{signatures()['BLEU']}`",
    ]
    with tempfile.TemporaryDirectory() as folder:
        every = ways(options.model, options.other, Path(folder))
        results = measure(every, options.data, SETS)

    def best(how: str) -> str:
        def on_val(share: str) -> float:
            return sum(results["val", direction, f"{share}, {how}"].bleu for direction in DIRECTIONS)

        return f"{max(SHARES, key=on_val)} ({how})"

    hows = ["beam 4", *(f"beam 4, {by}" for by in RESCORED.values())]
    blocks.append(BEST.format(best=", ".join(map(best, hows))))
    for name in SETS:
        blocks += [f"## {name}", table(results, name, [way.name for way in every])]
    publish(blocks, options.output)


if __name__ == "__main__":
    main()
