"""What each ingredient of a training stage gives: the stage with one of them left out at a time, on all of val.

    python -m benchmarks.studies.ingredients configs/de-en-masked.toml DATA RUNS -o docs/results/ingredients.md

Each variant has a short schedule of its own (`--updates`) and is a folder in RUNS; what is finished is not trained
again, and what was interrupted goes on. `--only NAME …` trains some of them and writes no page, so that several
processes can share the work.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from anyorder import load
from anyorder.lab.metrics import signatures
from anyorder.text.plan import Plan
from anyorder.training.config import Config, load_config
from anyorder.training.config_checks import check
from anyorder.training.run import train
from benchmarks._publish import publish
from benchmarks.studies._compare import Way, measure, table


class Variant(NamedTuple):
    """What a row of the page is called, and what is different in it."""

    title: str
    stage: Mapping[str, Any] = MappingProxyType({})  # settings of the stage …
    model: Mapping[str, Any] = MappingProxyType({})  # … and of the model


VARIANTS = {
    "whole": Variant("the stage as it is"),
    "fresh": Variant("fresh weights instead of the autoregressive model's", {"start": ""}),
    "in-place": Variant("symbols read where they stand (no `forwards`)", {"forwards": 0.0}, {"forwards": False}),
    "never-forwards": Variant("nothing learned from left to right", {"forwards": 0.0}),
    "one-copy": Variant("one masked copy per source", {"copies": 1, "own": 0.0}),
    "never-own": Variant("second copies without the model's own symbols", {"own": 0.0}),
    "people": Variant("people's translations instead of the teacher's", {"target": ""}),
    "adam": Variant("Adam (1e-3) instead of Muon", {"optimizer": "adam", "learning_rate": 1e-3}),
}
FORWARDS = "From left to right to an end of its own, greedily"
STRATEGIES = {  # what a model is asked to do, from its own order to the fewest steps
    FORWARDS: Plan(),
    "mask-predict, T = 10, 4 lengths": Plan.of("mask-predict(10)", lengths=4, rescore="written"),
    "mask-predict, T = 4, 1 length": Plan.of("mask-predict(4)", lengths=1),
}
INTRODUCTION = """Written by `python -m benchmarks.studies.ingredients {config} DATA RUNS`. Stage `{stage}` of that
configuration, shortened to {updates} of its {steps} updates (its schedule with it), and the same with one ingredient
left out or replaced at a time: same data, seed, and tokens per update. All sentences of val. *Δ* is against the first
row, p by paired bootstrap over sentences: it does not know what another seed would have given. A short run shows what
helps early; whether it helps in the end, only whole runs can tell."""


def shortened(config: Config, stage: str, updates: int) -> dict[str, Config]:
    """The configuration of each variant, with this one stage, which has the variant's name."""
    whole = next((s for s in config.stages if s.name == stage), None)
    if whole is None:
        raise SystemExit(f"no stage {stage!r}: the configuration has {', '.join(s.name for s in config.stages)}")
    short = replace(
        whole,
        steps=updates,
        warmup=min(whole.warmup, updates // 6),
        cooldown=round(whole.cooldown * updates / whole.steps),
        average=whole.average ** (whole.steps / updates),  # the same share of the run is averaged over
        validate=updates,
        bleu_sentences=0,
    )
    out = {}
    for name, variant in VARIANTS.items():
        one = replace(short, name=name, **variant.stage)
        out[name] = replace(config, stages=[one], model=replace(config.model, **variant.model))
        check(out[name])
    return out


def trained(name: str, config: Config, runs: Path) -> Path:
    """The variant's model folder. Another model has a run's folder of its own; all learn from one distillation."""
    if not VARIANTS[name].model:
        return train(config, runs)[0]
    stage = config.stages[0]
    if stage.target in config.distill:
        stage = replace(stage, target=str(runs / stage.target))
    return train(replace(config, stages=[stage]), runs / name)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("data", type=Path, help="folder with multi30k/ and tatoeba/")
    parser.add_argument("runs", type=Path, help="folder of the variants' runs")
    parser.add_argument("--stage", default="masked")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--only", nargs="+", choices=VARIANTS, help="train these, and write no page")
    parser.add_argument("--threads", type=int)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    config = load_config(options.config)
    config = replace(config, data=replace(config.data, root=str(options.data)))
    variants = shortened(config, options.stage, options.updates)
    folders = {name: trained(name, variants[name], options.runs) for name in options.only or variants}
    if options.only:
        return
    models = {name: load(folder, kind="translation") for name, folder in folders.items()}
    steps = next(s.steps for s in config.stages if s.name == options.stage)
    told = {"config": options.config, "stage": options.stage, "updates": options.updates, "steps": f"{steps:,}"}
    blocks = [
        "# What each ingredient gives",
        INTRODUCTION.format(**told),
        f"BLEU: `{signatures()['BLEU']}`",
    ]
    for strategy, plan in STRATEGIES.items():
        able = [name for name in models if strategy != FORWARDS or variants[name].model.forwards]
        ways = [Way(VARIANTS[name].title, models[name], plan) for name in able]
        blocks += [f"## {strategy}", table(measure(ways, options.data, ["val"]), "val", [way.name for way in ways])]
    publish(blocks, options.output)


if __name__ == "__main__":
    main()
