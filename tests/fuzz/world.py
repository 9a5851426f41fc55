"""What cases happen in: a folder with small models and files, and the check that nothing given was touched."""

from __future__ import annotations

import gzip
import io
import shutil
from functools import cache
from pathlib import Path

import torch
from cli_support import build_bert, build_grown, build_translator
from trace_examples import example

from anyorder.files import digest
from anyorder.text import load as loading
from anyorder.traces.trace import write
from tests.fuzz.harness import Broken

LINES = "Ein Hund.\n\nZwei.\nA dog.\n" * 2
TINY = """
name = "tiny"
[data]
languages = ["de", "en"]
train = [{ copy = 20, seed = 1 }]
valid = [{ copy = 4, seed = 2 }]
[tokenizer]
vocabulary = 290
[model]
dim = 16
layers = 1
heads = 2
ffn = 32
positions = 48
[[stages]]
name = "masked"
objective = "masked-translation"
steps = 2
tokens = 128
validate = 2
bleu_sentences = 1
warmup = 1
"""
CONFIG = (Path(__file__).parents[2] / "configs" / "copy-task.toml").read_text(encoding="utf-8")


class World:
    """Small models, loaded once, and files that are put back for every case."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.models = folder, folder / "models"
        self.models.mkdir(parents=True)
        self.translator, self.bert = build_translator(self.models / "tiny"), build_bert(self.models / "bert")
        self.grown = build_grown(self.models / "grown")
        self.ar, self.page = self.models / "tiny-ar", folder / "cases"
        trace = io.StringIO()
        write([example()], trace)
        self.trace = trace.getvalue().encode()
        self.given = {
            "in.de": LINES.encode(),
            "in.en": LINES.encode(),
            "in.gz": gzip.compress(LINES.encode(), mtime=0),
            "t.jsonl": self.trace,
            "bad.de": b"Ein Hund.\nf\xfcr\nEin Garten.\n",
            "empty": b"",
            "tiny.toml": TINY.encode(),
        }
        self.before = digest(self.models)
        self._load = loading.load

    def __enter__(self) -> World:
        torch.set_num_threads(1)
        kept = cache(self._load)
        whole = [
            str(path) for path in (self.translator, self.grown, self.ar, self.bert)
        ]  # a damaged copy is loaded every time
        loading.load = lambda name, **how: (kept if str(name) in whole else self._load)(name, **how)  # type: ignore
        return self

    def __exit__(self, *problem: object) -> None:
        loading.load = self._load

    def fresh(self) -> Path:
        """The folder of a case, with the files that are given and nothing else."""
        shutil.rmtree(self.page, ignore_errors=True)
        self.page.mkdir()
        for name, content in self.given.items():
            (self.page / name).write_bytes(content)
        return self.page

    def untouched(self, *but: str) -> None:
        """Complain if a file that was given is another now."""
        for name, content in self.given.items():
            path = self.page / name
            if name not in but and (not path.is_file() or path.read_bytes() != content):
                raise Broken(f"{name} was changed")

    def models_untouched(self) -> None:
        """Complain if a model is another now."""
        if digest(self.models) != self.before:
            raise Broken("a model's files were changed")

    def copy(self, model: Path) -> Path:
        """A model that may be damaged."""
        target = self.fresh() / "model"
        shutil.copytree(model, target)
        return target
