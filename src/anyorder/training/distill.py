"""Sequence-level distillation (Kim & Rush 2016): the training sources with a teacher's translations as targets."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anyorder.data.read import read_texts
from anyorder.files import digest
from anyorder.models.folder import ModelFolder
from anyorder.models.tokenizer import Tokenizer
from anyorder.pool import HERE, Pool, every
from anyorder.progress import Bar
from anyorder.training.checkpoint import of_texts, same_run, write_atomically
from anyorder.training.config import Config, Distillation
from anyorder.training.prepare import read_pairs
from anyorder.training.teachers import Teacher, nearest, teacher

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
    """The distinct sentences of one language, those of the pairs first, and people's translations of these."""
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
