"""Public corpora: where they come from, how they are laid out, and how a local copy is used instead."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import html
import io
import re
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from anyorder.errors import DataError
from anyorder.files import whole, write_whole

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data"
SPLITS = ("train", "val", "test_2016_flickr", "test_2017_flickr")
TATOEBA = "https://downloads.tatoeba.org/exports/per_language"
TATOEBA_FILES = {
    "german": "deu/deu_sentences.tsv.bz2",
    "english": "eng/eng_sentences.tsv.bz2",
    "links": "deu/deu-eng_links.tsv.bz2",
}
WMT_TRAIN = {
    "europarl-v7": "https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "commoncrawl": "https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "news-commentary-v9": "https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
}
WMT_TESTS = {  # the year that settings are chosen on, and the one that is reported
    "newstest2013": "https://www.statmt.org/wmt14/dev.tgz",
    "newstest2014": "https://www.statmt.org/wmt14/test-full.tgz",
}

Get = Callable[[str], bytes]  # address → content


@dataclass(frozen=True)
class File:
    """One file of a corpus: where it is laid out, and the address of its gzip."""

    path: str
    url: str


def multi30k() -> list[File]:
    """Task 1 (translation pairs) and task 2 (independent captions in both languages, training split)."""
    out = []
    for language in ("de", "en"):
        for split in SPLITS:
            name = f"{split}.{language}.gz"
            out.append(File(f"multi30k/parallel/{name}", f"{MULTI30K}/task1/raw/{name}"))
        for k in range(1, 6):
            name = f"train.{k}.{language}.gz"
            out.append(File(f"multi30k/mono/{name}", f"{MULTI30K}/task2/raw/{name}"))
    return out


def fetch(corpus: str, folder: Path, source: Path | None = None, mirror: str | None = None) -> Iterator[str]:
    """Lay `corpus` out under `folder`/`corpus`, from `source` where given; the path of each file.

    `mirror`: an address under which every file lies as HOST/PATH of its own address, as `wget -x` lays them out.
    """
    get = partial(_get, mirror=mirror)
    if corpus not in ("multi30k", "tatoeba", "wmt14"):
        raise DataError(f"no corpus {corpus!r}: there are multi30k, tatoeba and wmt14")
    if source is not None:
        yield from _copy(source / corpus if (source / corpus).is_dir() else source, folder / corpus)
    elif corpus == "multi30k":
        for file in multi30k():
            yield _download(file.url, folder / file.path, get)
    elif corpus == "tatoeba":
        yield from _tatoeba(folder / "tatoeba", get)
    else:
        yield from _wmt14(folder / "wmt14", get)


def _copy(source: Path, folder: Path) -> Iterator[str]:
    """Every text file under `source`, to the same place under `folder`."""
    endings = (".gz", ".tsv", ".de", ".en")
    files = [p for p in sorted(source.rglob("*")) if p.is_file() and p.suffix in endings]
    if not files:
        raise DataError(f"{source} has no text files ({', '.join(endings)})")
    for path in files:
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        yield str(target)


def _tatoeba(folder: Path, get: Get) -> Iterator[str]:
    """Tatoeba's German sentences beside their English translations, one pair a German sentence."""
    read = {name: bz2.decompress(get(f"{TATOEBA}/{path}")) for name, path in TATOEBA_FILES.items()}
    for split, pairs in split_tatoeba(read["german"], read["english"], read["links"]).items():
        path = folder / f"{split}.de-en.tsv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, gzip.compress("".join(f"{a}\t{b}\n" for a, b in pairs).encode()))
        yield str(path)


