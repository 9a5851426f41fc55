"""Lines in: as they come, in bounded memory, in order."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from anyorder.errors import DataError

CHUNK = 1 << 16  # bytes read at once, at most
LONGEST = 1 << 20  # bytes of one line
SMALL, LARGE = 16, 256  # lines handed on at once: few at first, so that something is seen soon


class InputError(DataError):
    """Input that is not text; says where."""


def open_lines(path: Path) -> BinaryIO:
    """A file to read lines from; gzip is recognised by its content."""
    file = open(path, "rb")  # noqa: SIM115 (whoever reads it closes it)
    if file.peek(2)[:2] != b"\x1f\x8b":
        return file
    import gzip

    return gzip.open(file)  # type: ignore[return-value]


def windows(raw: BinaryIO, name: str, first: Sequence[int] = ()) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, lines) from 1, as soon as they can be read; the first ones are of given sizes."""
    number, size, exact = 1, SMALL, list(first)[::-1]
    waiting: list[bytes] = []
    for lines in _lines(raw, name):
        waiting += lines
        while waiting and (not lines or not exact or len(waiting) >= exact[-1]):
            take, size = exact.pop() if exact else size, min(2 * size, LARGE)
            texts, bad = _texts(waiting[:take], number, name)
            if texts:
                yield number, texts
            if bad:
                raise bad
            number += len(texts)
            del waiting[:take]


def _texts(lines: Sequence[bytes], number: int, name: str) -> tuple[list[str], InputError | None]:
    """The lines as text, up to the first that is none, and what is wrong with that."""
    texts: list[str] = []
    for at, line in enumerate(lines, number):
        try:
            text = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            return texts, InputError(
                f"{name}, line {at}, byte {error.start + 1}: this is not UTF-8; the {at - 1} lines before it "
                f"are done (convert the input, for instance with `iconv -f latin1 -t utf8`)"
            )
        texts.append(text.removeprefix("\ufeff") if at == 1 else text)
    return texts, None


def texts_or_lines(texts: list[str] | None) -> Iterator[str]:
    """The texts of a command line; without any, the lines of standard input."""
    if texts:
        yield from texts
        return
    for _, lines in windows(sys.stdin.buffer, "standard input"):
        yield from lines


def _lines(raw: BinaryIO, name: str) -> Iterator[list[bytes]]:
    """Complete lines, as many as came at once; at the end an empty list."""
    rest, number = b"", 1
    while chunk := _read(raw, name, number):
        *complete, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST or max(map(len, complete), default=0) > LONGEST:
            at = next((i for i, line in enumerate(complete) if len(line) > LONGEST), len(complete))
            raise InputError(f"{name}, line {number + at}: longer than {LONGEST:,} bytes; is this text?")
        number += len(complete)
        if complete:
            yield complete
    if rest:
        yield [rest]
    yield []


def _read(raw: BinaryIO, name: str, number: int) -> bytes:
    try:
        chunk: bytes = raw.read1(CHUNK)  # type: ignore[attr-defined]
    except (OSError, EOFError, zlib.error) as error:  # BadGzipFile is an OSError
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{name} can not be read beyond line {number - 1}: {reason}; is it damaged or cut off?"
        ) from None
    return chunk


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
    try:
        while chunk := raw.read(CHUNK):
            count, last = count + chunk.count(b"\n"), chunk[-1:]
    except (OSError, EOFError, zlib.error):
        return None  # it is damaged: how far it can be read will be said when it is read
    finally:
        raw.seek(start)
    return count + (last != b"\n")
