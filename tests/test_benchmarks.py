"""The benchmarks go with the package: each can be started, and what they compare is what they say."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from anyorder.lab.metrics import statistics
from anyorder.training.config import load_config
from benchmarks.studies import _compare as compare
from benchmarks.studies import ingredients

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "benchmarks").rglob("[a-z]*.py")
)


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_can_be_imported(name: str) -> None:
    importlib.import_module(name)


def test_a_variant_of_a_stage_differs_in_what_it_says_and_in_nothing_else() -> None:
    variants = ingredients.shortened(load_config(ROOT / "configs/de-en-masked.toml"), "masked", 300)
    whole = variants.pop("whole")
    assert whole.stages[0].steps == 300 and 0 < whole.stages[0].cooldown < 300
    assert variants.keys() == ingredients.VARIANTS.keys() - {"whole"}
    for name, config in variants.items():
        told = {"name": name, **ingredients.VARIANTS[name].stage}
        assert asdict(config.stages[0]) == asdict(whole.stages[0]) | told != asdict(whole.stages[0])
        assert asdict(config.model) == asdict(whole.model) | dict(ingredients.VARIANTS[name].model)


def test_ways_are_compared_with_the_first() -> None:
    right, wrong = ["a b c d e"] * 4, ["a b c d f"] * 4
    found = {"first": (statistics(wrong, right), 2.0), "second": (statistics(right, right), 3.5)}
    results = {("val", d, n): compare.Measured(*found[n]) for d in compare.DIRECTIONS for n in found}
    rows = compare.table(results, "val", ["first", "second"]).splitlines()[2:]
    bleu = results["val", "de-en", "first"].bleu
    assert np.isclose(bleu, 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)  # of 5, 4, 3, 2 n-grams one is wrong
    assert rows[0] == f"| first | {bleu:.2f} |  | {bleu:.2f} |  | 2.0 |"
    assert rows[1].startswith(f"| second | 100.00 | {100 - bleu:+.2f} (p = ") and rows[1].endswith("| 3.5 |")
