"""Sequence-level distillation (Kim & Rush 2016): the training sources with a teacher's translations as targets."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import torch

from anyorder.models.folder import load_model
from anyorder.training.batches import Ragged
from anyorder.training.checkpoint import write_atomically
from anyorder.training.config import Config
from anyorder.training.prepare import read_pairs
from anyorder.training.run import read_lengths
from anyorder.training.tokenizer import Tokenizer
from anyorder.training.translate import translate

PART = 500  # sentences a file while it runs


def _progress(parts: range, name: str) -> Iterable[int]:
    from rich.console import Console
    from rich.progress import track

    return track(parts, description=name, console=Console(stderr=True))


def distill(config: Config, teacher: Path, out: Path, beam_size: int = 1, limit: int | None = None) -> list[Path]:
    """Translate every distinct training sentence in both directions: `<direction>.tsv.gz`, source TAB target."""
    model, tokenizer = load_model(teacher), Tokenizer.load(teacher / "tokenizer.json")
    counts = read_lengths(teacher / "lengths.json") if (teacher / "lengths.json").exists() else {}
    corpora = [read_pairs(corpus, config.data) for corpus in config.data.train]
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for s, t in ((0, 1), (1, 0)):
        source, target = config.data.languages[s], config.data.languages[t]
        texts = list(dict.fromkeys(text for pairs in corpora for text in (pairs.first if s == 0 else pairs.second)))
        texts = [text for text in texts if "\t" not in text][:limit]
        path = out / f"{source}-{target}.tsv.gz"
        parts = []
        for start in _progress(range(0, len(texts), PART), f"{source}-{target}"):
            part = out / f"{source}-{target}.{start // PART:05d}.part"
            parts.append(part)
            if not path.exists() and not part.exists():
                chunk = texts[start : start + PART]
                ids = tokenizer.encode(chunk, source)
                limit_tokens = model.architecture.positions - 2
                kept = [i for i, row in enumerate(ids) if 0 < len(row) <= limit_tokens]
                with torch.inference_mode():
                    rows = translate(
                        model, Ragged.of([ids[i] for i in kept]), model.languages.index(source),
                        model.languages.index(target), counts.get(f"{source}-{target}"), beam_size=beam_size,
                    )  # fmt: skip
                targets = (" ".join(text.split()) for text in tokenizer.decode(rows, target))  # no tabs, no line ends
                lines = zip((chunk[i] for i in kept), targets, strict=True)
                write_atomically(part, "".join(f"{a}\t{b}\n" for a, b in lines if b).encode())
        if not path.exists():
            write_atomically(path, gzip.compress(b"".join(part.read_bytes() for part in parts)))
            for part in parts:
                part.unlink(missing_ok=True)
        written.append(path)
    return written
