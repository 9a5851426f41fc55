"""Standard input as lines, and a bar while they are done."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from typing import IO, TextIO

from anyorder.data.lines import CHUNK, windows
from anyorder.progress import Bar


def texts_or_lines(texts: list[str] | None) -> Iterator[str]:
    """The texts of a command line; without any, the lines of standard input."""
    if texts:
        yield from texts
        return
    for _, lines in windows(sys.stdin.buffer, "standard input"):
        yield from lines


def progress(raw: IO[bytes], out: TextIO, done: int) -> Bar:
    """A bar of lines; not shown where the lines themselves are."""
    shown = sys.stderr.isatty() and not out.isatty()
    return Bar("", _count_lines(raw) if shown else None, done, shown=shown)


def _count_lines(raw: IO[bytes]) -> int | None:
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
