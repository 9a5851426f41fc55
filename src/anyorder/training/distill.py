"""Sequence-level distillation (Kim & Rush 2016): the training sources with a teacher's translations as targets."""

from __future__ import annotations

import gzip
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import torch

from anyorder.data.read import read_texts
from anyorder.errors import TooMuchError
from anyorder.files import digest
from anyorder.models.folder import ModelFolder
from anyorder.models.tokenizer import Tokenizer
from anyorder.pool import HERE, Pool, every
from anyorder.progress import Bar
from anyorder.text.effort import expected
from anyorder.text.generator import Generator
from anyorder.text.rows import Input
from anyorder.training.checkpoint import TrainingError, of_texts, same_run, write_atomically
from anyorder.training.config import Config, Distillation
from anyorder.training.prepare import read_pairs
from anyorder.training.validation import plan_of

Ids = list[int]
Direction = tuple[int, int]  # source and target language, as indices into the model's
ENGINES = ("anyorder", "ctranslate2")


class Teacher(Protocol):
    """Sources → candidates for each, the best first."""

    def __call__(self, sources: Sequence[Ids], direction: Direction, n: int) -> list[list[Ids]]:
        """The n best translations of each source, as ids, best first."""
        ...


class _Sent:
    """A teacher that is sent elsewhere is loaded there anew, from its folder."""

    made: tuple[ModelFolder, int]

    def __reduce__(self) -> tuple[type, tuple[ModelFolder, int]]:
        return type(self), self.made


class Ours(_Sent):
    """The project's own generator."""

    def __init__(self, folder: ModelFolder, beam: int) -> None:
        self.made = ModelFolder(folder.path.absolute()), beam
        self.model, self.lengths = folder.model(), folder.lengths()
        self.plan = plan_of(self.model, beam)
        self._allow(beam)

    def __call__(self, sources: Sequence[Ids], direction: Direction, n: int) -> list[list[Ids]]:
        """The n best translations of each source, as ids, best first."""
        name = "-".join(self.model.languages[k] for k in direction)
        generator = Generator(self.model, direction, self.lengths.get(name))
        found = generator.generate([Input(tuple(source)) for source in sources], self.plan, scores=False)
        return [[list(h.ids) for h in sorted(some, key=lambda h: -h.score)[:n]] for some in found]

    def _allow(self, beam: int) -> None:
        """Refuse a beam that would be too much, before anything is begun."""
        generator = Generator(self.model, (0, 1))
        longest = [Input((0,) * generator.room)]
        decoders = [(one, generator.decoder(one)) for one in self.plan.each]
        try:
            expected(generator, longest, decoders).allow(self.plan, self.model.kind)
        except TooMuchError as error:
            raise TrainingError(f"beam = {beam}: {str(error).split(':')[0]}; take a smaller beam") from None


class CTranslate2(_Sent):
    """The same autoregressive model in CTranslate2, whose beam search is a little faster on a CPU."""

    def __init__(self, folder: ModelFolder, beam: int) -> None:
        self.made = ModelFolder(folder.path.absolute()), beam
        self.model: Any = folder.model()
        if self.model.kind != "autoregressive":
            raise TrainingError(f'{folder.path}: the engine ctranslate2 is for autoregressive teachers: use "anyorder"')
        self.tokens = folder.tokenizer().tokens(range(self.model.architecture.vocabulary))
        self.beam, self.workers = beam, torch.get_num_threads()
        self.engines: dict[Direction, Any] = {}
        self.making = Lock()

    def __call__(self, sources: Sequence[Ids], direction: Direction, n: int) -> list[list[Ids]]:
        """The n best translations of each source, as ids, best first."""
        from anyorder.models.engines import ctranslate2_candidates

        return ctranslate2_candidates(self._engine(direction), self.model, self.tokens, sources, self.beam, n)

    def _engine(self, direction: Direction) -> Any:
        from anyorder.models.engines import to_ctranslate2, to_hugging_face

        with self.making:  # parts are asked for side by side
            if direction not in self.engines:
                with tempfile.TemporaryDirectory() as aside:  # read when it is made
                    hf = to_hugging_face(self.model, direction)
                    self.engines[direction] = to_ctranslate2(hf, self.tokens, Path(aside), workers=self.workers)
        return self.engines[direction]


def teacher(folder: ModelFolder, engine: str, beam: int, best_of: int = 1) -> Teacher:
    """A teacher by the name of its engine."""
    if engine not in ENGINES:
        raise TrainingError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    made = Ours(folder, beam) if engine == "anyorder" else CTranslate2(folder, beam)
    if best_of > beam and made.model.kind == "autoregressive":
        raise TrainingError(f"best_of = {best_of}: a beam of {beam} has no {best_of} candidates: raise beam")
    return made


