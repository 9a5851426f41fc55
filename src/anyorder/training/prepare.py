"""From a configuration's files to tokenised corpora: vocabulary, length counts, a cache beside the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from anyorder.data import read as files
from anyorder.data.ragged import Ragged
from anyorder.errors import DataError
from anyorder.files import whole
from anyorder.models.catalog import found
from anyorder.models.folder import LENGTHS, TOKENIZER
from anyorder.models.tokenizer import Tokenizer, train_tokenizer
from anyorder.models.translation import LengthCounts, count_lengths
from anyorder.training.checkpoint import of_texts, same_run, write_atomically
from anyorder.training.config import Config, Data, ParallelText
from anyorder.training.objectives import Corpus

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """Everything that training reads."""

    tokenizer: Tokenizer
    train: Corpus  # pairs
    valid: Corpus
    monolingual: Corpus  # single sentences of both languages; the sides of the pairs where no other text is given
    references: list[list[str]]  # the validation pairs as text, one list a language


def read_pairs(corpus: ParallelText, data: Data) -> files.Pairs:
    """Parallel text as configured: files, a TSV, a dataset of the hub, or a copy task."""
    root = Path(data.root)
    if corpus.copy:
        return files.copy_task(corpus.copy, corpus.seed)
    if corpus.tsv:
        return files.read_tsv(root / corpus.tsv, data.longest)
    if corpus.hub:
        languages = (data.languages[0], data.languages[1])
        return files.read_hub(corpus.hub, corpus.hub_config or None, corpus.split, languages, data.longest)
    return files.read_parallel(root / corpus.files[0], root / corpus.files[1], data.longest)


def prepare(config: Config, out: Path, say: Say, longest: int) -> Prepared:
    """Read, tokenise and measure; texts of more than `longest` tokens are left out, and counted."""
    out.mkdir(parents=True, exist_ok=True)
    data = config.data
    train = [(read_pairs(c, data), c.repeat) for c in data.train]
    valid = [read_pairs(c, data) for c in data.valid]
    texts = {
        language: [files.read_texts(Path(data.root) / name, data.longest) for name in names]
        for language, names in data.monolingual.items()
    }
    for report in [
        *(p.report for p, _ in train),
        *(p.report for p in valid),
        *(t.report for k in texts.values() for t in k),
    ]:
        say(str(report))
    for what, pairs in (("training", [p for p, _ in train]), ("validation", valid)):
        if not any(p.first for p in pairs):
            raise DataError(f"not one usable {what} pair")
    lists = [side for p in [*(p for p, _ in train), *valid] for side in (p.first, p.second)]
    same_run(
        out / "run.json",
        {
            "languages": data.languages,
            "tokenizer": asdict(config.tokenizer),
            "model": asdict(config.model),
            "repeat": [repeat for _, repeat in train],
            "data": of_texts([*lists, *(t.lines for k in sorted(texts) for t in texts[k])]),
        },
    )
    tokenizer = _tokenizer(config, out, train)

    cache = _Cache(out / "corpus.pt", config, tokenizer)
    if (tokenised := cache.load()) is None:
        tokenised = {
            "train": _tokenise_pairs(train, tokenizer, data.languages, longest, say),
            "valid": _tokenise_pairs([(p, 1) for p in valid], tokenizer, data.languages, longest, say),
            "monolingual": _tokenise_texts(texts, train, tokenizer, data.languages, longest),
        }
        cache.save(tokenised)
    lengths = length_counts(tokenised["train"], data.languages)
    write_atomically(out / LENGTHS, json.dumps(lengths).encode())
    references = [[s for p in valid for s in p.first], [s for p in valid for s in p.second]]
    return Prepared(tokenizer, tokenised["train"], tokenised["valid"], tokenised["monolingual"], references)


def read_distilled(folder: Path, tokenizer: Tokenizer, config: Config, longest: int) -> Corpus:
    """Pairs whose targets a model wrote (`anyorder distill`): `<direction>.tsv.gz`, source TAB target, both ways.

    Pairs are in the configuration's order of languages, and know which side is the written one.
    """
    first, second = config.data.languages
    rows: tuple[list[list[int]], list[list[int]]] = ([], [])
    written: list[int] = []
    for source, target in ((first, second), (second, first)):
        path = folder / f"{source}-{target}.tsv.gz"
        if not path.exists():
            raise DataError(f"{path} does not exist: let `anyorder distill` write it before this stage begins")
        pairs = files.read_tsv(path, config.data.longest)
        sides = {source: tokenizer.encode(pairs.first, source), target: tokenizer.encode(pairs.second, target)}
        for a, b in zip(sides[first], sides[second], strict=True):
            if 0 < len(a) <= longest and 0 < len(b) <= longest:
                rows[0].append(a)
                rows[1].append(b)
                written.append(int(target == second))
    if not written:
        raise DataError(f"{folder} has not one usable pair: was the teacher trained?")
    return Corpus(Ragged.of(rows[0]), Ragged.of(rows[1]), target=torch.tensor(written))


def with_back_translations(pairs: Corpus, written: Corpus) -> Corpus:
    """Back-translation (Sennrich et al. 2016): people's pairs both ways, and a model's sources of further targets.

    `written` is what `read_distilled` gives. Turned round, its pairs are learnt towards the side that people wrote;
    those whose target stands in `pairs` are left out, for there people wrote the source too.
    """
    assert pairs.second is not None and written.second is not None and written.target is not None
    known = [{tuple(side.row(i)) for i in range(len(side))} for side in (pairs.first, pairs.second)]
    target = 1 - written.target
    sides = (written.first, written.second)
    new = [i for i, t in enumerate(target.tolist()) if tuple(sides[t].row(i)) not in known[t]]
    if not new:
        raise DataError("nothing to translate back but the pairs' own targets: `anyorder distill --monolingual`")
    more = torch.tensor(new)
    both = torch.tensor([1, 0]).repeat_interleave(len(pairs))
    first = Ragged.joined([pairs.first, pairs.first, written.first.some(more)])
    second = Ragged.joined([pairs.second, pairs.second, written.second.some(more)])
    return Corpus(first, second, target=torch.cat([both, target[more]]))


def one_way(pairs: Corpus, side: int) -> Corpus:
    """Pairs of which only this side, 0 or 1, is to be predicted; those that only have the other are left out."""
    assert pairs.second is not None
    if pairs.target is None:
        return replace(pairs, target=torch.full((len(pairs),), side))
    rows = (pairs.target == side).nonzero()[:, 0]
    return Corpus(pairs.first.some(rows), pairs.second.some(rows), target=pairs.target[rows])


def _tokenizer(config: Config, out: Path, train: list[tuple[files.Pairs, int]]) -> Tokenizer:
    path = out / TOKENIZER
    if path.exists():
        return Tokenizer.load(path)
    if config.tokenizer.model:
        tokenizer = found(config.tokenizer.model).tokenizer()
    elif config.tokenizer.file:
        given = Path(config.tokenizer.file)
        tokenizer = Tokenizer.load(given if given.exists() else Path(config.data.root) / given)
    else:
        first, second = config.data.languages
        texts = (
            (text, language)
            for pairs, repeat in train
            for _ in range(min(repeat, 2))
            for side, language in ((pairs.first, first), (pairs.second, second))
            for text in side
        )
        tokenizer = train_tokenizer(texts, config.tokenizer.vocabulary, config.tokenizer.moses)
    tokenizer.save(path)
    return tokenizer


def _tokenise_pairs(
    corpora: list[tuple[files.Pairs, int]], tokenizer: Tokenizer, languages: list[str], longest: int, say: Say
) -> Corpus:
    sides: tuple[list[list[int]], list[list[int]]] = ([], [])
    for pairs, repeat in corpora:
        first, second = tokenizer.encode(pairs.first, languages[0]), tokenizer.encode(pairs.second, languages[1])
        kept = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if 0 < len(a) <= longest >= len(b) > 0]
        if len(kept) < len(first):
            say(f"{pairs.report.name}: {len(first) - len(kept)} pairs longer than {longest} tokens left out")
        for _ in range(repeat):
            sides[0].extend(first[i] for i in kept)
            sides[1].extend(second[i] for i in kept)
    return Corpus(Ragged.of(sides[0]), Ragged.of(sides[1]))


def _tokenise_texts(
    texts: dict[str, list[files.Texts]],
    train: list[tuple[files.Pairs, int]],
    tokenizer: Tokenizer,
    languages: list[str],
    longest: int,
) -> Corpus:
    rows: list[list[int]] = []
    language: list[int] = []
    for k, name in enumerate(languages):
        lines = [line for t in texts.get(name, []) for line in t.lines]
        lines += [line for p, _ in train for line in (p.first if k == 0 else p.second)]
        ids = [row for row in tokenizer.encode(lines, name) if 0 < len(row) <= longest]
        rows += ids
        language += [k] * len(ids)
    return Corpus(Ragged.of(rows), language=torch.tensor(language))


def length_counts(pairs: Corpus, languages: list[str]) -> dict[str, LengthCounts]:
    """p(L|X) as counts: {"de-en": {source length: {target length: how often}}} and the other direction.

    Where one side of each pair was written by a model, its length counts in that direction only.
    """
    assert pairs.second is not None
    a, b = pairs.first.lengths, pairs.second.lengths
    out: dict[str, LengthCounts] = {}
    for name, source, target, side in ((languages, a, b, 1), (languages[::-1], b, a, 0)):
        rows = slice(None) if pairs.target is None else pairs.target == side
        out["-".join(name)] = count_lengths(zip(source[rows].tolist(), target[rows].tolist(), strict=True))
    return out


class _Cache:
    """Corpus corpora on disk, for the next start; void when files, settings or vocabulary change."""

    def __init__(self, path: Path, config: Config, tokenizer: Tokenizer) -> None:
        names = [n for c in [*config.data.train, *config.data.valid] for n in ([*c.files, c.tsv] if not c.hub else [])]
        names += [n for more in config.data.monolingual.values() for n in more]
        stamps = [(n, s.st_size, s.st_mtime_ns) for n in names if n for s in [(Path(config.data.root) / n).stat()]]
        content = json.dumps([asdict(config.data), stamps, tokenizer.inner.to_str(), tokenizer.moses])
        self.path, self.key = path, hashlib.sha256(content.encode()).hexdigest()

    def load(self) -> dict[str, Corpus] | None:
        if not self.path.exists():
            return None
        try:
            stored = torch.load(self.path, weights_only=True)
            if stored["key"] != self.key:
                return None
        except Exception:  # damage has errors of a dozen types; the cache is made again
            return None

        def ragged(parts: tuple[Tensor, Tensor, Tensor] | None) -> Ragged | None:
            return None if parts is None else Ragged(*parts)

        return {
            name: Corpus(Ragged(*first), ragged(second), language)
            for name, (first, second, language) in stored["corpora"].items()
        }

    def save(self, corpora: dict[str, Corpus]) -> None:
        def parts(r: Ragged | None) -> tuple[Tensor, Tensor, Tensor] | None:
            return None if r is None else (r.flat, r.starts, r.lengths)

        stored = {name: (parts(c.first), parts(c.second), c.language) for name, c in corpora.items()}
        with whole(self.path) as file:
            torch.save({"key": self.key, "corpora": stored}, file)
