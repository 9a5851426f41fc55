"""Written positions judged as they stand (visible) or, as the paper defines it, each with itself masked, compared.

    python -m benchmarks.studies.conditionals DATA de-en-joint de-en --cache cells -o docs/results/conditionals.md

These are the rows that `anyorder reproduce` has for it, without all its others; cells are kept in --cache, in the same
form, and a second start decodes only what is missing.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from anyorder import load
from anyorder.data.test_sets import load_test_set
from anyorder.lab.cells import identify
from anyorder.lab.results import Results
from anyorder.lab.rows import Rows, Scope
from anyorder.lab.runner import Setting, run_all
from anyorder.lab.tables import table, title
from anyorder.pool import HERE
from anyorder.text.plan import Plan
from benchmarks._publish import publish

ORDER, LENGTHS, FEW = "annealed(10)", 4, 24  # the decoder whose outputs are compared one by one, on val
HOW = ("visible", "masked")
INTRODUCTION = """Written by `python -m benchmarks.studies.conditionals DATA {models} --limit {limit}`: {corpus}, the
first {limit} sentences, {lengths} lengths a sentence. *Visible*: all positions are judged in one pass, in which a
written one sees its own symbol. *Masked*: p(y_i | y_≠i, X), as the paper's equations have it, a pass for every written
position. *Δ* is masked − visible, p by paired bootstrap; passes are canvases per sentence, all lengths together."""
SAME = """How often the output of `{order}` is another one, on the first {few} sentences of val, {lengths} lengths:"""


def compared(results: Results, known: Rows) -> str:
    """Each decoder both ways, over the sentences that are done both ways."""
    out = []
    for direction in known.scope.directions:
        rows = known.of("conditionals", direction)
        for name in dict.fromkeys(decoder for decoder, _ in rows):
            visible, masked = (rows[name, how] for how in HOW)
            sentences = min(results.ready(visible), results.ready(masked), known.scope.limit)
            seen, hidden = (results.measure(row, sentences) for row in (visible, masked))
            difference = results.compare([(masked, visible)], sentences)
            if seen is not None and hidden is not None and difference is not None:
                change = [f"{difference.delta:+.2f}", f"{difference.p:.3f}"]
                bleu = [f"{m.quality.bleu:.2f}" for m in (seen, hidden)]
                cost = [f"{m.passes:.0f}" for m in (seen, hidden)]
                more = f"{hidden.seconds / seen.seconds:.1f}"
                out.append([title(direction), name, str(sentences), *bleu, *change, *cost, more])
    header = [
        "",
        "decoder",
        "sentences",
        "visible",
        "masked",
        "Δ BLEU",
        "p",
        "passes, visible",
        "masked",
        "times as long",
    ]
    return table(header, out)


def differing(model: str, data: Path, direction: str) -> list[str]:
    """On how many of a few sentences the two give another translation, and what the paper's costs."""
    corpus = load_test_set(data, "val", direction).part(0, FEW)
    translator = load(model, kind="translation")
    texts, passes, seconds = [], [], []
    for how in HOW:
        plan = Plan.of(ORDER, lengths=LENGTHS, conditionals=how, rescore="written")
        before, begun = translator.cost.canvases, time.process_time()
        found = translator.translate(corpus.sources, corpus.target_language, source=corpus.source_language, plan=plan)
        texts.append([t.text for t in found])
        passes.append((translator.cost.canvases - before) / FEW)
        seconds.append(time.process_time() - begun)
    others = sum(a != b for a, b in zip(*texts, strict=True))
    cost = [f"{passes[0]:.0f}", f"{passes[1]:.0f}", f"{seconds[1] / seconds[0]:.1f}"]
    return [f"`{model}`", title(direction), f"{others} of {FEW}", *cost]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with multi30k/ and tatoeba/")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--limit", type=int, default=100, help="sentences (hundreds)")
    parser.add_argument("--cache", type=Path, default=Path("cells"))
    parser.add_argument("--minutes", type=float, help="stop decoding after this long; the same command goes on")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    scope, end = Scope(limit=options.limit), time.monotonic() + 60 * (options.minutes or 1e6)
    settings = {m: Setting(m, options.data, options.cache, identify(m)) for m in options.models}
    every = {m: Results(setting.store, options.data) for m, setting in settings.items()}
    known = Rows(scope)
    done = known.some("conditionals", lambda name: True)
    for row in sorted(done, key=lambda row: row.cell.steps != 10):  # the cheap ones first, of all models
        for model, setting in settings.items():
            run_all(every[model].jobs(row, scope.limit), setting, HERE, (end - time.monotonic()) / 60)
    introduction = INTRODUCTION.format(
        models=" ".join(options.models), limit=options.limit, corpus=scope.main, lengths=done[0].cell.lengths
    )
    same = [differing(model, options.data, d) for model in options.models for d in scope.directions]
    blocks: list[str] = ["# Masked and visible conditionals", introduction]
    for model, results in every.items():
        blocks += [f"## {model}", compared(results, known)]
    header = ["model", "", "another translation", "passes, visible", "masked", "times as long"]
    blocks += ["## One by one", SAME.format(order=ORDER, few=FEW, lengths=LENGTHS)]
    publish([*blocks, table(header, same)], options.output)


if __name__ == "__main__":
    main()
