"""FASTA: sequences with a name each."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from anyorder.errors import DataError


def read_fasta(path: Path | str) -> list[tuple[str, str]]:
    """(name, sequence) of each record; "-" is standard input. A file without any ">" is one sequence."""
    raw = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (UnicodeDecodeError, OSError, EOFError):
        raise DataError(f"{path} is no text: a FASTA file has lines of letters") from None
    return list(_records(text.splitlines(), str(path)))


def _records(lines: Iterable[str], path: str) -> Iterator[tuple[str, str]]:
    name, parts, begun = "", list[str](), False
    for line in lines:
        if line.startswith(">"):
            if begun and not parts:
                raise DataError(f"{path}: the record {name!r} has no sequence")
            if parts:
                yield name, "".join(parts)
            name, parts, begun = line[1:].strip(), [], True
        elif not line.startswith(";"):
            parts += ["".join(line.split()).removesuffix("*")] if line.strip() else []
    if begun and not parts:
        raise DataError(f"{path}: the record {name!r} has no sequence")
    if not parts:
        raise DataError(f"{path} has no sequence")
    yield name, "".join(parts)


def one_sequence(text: str) -> tuple[str, str]:
    """(name, sequence) from a FASTA file with one record, or from the sequence itself."""
    if text != "-" and not os.path.exists(text):  # of a name too long for a file it is False, too
        if text.isalpha():
            return "", text
        raise DataError(f"there is no file {text}")
    records = read_fasta(text)
    if len(records) > 1:
        raise DataError(f"{text} has {len(records)} sequences; give a file with one")
    return records[0]


def fasta(records: Iterable[tuple[str, str]], width: int = 60) -> str:
    """Records as a FASTA file."""
    out = []
    for name, sequence in records:
        out += [f">{name}", *(sequence[i : i + width] for i in range(0, len(sequence), width))]
    return "\n".join(out) + "\n"
