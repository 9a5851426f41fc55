"""Files that are safe: no output is an input, one writer at a time, whole or not there at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from anyorder.errors import AnyorderError

try:
    import fcntl
except ImportError:  # Windows: two writers of one file are then not told apart
    fcntl = None  # type: ignore[assignment]

Identity = tuple[int, int, str]
ASIDE = ".anyorder-"  # how the names of files that are not complete yet begin


class FileError(AnyorderError):
    """A file that must not or cannot be written or read: which, why, and what to do."""


def identity(file: str | os.PathLike[str] | int) -> Identity | None:
    """Device and inode of a file, which do not depend on its name; of a new file those of its folder, and its name.

    None for folders, unreadable paths, and devices that can be shared (a terminal, a pipe, /dev/null).
    """
    try:
        found = os.stat(file)
    except FileNotFoundError:
        path = Path(os.path.realpath(os.fspath(file)))  # type: ignore[arg-type]
        try:
            parent = path.parent.stat()
        except OSError:
            return None
        return parent.st_dev, parent.st_ino, path.name
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino, "") if stat.S_ISREG(found.st_mode) else None


def keep_apart(reads: Mapping[str, Any], writes: Mapping[str, Any]) -> None:
    """Refuse outputs that are also inputs or other outputs; files by their names on the command line."""
    seen: dict[Identity, tuple[str, bool]] = {}
    for files, written in ((reads, False), (writes, True)):
        for name, file in files.items():
            what = None if file is None else identity(file)
            if what is None:
                continue
            other = seen.setdefault(what, (name, written))
            if other[0] != name and (written or other[1]):
                place = "" if isinstance(file, int) else f" {file}"
                does = "is written by" if other[1] else "is read by"
                raise FileError(f"{name}{place} is the same file that {does} {other[0]}: write to another file")


def standard_streams() -> tuple[dict[str, int], dict[str, int]]:
    """Standard input and standard output as files that are read and written."""
    out: list[dict[str, int]] = []
    for name, stream in (("standard input", sys.stdin), ("standard output", sys.stdout)):
        try:
            out.append({name: stream.fileno()})
        except (AttributeError, OSError, ValueError):  # closed, or held in memory
            out.append({})
    return out[0], out[1]


def claim(file: IO[Any], path: Path) -> None:
    """Make this process the only writer of an open file, until it closes it."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileError(f"{path} is being written by another process: wait for it, or write to another file") from None
    except OSError:  # a file system without locks
        return


def open_claimed(path: Path, buffering: int = -1) -> IO[Any]:
    """A file to read and write, made if need be, of which this process is the only writer; nothing is cut off."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        file = os.fdopen(handle, "r+b", buffering)
        try:
            claim(file, path)
        except FileError:
            file.close()
            raise
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()  # another writer has moved it into place in the meantime


def special(path: Path) -> bool:
    """Is it a device or a pipe, which keeps nothing that is written to it?"""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def endless(path: str | os.PathLike[str]) -> bool:
    """Is it a device that gives without end, such as /dev/zero? (A terminal and /dev/null do end.)"""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    if not stat.S_ISCHR(found.st_mode) or os.path.realpath(path) == os.devnull:
        return False
    with open(path, "rb", buffering=0) as device:
        return not device.isatty()


@contextmanager
def whole(path: Path | str) -> Iterator[IO[bytes]]:
    """Replace a file by the bytes written within: at any moment, and after a crash, `path` is the old or the new file.

    Until it is complete, the new file is hidden beside the old one, under a name that no file had.
    """
    path = Path(os.path.realpath(path))
    if special(path):
        with path.open("wb") as device:
            yield device
        return
    aside = path.with_name(ASIDE + uuid.uuid4().hex)
    try:
        file = aside.open("x+b")  # never a file that exists, nor through a link
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, aside)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_whole(path: Path | str, content: str | bytes) -> None:
    """Replace a file by `content`; packed if its name ends in .gz and the content is text."""
    if isinstance(content, str):
        content = packed(Path(path), content)
    with whole(path) as file:
        file.write(content)


def packed(path: Path, text: str) -> bytes:
    """A text as the bytes of a file of that name: UTF-8, or the gzip of it."""
    content = text.encode("utf-8", "backslashreplace")
    if path.suffix != ".gz":
        return content
    import gzip

    return gzip.compress(content, mtime=0)


@contextmanager
def whole_folder(folder: Path | str) -> Iterator[Path]:
    """A new folder, filled aside and moved into place when everything in it is there."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileError(f"{folder} exists and is not empty: choose another folder, or remove it first")
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield aside
        aside.chmod(0o777 & ~_umask())
        os.replace(aside, folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    _sync_folder(folder.parent)


def fingerprint(*content: str | bytes) -> str:
    """A short hash of contents, one after the other."""
    total = hashlib.sha256()
    for part in content:
        total.update(part.encode("utf-8", "backslashreplace") if isinstance(part, str) else part)
    return total.hexdigest()[:16]


def agree(
    where: object, was: Mapping[str, Any], now: Mapping[str, Any], instead: str, free: Iterable[str] = ()
) -> None:
    """Refuse to go on with results that were made in another way: what changed, and what to do `instead`.

    Settings named in `free` may change.
    """
    changes = "; ".join(
        _changes({k: v for k, v in was.items() if k not in free}, {k: v for k, v in now.items() if k not in free})
    )
    if changes:
        raise FileError(f"{where} is of another run: {changes}. {instead}")


def _changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    now = json.loads(json.dumps(now))
    for key in {**was, **now}:
        a, b = was.get(key), now.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            yield from _changes(a, b)
        elif a != b:
            said = [json.dumps(value, ensure_ascii=False) for value in (a, b)]
            yield (
                f"{key} was {said[0]}, is {said[1]}" if max(map(len, said)) <= 80 else f"{key}: not the same as before"
            )


def digest(*files: Path) -> str:
    """A fingerprint of files and of everything in folders: names and contents."""
    parts = []
    for file in files:
        for path in sorted(p for p in file.rglob("*") if p.is_file()) if file.is_dir() else [file]:
            with path.open("rb") as content:
                parts.append(f"{path.name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\0")
    return fingerprint(*parts)


def plain_name(name: str) -> bool:
    """Is it a file's name alone, that stays in the folder it is put in?"""
    return bool(name) and name not in (".", "..") and not set(name) & set("/\\\0:") and name == name.strip()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Ctrl-C is heard after this block, not within it."""
    heard: list[tuple[int, FrameType | None]] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        before(*heard[0])
