"""The mean of a model that contains an autoregressive one and of the one that it grew out of, beside both.

    python -m benchmarks.averages DATA -o docs/results/average.md

All of val, on which the shares were chosen, and of two test sets; both directions.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.progress import track

from anyorder import load
from anyorder.core import Cost
from anyorder.data.test_sets import load_test_set
from anyorder.experiments.evaluate import Difference, bleu_of, paired, signatures, statistics
from anyorder.experiments.report import Heading, Shown, Text, markdown
from anyorder.experiments.tables import TextTable, title
from anyorder.models.average import average
from anyorder.models.catalog import found
from anyorder.text.plan import Plan
from anyorder.text.translator import Translator

SETS = ("val", "test_2016_flickr", "test_2017_flickr")
SHARES = {"mean": (1, 1), "mean 1 : 2": (1, 2), "mean 1 : 3": (1, 3)}  # of the model, of the autoregressive one
INTRODUCTION = """Written by `python -m benchmarks.averages DATA`. `anyorder average {model} {other} -o FOLDER` writes a
model whose weights are the mean of both, and which costs what one of them costs. All sentences of each set, from left
to right to an end of its own unless an order is named; passes are canvases per sentence. *Δ* is against `{other}` with
a beam of 5, p by paired bootstrap. The last two rows show what the mean is not for: halfway to the autoregressive
model, it has forgotten how to fill masks."""
BEST = "Of the shares, {best} is the best on val, both directions together; nothing was chosen on the test sets."


class Way(NamedTuple):
    """One row: a model and how it writes."""

    name: str
    translator: Translator
    plan: Plan


def ways(model: str, other: str, folder: Path) -> list[Way]:
    """The baseline's beam first, then both models and what lies between them."""
    own, baseline = load(model, kind="translation"), load(other, kind="translation")
    out = [Way(f"{other}, beam 5", baseline, Plan.of(beam=5)), Way(f"{other}, greedy", baseline, Plan())]
    between = {}
    for name, (a, b) in SHARES.items():
        average([found(model)] * a + [found(other)] * b, folder / name)
        between[name] = replace(load(folder / name, kind="translation"), beside=lambda: baseline)
    for name, translator in {model: own, **between}.items():
        greedy = [("greedy", Plan())] if name in (model, "mean") else []
        for how, plan in [*greedy, ("beam 4", Plan.of(beam=4))]:
            out.append(Way(f"{name}, {how}", translator, plan))
    for rescore, by in (("ar", f"rescoring by {other}"), ("both", "rescoring by both")):
        out.append(Way(f"mean, beam 4, {by}", between["mean"], Plan.of(beam=4, rescore=rescore)))
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
        Heading("The mean of two models", 1),
        Text(INTRODUCTION.format(model=options.model, other=options.other)),
        Text(f"BLEU: `{signatures()['BLEU']}`"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        every = ways(options.model, options.other, Path(folder))
        todo = [(name, direction, way) for name in SETS for direction in ("de-en", "en-de") for way in every]
        models = {id(way.translator): way.translator for way in every}.values()
        measured = {}
        for name, direction, way in track(todo, "translating"):
            corpus = load_test_set(options.data, name, direction)
            before = Cost.total(model.cost for model in models)
            texts = [str(t) for t in way.translator.translate(corpus.sources, corpus.target_language, plan=way.plan)]
            spent = Cost.total(model.cost for model in models).canvases - before.canvases
            measured[name, direction, way.name] = statistics(texts, corpus.references), spent / len(texts)

    def on_val(share: str) -> float:
        both = [measured["val", direction, f"{share}, beam 4"][0] for direction in ("de-en", "en-de")]
        return sum(float(bleu_of(numbers.sum(0))) for numbers in both)

    blocks.append(Text(BEST.format(best=max(SHARES, key=on_val))))
    for name in SETS:
        rows = []
        for way in every:
            row = [way.name]
            for direction in ("de-en", "en-de"):
                numbers, passes = measured[name, direction, way.name]
                first, _ = measured[name, direction, every[0].name]
                row += [f"{bleu_of(numbers.sum(0)):.2f}", "" if way is every[0] else _told(paired([(numbers, first)]))]
            rows.append([*row, f"{passes:.1f}"])
        columns = [column for d in ("de-en", "en-de") for column in (f"{title(d)} BLEU", "Δ")]
        blocks += [Heading(name), Shown(TextTable(["", *columns, f"{title('en-de')} passes"], rows))]
    text = markdown(blocks)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    print(text)


def _told(difference: Difference) -> str:
    return f"{difference.delta:+.2f} (p = {difference.p:.3f})"


if __name__ == "__main__":
    main()
