"""Lines in and lines out: as they come, in bounded memory, in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

CHUNK = 1 << 16  # bytes read at once, at most
LONGEST = 1 << 20  # bytes of one line
SMALL, LARGE = 16, 256  # lines handed on at once: few at first, so that something is seen soon


class InputError(ValueError):
    """Input that is not text; says where."""


def open_lines(path: Path) -> BinaryIO:
    """A file to read lines from, unpacked if its name ends in .gz."""
    if path.suffix == ".gz":
        import gzip

        return gzip.open(path)  # type: ignore[return-value]
    return open(path, "rb")


def windows(raw: BinaryIO, name: str, skip: int = 0) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, lines) from 1, as soon as they can be read; the first `skip` are left out."""
    number, size = 1, SMALL
    for lines in _lines(raw, name):
        start = max(0, skip + 1 - number)
        while start < len(lines):
            texts: list[str] = []
            for line in lines[start : start + size]:
                try:
                    texts.append(line.removesuffix(b"\r").decode("utf-8"))
                except UnicodeDecodeError as error:
                    if texts:
                        yield number + start, texts
                    at = number + start + len(texts)
                    raise InputError(
                        f"{name}, line {at}, byte {error.start + 1}: this is not UTF-8; the {at - 1} lines before it "
                        f"are done (convert the input, for instance with `iconv -f latin1 -t utf8`)"
                    ) from None
            if number + start == 1:
                texts[0] = texts[0].removeprefix("\ufeff")
            yield number + start, texts
            start, size = start + size, min(2 * size, LARGE)
        number += len(lines)


def texts_or_lines(texts: list[str] | None) -> Iterator[str]:
    """The texts of a command line; without any, the lines of standard input."""
    if texts:
        yield from texts
        return
    for _, lines in windows(sys.stdin.buffer, "standard input"):
        yield from lines


def _lines(raw: BinaryIO, name: str) -> Iterator[list[bytes]]:
    """Complete lines, as many as came at once."""
    rest, number = b"", 1
    while chunk := raw.read1(CHUNK):  # type: ignore[attr-defined]
        *complete, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST:
            raise InputError(f"{name}, line {number + len(complete)}: longer than {LONGEST:,} bytes; is this text?")
        number += len(complete)
        if complete:
            yield complete
    if rest:
        yield [rest]


@contextmanager
def output(path: Path | None, resume: bool) -> Iterator[tuple[TextIO, int]]:
    """Where to write, and how many lines are there already."""
    if path is None:
        yield sys.stdout, 0
        return
    done = _whole_lines(path) if resume and path.exists() else 0
    with open(path, "a" if done else "w", encoding="utf-8", newline="\n") as file:
        yield file, done


def _whole_lines(path: Path) -> int:
    """The number of complete lines of a file; one that was cut off is removed."""
    count, end = 0, 0
    with open(path, "r+b") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, end = count + 1, end + len(line)
        file.truncate(end)
    return count


@contextmanager
def progress(raw: BinaryIO, out: TextIO, done: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, told the number of lines done; none where nobody would see it."""
    if not sys.stderr.isatty() or out.isatty():
        yield lambda lines: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=_count_lines(raw), completed=done)
        yield lambda lines: bar.advance(task, lines)


def _count_lines(raw: BinaryIO) -> int | None:
    """The lines left in a file; None where it can not be read twice (a pipe)."""
    try:
        start = raw.tell()
    except OSError:
        return None
    count, last = 0, b"\n"
    while chunk := raw.read(CHUNK):
        count, last = count + chunk.count(b"\n"), chunk[-1:]
    raw.seek(start)
    return count + (last != b"\n")
