"""Test sets by name, from a data folder: sources, references, and the tokenised references of published scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anyorder.data.read import Pairs, read_parallel, read_texts, read_tsv
from anyorder.errors import DataError

MULTI30K = ("val", "test_2016_flickr", "test_2017_flickr")
TATOEBA = {"tatoeba-val": "val", "tatoeba-test": "test"}
WMT14 = ("newstest2013", "newstest2014")
NAMES = (*MULTI30K, *TATOEBA, *WMT14)


@dataclass(frozen=True)
class EvalSet:
    """Sentences to translate, with reference translations."""

    name: str
    source_language: str
    target_language: str
    sources: list[str]
    references: list[str]
    tokenised: list[str] | None = None  # lower-cased, normalised, Moses-tokenised references

    def part(self, start: int, stop: int) -> EvalSet:
        """Sentences start … stop − 1."""
        cut = slice(start, stop)
        tokenised = None if self.tokenised is None else self.tokenised[cut]
        return replace(self, sources=self.sources[cut], references=self.references[cut], tokenised=tokenised)

    def some(self, which: Sequence[int]) -> EvalSet:
        """Only these sentences."""
        tokenised = None if self.tokenised is None else [self.tokenised[i] for i in which]
        sources, references = ([side[i] for i in which] for side in (self.sources, self.references))
        return replace(self, sources=sources, references=references, tokenised=tokenised)

    def __len__(self) -> int:
        return len(self.sources)


def load_test_set(data: Path | str, name: str, direction: str) -> EvalSet:
    """The test set `name` in `direction` ("de-en") from a folder as `anyorder data` lays it out."""
    data = Path(data)
    if name not in NAMES:
        raise DataError(f"no test set {name!r}; there are {', '.join(NAMES)}")
    source, _, target = direction.partition("-")
    if {source, target} != {"de", "en"}:
        raise DataError(f"{name} is German and English; direction is de-en or en-de, not {direction!r}")
    tokenised = None
    if name in MULTI30K:
        folder = data / "multi30k" / "parallel"
        pairs = read_parallel(_found(folder, f"{name}.{source}"), _found(folder, f"{name}.{target}"))
        lines = data / "multi30k" / "tok" / f"{name}.lc.norm.tok.{target}"
        tokenised = read_texts(lines).lines if lines.exists() else None
    elif name in WMT14:
        first, second = (_found(data / "wmt14", f"{name}.{language}") for language in (source, target))
        pairs = read_parallel(first, second)
    else:
        pairs = read_tsv(_found(data / "tatoeba", f"{TATOEBA[name]}.de-en.tsv"))
        if source == "en":
            pairs = Pairs(pairs.second, pairs.first, pairs.report)
    if pairs.report.skipped:
        raise DataError(f"a test set must be whole, but {pairs.report}")
    if tokenised is not None and len(tokenised) != len(pairs.second):
        raise DataError(f"{len(tokenised)} tokenised references but {len(pairs.second)} plain ones of {name}")
    return EvalSet(name, source, target, pairs.first, pairs.second, tokenised)


def _found(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return path
    known = "multi30k/, tatoeba/ or wmt14/, as `anyorder data` lays them out"
    raise DataError(f"{folder / name}(.gz) does not exist: give the folder that holds {known}")
