"""A cell: one way of decoding one test set, cached by its configuration, a hundred sentences at a time.

What is kept of a sentence is its candidates (one for each target length), so that choosing among fewer lengths or by
another criterion costs nothing, and a longer run goes on where a shorter one stopped.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyorder.errors import AnyorderError
from anyorder.files import fingerprint, write_whole
from anyorder.models.catalog import locate
from anyorder.models.folder import LEARNED, ModelFolder
from anyorder.text.own_orders import file_of
from anyorder.text.plan import Plan
from anyorder.text.words import FORWARDS

if TYPE_CHECKING:
    from anyorder.core import Cost
    from anyorder.data.test_sets import EvalSet
    from anyorder.lab.generations import Watch
    from anyorder.text.results import Hypothesis
    from anyorder.text.translator import Translator

CHUNK = 100  # sentences
Criterion = Literal["written", "pll", "forwards", "ar", "both"]
CRITERIA: dict[str, str] = {
    "written": "mean log p of each symbol when it was written",
    "pll": "mean pseudo log-likelihood",
    "forwards": "mean log p from left to right by the same model",
    "ar": "mean log-likelihood of the autoregressive model",
    "both": "the mean of these two",
}


class CellError(AnyorderError):
    """A cell that cannot be decoded as asked."""


@dataclass(frozen=True)
class Cell:
    """One way of decoding. `order` is what Plan calls an order, or a recipe with arguments such as 'wino(0.6, 0.9)'."""

    corpus: str
    direction: str
    order: str  # "autoregressive" is the baseline
    steps: int | str = "L"
    count: str | None = None
    beam: int = 1
    positions: int = 1
    lengths: int = 4
    order_temperature: float = 0.0
    seed: int = 0
    gold: bool = False  # the reference's length instead of p(L|X)
    polish: int = 0  # rounds of local search by the autoregressive model's score
    conditionals: str = "visible"  # how an order sees a written position

    @property
    def causal(self) -> bool:
        """Is it the autoregressive model?"""
        return self.order == "autoregressive"

    def plan(self) -> Plan:
        """How to decode it."""
        if self.causal or self.order == FORWARDS:
            return Plan.of(None if self.causal else FORWARDS, beam=self.beam)
        options: dict[str, Any] = dict(beam=self.beam, positions=self.positions, lengths=self.lengths, seed=self.seed)
        options |= dict(conditionals=self.conditionals, rescore="written")
        if self.polish:
            options |= dict(polish=self.polish, rescore="ar")
        steps = None if self.steps == "L" else self.steps
        return Plan.of(self.order, count=self.count, steps=steps, order_temperature=self.order_temperature, **options)


@dataclass(frozen=True)
class Candidate:
    """One translation of a sentence, at one target length."""

    text: str
    ids: list[int]
    written: float  # Σ log p of each symbol when it was written
    log_length: float

    @property
    def length(self) -> int:
        """Symbols, at least 1, to divide by."""
        return max(1, len(self.ids))


@dataclass(frozen=True)
class Spent:
    """What a chunk cost."""

    canvases: int = 0
    head_rows: int = 0
    seconds: float = 0.0  # of one thread

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.canvases + other.canvases, self.head_rows + other.head_rows, self.seconds + other.seconds)


@dataclass(frozen=True)
class Chunk:
    """Sentences start … of a cell: their candidates, likeliest length first, or one score for each of those."""

    candidates: list[list[Candidate]]
    spent: Spent
    scores: list[list[float]]  # of a criterion; empty lists where none was asked for


@dataclass(frozen=True)
class Job:
    """A chunk of a cell to be decoded, or (with a criterion) its candidates to be scored."""

    cell: Cell
    start: int
    stop: int
    criterion: Criterion = "written"

    @property
    def title(self) -> str:
        """What progress is shown under."""
        c = self.cell
        return f"{c.order} b={c.beam} T={c.steps} {c.direction}" + (
            "" if self.criterion == "written" else f" {self.criterion}"
        )

    @property
    def decode(self) -> Job:
        """The decoding that this scoring needs."""
        return replace(self, criterion="written")


class Store:
    """Chunks on disk. A chunk's name is a hash of everything it depends on: weights, cell, sentences."""

    def __init__(self, folder: Path, identity: dict[str, str]) -> None:
        self.folder, self.identity = folder, identity
        self._read: dict[Path, Any] = {}

    def of(self, task: Job | Watch) -> Path:
        """The file of a task."""
        used = {name: self.identity[name] for name in sorted(_uses(task)) if name in self.identity}
        used |= _own_files(task)
        text = json.dumps([type(task).__name__, used, _described(task)], sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.json.gz"

    def read(self, path: Path) -> Any:
        """The content of a chunk, None if there is none (or only a damaged one: it is made again)."""
        if path not in self._read:
            try:
                with gzip.open(path, "rt", encoding="utf-8") as file:
                    self._read[path] = json.load(file)
            except (FileNotFoundError, EOFError, ValueError, zlib.error, gzip.BadGzipFile):
                return None
        return self._read[path]

    def write(self, path: Path, content: Any) -> None:
        """All or nothing, so that a run may be stopped at any moment."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, gzip.compress(json.dumps(content, ensure_ascii=False).encode(), mtime=0))

    def chunk(self, job: Job) -> Chunk | None:
        """What was decoded and kept of a job; None if nothing was."""
        content = self.read(self.of(job))
        if content is None:
            return None
        candidates = [[Candidate(**c) for c in row] for row in content["candidates"]]
        return Chunk(candidates, Spent(**content["spent"]), content["scores"])


def _described(task: Job | Watch) -> dict[str, Any]:
    """All fields; one that cells did not always have is left out where it is not used: their old chunks still hold."""
    out = asdict(task)
    for name, unused in (("polish", 0), ("conditionals", "visible")):
        if isinstance(task, Job) and out["cell"][name] == unused:
            del out["cell"][name]
    return out


def _uses(task: Job | Watch) -> set[str]:
    """Which of the files that `identify` names a task's result depends on."""
    if not isinstance(task, Job):
        order, direction, ar = task.order, task.direction, False
    elif task.cell.causal:
        return {"tokenizer", "ar"}
    else:
        order, direction = task.cell.order, task.cell.direction
        ar = task.criterion in ("ar", "both") or task.cell.polish > 0
    orders = [one.strip() for one in order.split("|")]
    learned = {f.format(direction).removesuffix(".safetensors") for name, f in LEARNED.items() if name in orders}
    return {"tokenizer", "model", "lengths"} | ({"ar"} if ar else set()) | learned


def _own_files(task: Job | Watch) -> dict[str, str]:
    """The files of orders of one's own, each by a hash of its content."""
    order = task.cell.order if isinstance(task, Job) else task.order
    files = {one.strip(): path for one in order.split("|") if (path := file_of(one.strip())) is not None}
    return {one: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for one, path in files.items() if path.is_file()}


def identify(model: str) -> dict[str, str]:
    """The files that results depend on, each by a hash of its content."""
    folder = locate(model) or ModelFolder(Path(model))
    return {name: fingerprint(f.read_bytes()) for name, f in folder.files.items()}


def run(job: Job, store: Store, translator: Translator, corpus: EvalSet) -> None:
    """Do a job and store what comes of it."""
    part = corpus.part(job.start, job.stop)
    if job.criterion == "written":
        candidates, spent = decode(job.cell, translator, part)
        scores: list[list[float]] = []
    else:
        chunk = store.chunk(job.decode)
        if chunk is None:
            raise CellError(f"sentences {job.start} … {job.stop} of {job.cell} must be decoded before they are scored")
        candidates = []
        scores, spent = rescore(chunk.candidates, job.criterion, translator, part)
    content = {"job": asdict(job), "candidates": [[asdict(c) for c in row] for row in candidates]}
    store.write(store.of(job), {**content, "scores": scores, "spent": asdict(spent)})


def decode(cell: Cell, translator: Translator, corpus: EvalSet) -> tuple[list[list[Candidate]], Spent]:
    """The candidates of each sentence: the best hypothesis of each length, order by order; polished, the one found;
    written to an end of its own, all that a beam found, best first."""
    model = _beside(translator) if cell.causal else translator
    to, source = corpus.target_language, corpus.source_language
    lengths = None
    if cell.gold:
        lengths = [max(1, len(ids)) for ids in translator.tokenizer.encode(corpus.references, to)]
    before, start = model.cost, time.process_time()
    if cell.polish:
        judge = _beside(translator)
        judged = judge.cost
        best = [t.hypotheses for t in model.translate(corpus.sources, to, source=source, plan=cell.plan())]
        spent = _spent(before, model.cost, start) + replace(_spent(judged, judge.cost, start), seconds=0.0)
        return [_best(list(hypotheses)) for hypotheses in best], spent
    found = [
        model.candidates(corpus.sources, to, source=source, plan=plan, lengths=lengths) for plan in cell.plan().each
    ]
    keep = None if cell.order == FORWARDS else 1
    candidates = [[c for one in sentence for k in one for c in _best(k, keep)] for sentence in zip(*found, strict=True)]
    return candidates, _spent(before, model.cost, start)


def _best(hypotheses: list[Hypothesis], keep: int | None = 1) -> list[Candidate]:
    """The best few, or all, best first."""
    ranked = sorted(hypotheses, key=lambda h: h.score, reverse=True)[:keep]
    return [Candidate(h.text, list(h.ids), sum(h.logp), h.log_length) for h in ranked]


def _beside(translator: Translator) -> Translator:
    if translator.beside is None:
        raise CellError(f"{translator.name} has no autoregressive model beside it: give one")
    return translator.beside()


def _spent(before: Cost, after: Cost, start: float) -> Spent:
    return Spent(
        after.canvases - before.canvases, after.head_rows - before.head_rows, round(time.process_time() - start, 3)
    )


def rescore(
    candidates: Sequence[Sequence[Candidate]], criterion: Criterion, translator: Translator, corpus: EvalSet
) -> tuple[list[list[float]], Spent]:
    """Mean log p of each candidate, by the model itself, the causal one within it, the one beside it, or both."""
    if criterion == "both":
        own, spent = rescore(candidates, "forwards", translator, corpus)
        beside, more = rescore(candidates, "ar", translator, corpus)
        means = [[(a + b) / 2 for a, b in zip(*some, strict=True)] for some in zip(own, beside, strict=True)]
        return means, spent + more
    model = _beside(translator) if criterion == "ar" else translator
    sources = translator.tokenizer.encode(corpus.sources, corpus.source_language)
    before, start = model.cost, time.process_time()
    flat = [(source, c.ids) for source, row in zip(sources, candidates, strict=True) for c in row]
    generator = model.generator(corpus.target_language, corpus.source_language)
    values = iter((generator.forwards if criterion == FORWARDS else generator).score(flat))
    end = 0 if criterion == "pll" else 1  # </s> counts
    scores = [[next(values) / (c.length + end) for c in row] for row in candidates]
    return scores, _spent(before, model.cost, start)