def split_tatoeba(german: bytes, english: bytes, links: bytes) -> dict[str, list[tuple[str, str]]]:
    """Sentence tables (id, language, text) and links (id, id) → pairs. No sentence is in two of the splits.

    Each German sentence is in one pair, and a pair's split follows from its English side: 1 % each to val and test.
    """
    de, en = (dict(_cells(table, 0, 2)) for table in (german, english))
    pairs, used = [], set()
    for a, b in _cells(links, 0, 1):
        if a in de and b in en and de[a] not in used:
            used.add(de[a])
            pairs.append((de[a], en[b]))
    out: dict[str, list[tuple[str, str]]] = {"train": [], "val": [], "test": []}
    for a, b in pairs:
        bucket = int.from_bytes(hashlib.sha256(b.encode()).digest()[:4], "big") % 100
        out["test" if bucket == 0 else "val" if bucket == 1 else "train"].append((a, b))
    return out


def _cells(table: bytes, first: int, second: int) -> Iterator[tuple[str, str]]:
    """Two columns of a tab-separated table."""
    for line in table.decode("utf-8", "replace").splitlines():
        cells = line.split("\t")
        if len(cells) > max(first, second):
            yield cells[first], cells[second]


def _get(url: str, mirror: str | None) -> bytes:
    if mirror is not None:
        where = urlsplit(url)
        url = f"{mirror.rstrip('/')}/{where.netloc}{where.path}"
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            content: bytes = response.read()
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise DataError(f"{url} cannot be fetched ({error}): with the files at hand, use --from FOLDER") from None
    return content


def _download(url: str, target: Path, get: Get) -> str:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        content = get(url)
        try:
            gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            raise DataError(f"{url} gave no gzip file (a page about an error?): try again later") from None
        write_whole(target, content)
    return str(target)


@contextmanager
def _packed(path: Path) -> Iterator[gzip.GzipFile]:
    with whole(path) as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        yield packed


def _wmt14(folder: Path, get: Get) -> Iterator[str]:
    """Europarl, Common Crawl and News Commentary as one training file a language; newstest2013 and 2014."""
    folder.mkdir(parents=True, exist_ok=True)
    if not all((folder / f"train.{k}.gz").exists() for k in ("de", "en")):
        with _packed(folder / "train.de.gz") as de, _packed(folder / "train.en.gz") as en:
            for name, url in WMT_TRAIN.items():
                with _archive(get, url) as archive:
                    for member in archive.getmembers():
                        if f"{name}.de-en." in member.name and member.name[-3:] in (".de", ".en"):
                            content = archive.extractfile(member)
                            assert content is not None
                            shutil.copyfileobj(content, de if member.name.endswith(".de") else en)
    for k in ("de", "en"):
        yield str(folder / f"train.{k}.gz")
    for year, url in WMT_TESTS.items():
        texts: dict[str, bytes] = {}
        with _archive(get, url) as archive:
            for member in archive.getmembers():
                if (
                    found := re.fullmatch(rf"{year}(-deen-(?:src|ref))?\.(de|en)(\.sgm)?", Path(member.name).name)
                ) is None:
                    continue
                content = archive.extractfile(member)
                assert content is not None
                text = content.read()
                texts.setdefault(found[2], segments(text) if found[3] else text)
        if texts.keys() != {"de", "en"}:
            raise DataError(f"{url} holds no {year} in German and English: is it the archive it was?")
        for language, text in sorted(texts.items()):
            write_whole(folder / f"{year}.{language}", text)
            yield str(folder / f"{year}.{language}")


def segments(sgml: bytes) -> bytes:
    """The texts of <seg> elements, one a line: how WMT gave its test sets away."""
    found = re.findall(r"<seg[^>]*>(.*?)</seg>", sgml.decode("utf-8"), re.DOTALL)
    return "".join(" ".join(html.unescape(text).split()) + "\n" for text in found).encode()


@contextmanager
def _archive(get: Get, url: str) -> Iterator[tarfile.TarFile]:
    """A .tgz that is fetched."""
    try:
        with tarfile.open(fileobj=io.BytesIO(get(url)), mode="r:gz") as archive:
            yield archive
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{url} gave no .tgz archive (a page about an error?): try again later") from None
