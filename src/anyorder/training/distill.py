"""Sequence-level distillation (Kim & Rush 2016): the training sources with a teacher's translations as targets."""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path
from typing import Any

from anyorder.data.read import read_texts
from anyorder.models.folder import ModelFolder
from anyorder.models.machine import side_by_side
from anyorder.text.generator import Generator
from anyorder.training.checkpoint import write_atomically
from anyorder.training.config import Config
from anyorder.training.prepare import read_pairs
from anyorder.training.validation import best_ids, plan_of

PART = 500  # sentences a file while it runs


def distill(
    config: Config,
    teacher: Path,
    out: Path,
    beam_size: int = 1,
    limit: int | None = None,  # only so many sentences a direction
    monolingual: bool = False,  # translate the configuration's monolingual texts too
) -> list[Path]:
    """Translate every distinct training sentence in both directions: `<direction>.tsv.gz`, source TAB target."""
    from rich.console import Console
    from rich.progress import track

    work = _Teacher(ModelFolder(teacher), beam_size)
    sides = _sentences(config, monolingual)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for s, t in ((0, 1), (1, 0)):
        source, target = config.data.languages[s], config.data.languages[t]
        written.append(path := out / f"{source}-{target}.tsv.gz")
        if path.exists():
            continue
        texts = sides[s][:limit]
        chunks = [texts[i : i + PART] for i in range(0, len(texts), PART)]
        parts = [out / f"{source}-{target}.{i:05d}.{len(chunk)}.part" for i, chunk in enumerate(chunks)]
        jobs = [(chunk, part) for chunk, part in zip(chunks, parts, strict=True) if not part.exists()]
        done = side_by_side(partial(work, source, target), jobs)
        for _ in track(done, description=path.name, total=len(jobs), console=Console(stderr=True)):
            pass
        write_atomically(path, gzip.compress(b"".join(part.read_bytes() for part in parts)))
        for part in parts:
            part.unlink(missing_ok=True)
    return written


def _sentences(config: Config, monolingual: bool) -> list[list[str]]:
    """The distinct sentences of either language, those of the pairs first."""
    pairs = [read_pairs(corpus, config.data) for corpus in config.data.train]
    out = []
    for side, language in enumerate(config.data.languages):
        lines: list[str] = [text for p in pairs for text in (p.first, p.second)[side]]
        if monolingual:
            files = config.data.monolingual.get(language, [])
            lines += [x for name in files for x in read_texts(Path(config.data.root) / name, config.data.longest).lines]
        out.append([text for text in dict.fromkeys(lines) if "\t" not in text])
    return out


class _Teacher:
    """Translates a part and writes it to its file."""

    def __init__(self, folder: ModelFolder, beam_size: int) -> None:
        self.model: Any = folder.model()
        self.tokenizer, self.lengths = folder.tokenizer(), folder.lengths()
        self.plan = plan_of(self.model, beam_size)

    def __call__(self, source: str, target: str, job: tuple[list[str], Path]) -> None:
        texts, path = job
        languages = self.model.languages
        direction = (languages.index(source), languages.index(target))
        generator = Generator(self.model, direction, self.lengths.get(f"{source}-{target}"))
        ids = self.tokenizer.encode(texts, source)
        kept = [i for i, row in enumerate(ids) if 0 < len(row) <= generator.room]
        rows = best_ids(generator, [ids[i] for i in kept], self.plan)
        targets = (" ".join(text.split()) for text in self.tokenizer.decode(rows, target))  # no tabs, no line ends
        lines = zip((texts[i] for i in kept), targets, strict=True)
        write_atomically(path, "".join(f"{a}\t{b}\n" for a, b in lines if b).encode())
