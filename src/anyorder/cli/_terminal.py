"""What a person is shown: texts as data, control characters as symbols; and standard streams that are there."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import NoReturn, TextIO

from anyorder.errors import AnyorderError, UsageError, first_line, no_memory, raised_in
from anyorder.files import FileError

_SYMBOLS = {
    **{code: chr(0x2400 + code) for code in range(32)},
    **{code: "\ufffd" for code in range(0x80, 0xA0)},
    **{code: "\ufffd" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},  # turn the writing direction round
    **{code: "\ufffd" for code in range(0xD800, 0xE000)},  # no characters at all
    0x7F: "\u2421",
}


def visible(text: str, lines: bool = False) -> str:
    """A text in which nothing commands a terminal; with `lines` line ends stay."""
    shown = text.translate(_SYMBOLS)
    return shown.replace("\u240a", "\n") if lines else shown


def shown(text: str, out: TextIO) -> str:
    """A line as it goes out: as it is, but made visible where a terminal would obey it."""
    return visible(text, lines=True) if out.isatty() else text


class _Closed(io.TextIOBase):
    """In the place of a standard stream that the program was started without."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def buffer(self) -> NoReturn:
        self._refuse()

    def write(self, text: str) -> NoReturn:
        self._refuse()

    def isatty(self) -> bool:
        return False

    def _refuse(self) -> NoReturn:
        raise FileError(f"{self._name} is closed: give files (--input, --output), or open it")


def open_streams() -> None:
    """Standard streams that can be used: UTF-8 whatever the environment says, and a clear word where one is closed."""
    for number in range(3):  # or the next file that is opened would be taken for the stream
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = _Closed("standard input")
    if sys.stdout is None:
        sys.stdout = _Closed("standard output")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (as long as the program runs)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def drop_output() -> None:
    """Send what is left for standard output nowhere: it can not be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


FAILURE, USAGE, OURS = 1, 2, 70  # of the last kind there should be none: the message asks to report it
LONELY = ("DistBackendError", "DistNetworkError", "DistStoreError")  # torch's, of a process that others have left


def for_people(error: Exception) -> tuple[int, str]:
    """The exit code, and a sentence that says what, where, and what to do."""
    raised = raised_in(error)
    if isinstance(error, AnyorderError):
        return USAGE if isinstance(error, UsageError) else FAILURE, str(error)
    if isinstance(error, OSError):
        what = f"can not use {error.filename}" if error.filename is not None else "reading or writing failed"
        return FAILURE, f"{what}: {error.strerror or error}"
    if no_memory(error):
        return FAILURE, "there is not enough memory for this: try a smaller --beam, fewer --lengths, or shorter texts"
    if type(error).__name__ in LONELY or "/gloo/" in str(error):
        return FAILURE, (
            "another process of this training is gone, so this one can not go on; the last checkpoint is intact: start "
            f"the same command again on all machines, which torchrun --max-restarts does ({first_line(error)})"
        )
    if isinstance(error, RecursionError):
        return FAILURE, "something in the input is nested too deeply: make it flatter"
    if isinstance(error, ValueError) and raised.startswith(("anyorder.core.", "anyorder.models.")):
        return FAILURE, str(error)  # written for whoever composes a decoder
    return OURS, (
        f"this is a mistake of anyorder's own, in {raised}: {type(error).__name__}: {error}\n"
        "Please report it, with the command; ANYORDER_TRACEBACK=1 shows more."
    )
