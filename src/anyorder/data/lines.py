"""Lines of text from bytes: each is a text, or has a problem that says why it is none."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, NamedTuple

from anyorder.errors import DataError

CHUNK = 1 << 16  # bytes read at once, at most
LONGEST = 1 << 20  # bytes of a line
SMALL, LARGE = 16, 256  # lines handed on at once: few at first, so that the first results come soon
CONVERT = "convert the input, for instance with `iconv -f latin1 -t utf8`"
Span = tuple[int, int]  # part of a file in bytes, unpacked where it is gzip


class InputError(DataError):
    """Input that is not text; says where."""


class Line(NamedTuple):
    """A line without its end, and where it begins. A line that is not text is empty and has a problem."""

    at: int
    text: str
    problem: str = ""


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """The bytes of a file; gzip is recognised by its content."""
    if hasattr(file, "peek"):  # it may be a pipe
        start = file.peek(2)[:2]
    else:
        start = file.read(2)
        file.seek(0)
    return gzip.open(file) if start == b"\x1f\x8b" else file  # type: ignore[return-value]


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Around reading: damage and absence become sentences."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{name} does not exist") from None
    except (OSError, EOFError, zlib.error) as error:  # BadGzipFile is an OSError
        raise DataError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def text_of(at: int, raw: bytes) -> Line:
    """The line of these bytes, which begins at byte `at` of its file."""
    if len(raw) > LONGEST:
        return Line(at, "", f"a line of more than {LONGEST:,} bytes; is this text?")
    try:
        text = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        return Line(at, "", f"byte {error.start + 1} of the line is not UTF-8")
    return Line(at, text if at else text.removeprefix("\ufeff"))


def lines(file: IO[bytes], span: Span = (0, 1 << 62)) -> Iterator[Line]:
    """The lines that begin in a span of a file: spans that cover it hold every line once."""
    return (text_of(at, raw) for at, raw in raw_lines(file, span))


def raw_lines(file: IO[bytes], span: Span) -> Iterator[tuple[int, bytes]]:
    """(where it begins, a line with its end) of all that begin in a span; a line that is too long is cut."""
    at, stop = span
    if at:  # the line that the span begins in belongs to the span before
        file.seek(at - 1)
        at += sum(map(len, _rest(file))) - 1
    while at < stop and (line := file.readline(LONGEST + 1)):
        yield at, line
        at += len(line)
        if len(line) > LONGEST and not line.endswith(b"\n"):
            at += sum(map(len, _rest(file)))


def _rest(file: IO[bytes]) -> Iterator[bytes]:
    """The rest of a line, in pieces."""
    while piece := file.readline(CHUNK):
        yield piece
        if piece.endswith(b"\n"):
            return


def windows(raw: IO[bytes], name: str, first: Sequence[int] = ()) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, from 1, and lines) of a stream, as soon as they come; of given sizes at first.

    A line that is not text is an error, raised after the lines before it were given.
    """
    number, size, exact = 1, SMALL, list(first)[::-1]
    waiting: list[Line] = []
    for some in _as_they_come(raw, name):
        waiting += some
        while waiting and (not some or not exact or len(waiting) >= exact[-1]):
            take, size = exact.pop() if exact else size, min(2 * size, LARGE)
            good = next((i for i, line in enumerate(waiting[:take]) if line.problem), len(waiting[:take]))
            if good:
                yield number, [line.text for line in waiting[:good]]
            number += good
            if good < len(waiting[:take]):
                done = f"the {number - 1} lines before it are done"
                raise InputError(f"{name}, line {number}: {waiting[good].problem}; {done} ({CONVERT})")
            del waiting[:take]


def _as_they_come(raw: IO[bytes], name: str) -> Iterator[list[Line]]:
    """Complete lines, as many as came at once; at the end an empty list."""
    rest, at, number = b"", 0, 1
    while chunk := _chunk(raw, name, number):
        *complete, rest = (rest + chunk).split(b"\n")
        endless = len(rest) > LONGEST
        if endless:
            complete, rest = [*complete, rest], b""
        out = []
        for line in complete:
            out.append(text_of(at, line))
            at += len(line) + 1
        number += len(out)
        if out:
            yield out
        if endless:
            break
    if rest:
        yield [text_of(at, rest)]
    yield []


def _chunk(raw: IO[bytes], name: str, number: int) -> bytes:
    try:
        chunk: bytes = raw.read1(CHUNK)  # type: ignore[attr-defined]
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{name} can not be read beyond line {number - 1}: {reason}; is it damaged or cut off?"
        ) from None
    return chunk
