"""Results: what the chunks of a cell amount to, over the sentences that all cells of a table have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.data.test_sets import EvalSet, load_test_set
from anyorder.lab.cells import CHUNK, Candidate, Cell, Criterion, Job, Spent, Store
from anyorder.lab.metrics import Difference, Quality, paired, quality, statistics
from anyorder.text.words import FORWARDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Row:
    """A cell and how one of its candidates is chosen."""

    cell: Cell
    criterion: Criterion = "written"
    lengths: int | None = None  # choose among that many of the likeliest; None: all that were decoded
    plain: bool = False  # compare log p(L|X) + Σ log p (written: Eq. 4) or Σ log p as they are, not their means

    def jobs(self, sentences: int, size: int) -> list[Job]:
        """What must be done for the first `sentences` (whole chunks) of a corpus of `size`."""
        jobs = [Job(self.cell, s, min(s + CHUNK, size)) for s in range(0, min(sentences, size), CHUNK)]
        if self.criterion != "written":
            jobs += [replace(job, criterion=self.criterion) for job in jobs]
        return jobs


@dataclass(frozen=True, eq=False)
class Measured:
    """The translations of a row, how good they are, and what they cost per sentence."""

    row: Row
    corpus: EvalSet
    texts: list[str]
    spent: Spent

    @cached_property
    def quality(self) -> Quality:
        """BLEU, chrF, tokenised BLEU."""
        return quality(self.texts, self.corpus)

    @cached_property
    def statistics(self) -> NDArray[np.float64]:
        """What BLEU is a function of, a row per sentence."""
        return statistics(self.texts, self.corpus.references)

    @property
    def passes(self) -> float:
        """Canvases through the model per sentence, all length candidates and hypotheses together."""
        return self.spent.canvases / len(self.texts)

    @property
    def head_rows(self) -> float:
        """Positions projected onto the vocabulary per sentence."""
        return self.spent.head_rows / len(self.texts)

    @property
    def seconds(self) -> float:
        """CPU seconds per sentence."""
        return self.spent.seconds / len(self.texts)


class Results:
    """Measured rows of a store, computed when asked for."""

    def __init__(self, store: Store, data: Path) -> None:
        self.store, self.data = store, data
        self._corpora: dict[tuple[str, str], EvalSet] = {}
        self._measured: dict[tuple[Row, int], Measured] = {}

    def corpus(self, cell: Cell) -> EvalSet:
        """The sentences of a cell, read once."""
        key = (cell.corpus, cell.direction)
        if key not in self._corpora:
            self._corpora[key] = load_test_set(self.data, *key)
        return self._corpora[key]

    def jobs(self, row: Row, sentences: int) -> list[Job]:
        """What is to be decoded for a row's first sentences."""
        return row.jobs(sentences, len(self.corpus(row.cell)))

    def _decodings(self, row: Row) -> list[Job]:
        size = len(self.corpus(row.cell))
        return Row(row.cell).jobs(size, size)

    def ready(self, row: Row) -> int:
        """How many of the first sentences are done."""
        done = 0
        for job in self._decodings(row):
            if not all(self.store.of(j).exists() for j in {job, replace(job, criterion=row.criterion)}):
                break
            done = job.stop
        return done

    def complete(self, row: Row) -> bool:
        """Is the whole corpus done?"""
        return self.ready(row) == len(self.corpus(row.cell))

    def common(self, rows: Iterable[Row]) -> int:
        """How many of the first sentences are done in all of these rows that have any."""
        return min((n for n in map(self.ready, rows) if n), default=0)

    def measure(self, row: Row, sentences: int) -> Measured | None:
        """The row over its first `sentences`, None where they are not all done."""
        if not sentences or self.ready(row) < sentences:
            return None
        key = (row, sentences)
        if key not in self._measured:
            self._measured[key] = self._measure(row, sentences)
        return self._measured[key]

    def _measure(self, row: Row, sentences: int) -> Measured:
        texts: list[str] = []
        spent = Spent()
        for job in self._decodings(row):
            if job.start >= sentences:
                break
            chunk = self.store.chunk(job)
            assert chunk is not None
            spent += _share(chunk.candidates, chunk.spent, row.lengths)
            ours = chunk.candidates
            scores = [[c.log_length + c.written if row.plain else c.written / c.length for c in some] for some in ours]
            if row.cell.order == FORWARDS:  # a beam's candidates come best first
                scores = [[-float(rank) for rank in range(len(some))] for some in ours]
            if row.criterion != "written":
                scored = self.store.chunk(replace(job, criterion=row.criterion))
                assert scored is not None
                scores = scored.scores if not row.plain else _sums(chunk.candidates, scored.scores, row.criterion)
                spent += _share(chunk.candidates, scored.spent, row.lengths)
            texts += [_choose(c, s, row.lengths) for c, s in zip(chunk.candidates, scores, strict=True)]
        return Measured(row, self.corpus(row.cell).part(0, len(texts)), texts, spent)

    def compare(self, pairs: Sequence[tuple[Row, Row]], sentences: int) -> Difference | None:
        """The mean difference in BLEU over pairs of rows; None where one of them is not done."""
        found = [(self.measure(a, sentences), self.measure(b, sentences)) for a, b in pairs]
        both = [(a.statistics, b.statistics) for a, b in found if a is not None and b is not None]
        return paired(both) if both and len(both) == len(pairs) else None


def _choose(candidates: Sequence[Candidate], scores: Sequence[float], lengths: int | None) -> str:
    among = list(zip(scores, candidates, strict=True))[:lengths]
    return max(among, key=lambda pair: pair[0])[1].text if among else ""


def _sums(
    candidates: Sequence[Sequence[Candidate]], means: Sequence[Sequence[float]], criterion: Criterion
) -> list[list[float]]:
    """Σ log p of each candidate, from its mean; an autoregressive model's has </s> in it."""
    end = criterion != "pll"
    each = zip(candidates, means, strict=True)
    return [[m * (c.length + end) for c, m in zip(*both, strict=True)] for both in each]


def _share(candidates: Sequence[Sequence[Candidate]], spent: Spent, lengths: int | None) -> Spent:
    """The cost of the first `lengths` of the candidates, by their share of the positions written."""
    if lengths is None:
        return spent
    used = sum(c.length for some in candidates for c in some[:lengths])
    part = used / max(1, sum(c.length for some in candidates for c in some))
    return Spent(round(spent.canvases * part), round(spent.head_rows * part), spent.seconds * part)


def record(measured: Measured) -> dict[str, Any]:
    """A measured row as it is written to results.jsonl: its configuration, scores and costs (but no seconds)."""
    q = measured.quality
    return {
        **asdict(measured.row.cell), "criterion": measured.row.criterion, "plain": measured.row.plain,
        "candidates": measured.row.lengths or (1 if measured.row.cell.gold else measured.row.cell.lengths),
        "sentences": len(measured.texts), "bleu": round(q.bleu, 2), "chrf": round(q.chrf, 2),
        "tokenised_bleu": None if q.tokenised is None else round(q.tokenised, 2),
        "passes": round(measured.passes, 2), "head_rows": round(measured.head_rows, 1),
    }  # fmt: skip
