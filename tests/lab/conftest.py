"""A data folder of a few sentences, and a model that knows nothing, for the experiments' own tests."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from cli_support import build_translator

from anyorder.lab.metrics import moses

DE = ["Ein Hund.", "Zwei Kinder.", "Eine Frau liest.", "Der Mann singt."]  # short: they are translated in every way
EN = ["A dog.", "Two children.", "A woman reads.", "The man sings."]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for part in ("multi30k/parallel", "multi30k/tok", "tatoeba"):
        (folder / part).mkdir(parents=True)
    for language, lines in (("de", DE), ("en", EN)):
        for name in ("val", "test_2016_flickr"):
            with gzip.open(folder / f"multi30k/parallel/{name}.{language}.gz", "wt", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            tokenised = folder / f"multi30k/tok/{name}.lc.norm.tok.{language}"
            tokenised.write_text("\n".join(moses(lines, language)) + "\n", encoding="utf-8")
    with gzip.open(folder / "tatoeba/test.de-en.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{a}\t{b}\n" for a, b in zip(DE, EN, strict=True))
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_translator(tmp_path_factory.mktemp("models") / "tiny")
