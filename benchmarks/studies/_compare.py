"""Ways of translating, measured on whole sets in both directions, beside the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from anyorder.core import Cost
from anyorder.data.test_sets import load_test_set
from anyorder.lab.metrics import bleu_of, paired, statistics
from anyorder.lab.tables import table as markdown_table
from anyorder.lab.tables import title
from anyorder.text.plan import Plan
from anyorder.text.translator import Translator

DIRECTIONS = ("de-en", "en-de")


class Way(NamedTuple):
    """One row: a model and how it writes."""

    name: str
    translator: Translator
    plan: Plan


class Measured(NamedTuple):
    """What a way came to on one set in one direction."""

    statistics: NDArray[np.float64]  # (N, 10), a row per sentence: what BLEU is a function of
    passes: float  # canvases per sentence

    @property
    def bleu(self) -> float:
        return float(bleu_of(self.statistics.sum(0)))


Results = dict[tuple[str, str, str], Measured]  # by set, direction and the way's name


def measure(ways: Sequence[Way], data: Path, sets: Sequence[str]) -> Results:
    """Translate all of `sets` in every way."""
    models: list[Any] = list({id(way.translator): way.translator for way in ways}.values())
    todo = [(name, direction, way) for name in sets for direction in DIRECTIONS for way in ways]
    out = {}
    for name, direction, way in track(todo, "translating"):
        corpus = load_test_set(data, name, direction)
        before = Cost.total(model.cost for model in models)
        texts = [str(t) for t in way.translator.translate(corpus.sources, corpus.target_language, plan=way.plan)]
        spent = Cost.total(model.cost for model in models).canvases - before.canvases
        out[name, direction, way.name] = Measured(statistics(texts, corpus.references), spent / len(texts))
    return out


def table(results: Results, name: str, ways: Sequence[str]) -> str:
    """The ways on one set: BLEU, how far it is from the first way's, p by paired bootstrap, passes."""
    rows = []
    for way in ways:
        row = [way]
        for direction in DIRECTIONS:
            first, found = results[name, direction, ways[0]], results[name, direction, way]
            difference = paired([(found.statistics, first.statistics)])
            row += [f"{found.bleu:.2f}", "" if way == ways[0] else f"{difference.delta:+.2f} (p = {difference.p:.3f})"]
        rows.append([*row, f"{results[name, DIRECTIONS[-1], way].passes:.1f}"])
    columns = [column for d in DIRECTIONS for column in (f"{title(d)} BLEU", "Δ")]
    return markdown_table(["", *columns, f"{title(DIRECTIONS[-1])} passes"], rows)
