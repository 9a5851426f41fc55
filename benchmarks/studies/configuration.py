"""What a configuration gives, run as it stands: the course of each stage, and its models beside the one that ships.

    anyorder train configs/de-en-masked.toml --data DATA --out RUN
    python -m benchmarks.studies.configuration configs/de-en-masked.toml DATA RUN -o docs/results/configuration.md

All of val and of two test sets, both directions.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from anyorder import load
from anyorder.lab.metrics import signatures
from anyorder.lab.tables import table as markdown_table
from anyorder.lab.tables import title
from anyorder.text.plan import Plan
from anyorder.training.checkpoint import read_log
from anyorder.training.config import Stage, load_config
from anyorder.training.trainer import BEST, LOG
from benchmarks._publish import publish
from benchmarks.studies._compare import DIRECTIONS, Way, measure, table

SETS = ("val", "test_2016_flickr", "test_2017_flickr")
INTRODUCTION = """Written by `python -m benchmarks.studies.configuration {config} DATA RUN` from the run of
`anyorder train {config} --data DATA --out RUN`, first stage to last, nothing changed on the way. Validation is on the
first sentences of val, mask-predict with T = 10 and 4 lengths."""
BESIDE = """`{stage}` is the model of this run's first stage, `{shipped}` the one that ships, whose run was shortened on
the way. *Δ* is against `{other}` with a beam of 5, p by paired bootstrap."""
STRATEGIES = {
    "greedy": Plan(),
    "beam 4": Plan.of(beam=4),
    "beam 4, rescoring by both": Plan.of(beam=4, rescore="both"),
    "mask-predict, T = 10, 4 lengths": Plan.of("mask-predict(10)", lengths=4, rescore="written"),
    "mask-predict, T = 4, 1 length": Plan.of("mask-predict(4)", lengths=1),
}


def course(stage: Stage, run: Path) -> list[str]:
    """How a stage went: a row per validation."""
    rows, loss = [], 0.0
    for record in read_log(run / stage.name / LOG):
        loss = record.get("loss", loss)
        if "valid" in record:
            bleu = [f"{record['bleu'][d]:.1f}" if d in record.get("bleu", {}) else "" for d in DIRECTIONS]
            rows.append([f"{record['step']:,}", f"{loss:.2f}", f"{record['valid']:.3f}", *bleu])
    columns = ["update", "loss", "valid", *(f"{title(d)} BLEU" for d in DIRECTIONS)]
    return [f"## Stage `{stage.name}`", markdown_table(columns, rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("data", type=Path, help="folder with multi30k/")
    parser.add_argument("run", type=Path, help="what `anyorder train` wrote")
    parser.add_argument("--shipped", default="de-en")
    parser.add_argument("--other", default="de-en-ar", help="the autoregressive model that it grew out of")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    stages = load_config(options.config).stages
    for stage in stages:
        done = max((record["step"] for record in read_log(options.run / stage.name / LOG)), default=0)
        if done != stage.steps:
            raise SystemExit(
                f"stage {stage.name!r} of {options.run} has {done} updates, not {stage.steps}: train it on"
            )
    baseline = load(options.other, kind="translation")
    first = stages[0].name
    names = {options.shipped: options.shipped, first: options.run / first / BEST}
    models = {name: load(where, kind="translation") for name, where in names.items()}
    for model in models.values():
        model.beside = lambda: baseline
    ways = [Way(f"`{options.other}`, beam 5", baseline, Plan.of(beam=5))]
    ways += [Way(f"`{name}`, {how}", model, plan) for how, plan in STRATEGIES.items() for name, model in models.items()]
    results = measure(ways, options.data, SETS)
    blocks: list[str] = [
        "# The configuration as it stands",
        INTRODUCTION.format(config=options.config),
        *(block for stage in stages for block in course(stage, options.run)),
        "## Beside the model that ships",
        BESIDE.format(stage=first, shipped=options.shipped, other=options.other),
        f"BLEU: `{signatures()['BLEU']}`",
    ]
    for name in SETS:
        blocks += [f"### {name}", table(results, name, [way.name for way in ways])]
    publish(blocks, options.output)


if __name__ == "__main__":
    main()
