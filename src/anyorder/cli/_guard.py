"""Which parameters of commands are files that are read or written: checked before any command begins."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from anyorder.files import FileError, endless, keep_apart, standard_streams


class File(Enum):
    """What a command does with the files that a parameter names."""

    READ = "read"
    WRITTEN = "written"
    FOLDER = "folder"  # written into, or looked up in: what is in it is the command's own care


READ, WRITTEN, FOLDER = File.READ, File.WRITTEN, File.FOLDER


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, refusing to begin where an output is one of its inputs or another output, or an input has no end."""

    @functools.wraps(command)
    def checked(*args: Any, **kwargs: Any) -> None:
        given = inspect.signature(command).bind(*args, **kwargs).arguments
        reads, writes = standard_streams()
        files: dict[File, dict[str, Any]] = {File.READ: {**reads}, File.WRITTEN: {**writes}}
        for name, (flag, use) in roles(command).items():
            named = _named(flag, given.get(name))
            if use in files:
                files[use].update(named)
            for said, file in named.items():
                if use is not WRITTEN and endless(file):
                    raise FileError(f"{said} {file} is a device that gives without end: give a file")
        keep_apart(files[File.READ], files[File.WRITTEN])
        command(*args, **kwargs)

    return checked


def roles(command: Callable[..., None]) -> dict[str, tuple[str, File | None]]:
    """The parameters of a command that may name files: what they are called there, and their use."""
    out: dict[str, tuple[str, File | None]] = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        details = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        use = next((d for d in details if isinstance(d, File)), None)
        if use is not None or "Path" in str(get_args(hint)[:1]):
            out[name] = (said_as(name, details), use)
    return out


def said_as(name: str, details: Sequence[Any]) -> str:
    """What a parameter is called on the command line: its flag, or the word that stands for an argument."""
    for one in details:
        if type(one).__name__ == "ArgumentInfo":
            return str(one.metavar or name.upper())
        words = [getattr(one, "default", None), *(getattr(one, "param_decls", None) or ())]  # its first word is first
        for word in words if type(one).__name__ == "OptionInfo" else ():
            if isinstance(word, str) and word.startswith("--"):
                return word.split("/")[0]
    return f"--{name.replace('_', '-')}"


def _named(flag: str, value: Any) -> dict[str, Path]:
    values = [value] if isinstance(value, (str, Path)) else list(value or ())
    named = {flag if len(values) == 1 else f"{flag} {i}": Path(v) for i, v in enumerate(values, 1) if str(v) != "-"}
    return named