def nearest(candidates: Sequence[Ids], references: Sequence[Ids]) -> Ids:
    """The candidate of the smallest edit distance to any reference; the first where there are none or all tie."""
    if not references or len(candidates) == 1:
        return candidates[0]
    from rapidfuzz.distance import Levenshtein

    return min(candidates, key=lambda c: min(Levenshtein.distance(c, r) for r in references))


PART = 500  # sentences per file while it runs
References = Mapping[str, list[str]]  # sentence → people's translations of it


def distill(config: Config, folder: ModelFolder, out: Path, how: Distillation, pool: Pool = HERE) -> list[Path]:
    """Translate distinct training sentences in both directions: `<direction>.tsv.gz`, source TAB target."""
    out, languages = out.absolute(), config.data.languages
    sides = [_sentences(config, s, how) for s in (0, 1)]
    texts = [some[: how.limit or None] for some, _ in sides]
    settings = {"beam": how.beam, "best_of": how.best_of, "engine": how.engine}
    files = [out / f"{languages[s]}-{languages[t]}.tsv.gz" for s, t in ((0, 1), (1, 0))]
    finished = all(path.exists() for path in files)
    ask = None if finished else teacher(folder, how.engine, how.beam, how.best_of)  # a beam is refused before it begins
    same_run(out / "run.json", {"teacher": digest(folder.path), **settings, "sentences": of_texts(texts)})
    if ask is None:
        return files
    tokenizer, known = folder.tokenizer(), folder.languages
    for (s, t), path in zip(((0, 1), (1, 0)), files, strict=True):
        if path.exists():
            continue
        direction = (known.index(languages[s]), known.index(languages[t]))
        room = config.model.room
        work = _Writer(ask, tokenizer, (languages[s], languages[t]), direction, sides[s][1], how.best_of, room)
        chunks = [texts[s][i : i + PART] for i in range(0, len(texts[s]), PART)]
        parts = [out / f"{path.name[:-7]}.{i:05d}.{len(chunk)}.part" for i, chunk in enumerate(chunks)]
        jobs = [(chunk, part) for chunk, part in zip(chunks, parts, strict=True) if not part.exists()]
        with Bar(path.name, len(jobs)) as bar:
            for _ in every(pool, work, jobs):
                bar.advance()
        write_atomically(path, gzip.compress(b"".join(part.read_bytes() for part in parts), mtime=0))
        for part in parts:
            part.unlink(missing_ok=True)
    return files


def _sentences(config: Config, side: int, how: Distillation) -> tuple[list[str], References]:
    """The distinct sentences of one language, sentences of pairs first, and the pairs' translations."""
    references: dict[str, list[str]] = defaultdict(list)
    for corpus in config.data.train:
        pairs = read_pairs(corpus, config.data)
        for a, b in zip(pairs.first, pairs.second, strict=True):
            references[(a, b)[side]].append((b, a)[side])
    lines = list(references)[: how.pairs or None]
    if how.monolingual:
        names = config.data.monolingual.get(config.data.languages[side], [])
        lines += [x for name in names for x in read_texts(Path(config.data.root) / name, config.data.longest).lines]
    return [text for text in dict.fromkeys(lines) if "\t" not in text], references


@dataclass(frozen=True)
class _Writer:
    """Has a part translated and writes it to its file."""

    ask: Teacher
    tokenizer: Tokenizer
    languages: tuple[str, str]
    direction: tuple[int, int]
    references: References
    best_of: int
    room: int  # tokens that a sentence may have

    def open(self) -> _Writer:
        """Itself."""
        return self

    def __call__(self, job: tuple[list[str], Path]) -> None:
        texts, path = job
        source, target = self.languages
        ids = self.tokenizer.encode(texts, source)
        kept = [i for i, row in enumerate(ids) if 0 < len(row) <= self.room]
        known = [self.references.get(texts[i], []) if self.best_of > 1 else [] for i in kept]
        n = self.best_of if any(known) else 1
        found = self.ask([ids[i] for i in kept], self.direction, n)
        rows = [nearest(some, self.tokenizer.encode(r, target)) for some, r in zip(found, known, strict=True)]
        targets = (" ".join(text.split()) for text in self.tokenizer.decode(rows, target))  # no tabs, no line ends
        lines = zip((texts[i] for i in kept), targets, strict=True)
        write_atomically(path, "".join(f"{a}\t{b}\n" for a, b in lines if b).encode())
