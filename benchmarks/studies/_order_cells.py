"""Translations of a test set by one order, kept in a folder: what the benchmarks of learned orders compare.

A cell's name is a hash of all it depends on (weights, policy, sentences, how it is decoded), so a run goes on where an
earlier one stopped, and a new model or policy is never answered with an old one's translations.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from numpy.typing import NDArray

from anyorder.data.test_sets import EvalSet, load_test_set
from anyorder.lab.metrics import bleu_of, statistics
from anyorder.models.catalog import locate
from anyorder.models.policy import Policy
from anyorder.text.load import load
from anyorder.text.plan import Plan
from anyorder.training.checkpoint import write_atomically

if TYPE_CHECKING:
    from anyorder.text.translator import Translator

DIRECTIONS = {"de-en": "De→En", "en-de": "En→De"}


@dataclass(frozen=True)
class Way:
    """One way to translate: an order (a name or a policy's file), how many positions per step, and draws."""

    order: str
    count: str | None = None
    steps: int | None = None
    cutoff: float | None = None  # of a policy that decides how many: it writes where f_i is above this
    seed: int = 0

    def plan(self) -> Plan:
        order = self.order if self.cutoff is None else Policy.load(self.order).above(self.cutoff)
        return Plan.of(order, count=self.count, steps=self.steps, seed=self.seed, lengths=1)


@dataclass(frozen=True)
class Found:
    """What came of it, sentence by sentence."""

    texts: list[str]
    references: list[str]
    passes: float  # of the model, per sentence
    seconds: float  # of one thread

    @cached_property
    def statistics(self) -> NDArray:  # type: ignore[type-arg]
        return statistics(self.texts, self.references)

    @property
    def bleu(self) -> float:
        return float(bleu_of(self.statistics.sum(0)))


class Cells:
    """Translations of `corpora` in one direction by one model."""

    def __init__(self, model: str, data: Path, direction: str, corpora: tuple[str, ...], folder: Path, limit: int):
        self.model, self.direction, self.folder = model, direction, folder
        whole = [load_test_set(data, name, direction) for name in corpora]
        self.sources = [x for c in whole for x in c.sources[:limit]]
        self.references = [x for c in whole for x in c.references[:limit]]
        self.corpus: EvalSet = whole[0]
        found = locate(model)
        assert found is not None, f"no model {model}"
        self.files = found.files

    @cached_property
    def translator(self) -> Translator:
        torch.set_num_threads(1)
        return load(self.model, kind="translation")

    def __call__(self, way: Way) -> Found:
        path = self.folder / f"{self._name(way)}.json"
        if not path.exists():
            before, start = self.translator.cost, time.process_time()
            corpus = self.corpus
            found = self.translator.translate(
                self.sources, corpus.target_language, source=corpus.source_language, plan=way.plan()
            )
            passes = (self.translator.cost.canvases - before.canvases) / len(self.sources)
            kept = {"texts": [t.text for t in found], "passes": passes, "seconds": time.process_time() - start}
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps({"way": asdict(way)} | kept, ensure_ascii=False).encode())
        read = json.loads(path.read_text(encoding="utf-8"))
        return Found(read["texts"], self.references, read["passes"], read["seconds"])

    def _name(self, way: Way) -> str:
        policy = Path(way.order) if way.order.endswith(".safetensors") else self.files.get(f"policy-{self.direction}")
        used = [self.files["model"], self.files["lengths"]]
        used += [policy] if policy is not None and (way.order == "learned" or policy == Path(way.order)) else []
        said = json.dumps([asdict(way), self.direction, self.sources, [_digest(f) for f in used]])
        return hashlib.sha256(said.encode()).hexdigest()[:20]


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
