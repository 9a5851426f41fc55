"""Places of files: local paths, globs, folders, and URLs that fsspec reads. Files are found in order, written whole."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import IO, Any

import fsspec

from anyorder.data.lines import readable, unpacked
from anyorder.errors import DataError, first_line
from anyorder.files import FileError, write_whole

STAMPS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True)
class Input:
    """A file to read, with its size and stamp (time of change, or the store's tag), by which a change is noticed."""

    path: str
    size: int
    stamp: str


def file_system(path: str) -> tuple[Any, str]:
    """(file system, path in it) of a path or URL."""
    try:
        fs, name = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise FileError(f"{path} can not be used: {first_line(error)}") from None
    return fs, str(name)


def is_local(path: str) -> bool:
    """Is it on this machine's file system?"""
    return "file" in _protocols(file_system(path)[0])


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def find(place: str) -> list[Input]:
    """The files of a path, a folder (all below it) or a glob, by name; hidden ones, and those with a _ first, are left
    out of folders and globs."""
    fs, path = file_system(place)
    with readable(place):
        if any(c in path for c in "*?["):
            names = [name for name in fs.glob(path) if not fs.isdir(name) and not _hidden(name.rsplit("/", 1)[-1])]
        elif fs.isdir(path):
            names = [name for name in fs.find(path) if not _hidden(name[len(path) :])]
        elif fs.exists(path):
            names = [path]
        else:
            raise DataError(f"{place} does not exist")
        found = [look(name if is_local(place) else fs.unstrip_protocol(name)) for name in sorted(names)]
    if not found:
        raise DataError(f"{place}: there is no file")
    return found


def _hidden(below: str) -> bool:
    return any(part.startswith((".", "_")) for part in below.split("/") if part)


def look(path: str) -> Input:
    """A file as it is now."""
    fs, name = file_system(path)
    with readable(path):
        info = fs.info(name)
    stamp = next((f"{key} {info[key]}" for key in STAMPS if info.get(key)), "")
    return Input(path, int(info["size"]), stamp)


def opened(path: str) -> IO[bytes]:
    """The bytes of a file, unpacked where it is gzip."""
    fs, name = file_system(path)
    with readable(path):
        return unpacked(fs.open(name, "rb"))


def apart(inputs: list[Input], place: str, output: str) -> None:
    """Refuse an output folder that inputs are in, or that lies where inputs are looked for."""
    out = _real(output)
    for file in inputs:
        if _within(_real(file.path), out):
            raise FileError(f"{output} holds an input, {file.path}: write to another folder")
    fs, path = file_system(place)
    if fs.isdir(path) and _within(out, _real(place)):
        raise FileError(f"{output} lies in {place}, where the inputs are looked for: write to another folder")


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _real(path: str) -> str:
    fs, name = file_system(path)
    return os.path.realpath(name) if is_local(path) else str(fs.unstrip_protocol(name))


def absolute(path: str) -> str:
    """A path that means the same in every folder."""
    return os.path.abspath(file_system(path)[1]) if is_local(path) else path.rstrip("/")


def join(folder: str, *names: str) -> str:
    """A path within a folder, wherever that is."""
    return "/".join([folder.rstrip("/"), *names])


def read(path: str) -> bytes | None:
    """The content of a small file, None where there is none."""
    fs, name = file_system(path)
    with readable(path):
        try:
            return bytes(fs.cat_file(name))
        except FileNotFoundError:
            return None


def names(folder: str) -> list[str]:
    """The names of the files of a folder, which need not exist."""
    fs, path = file_system(folder)
    fs.invalidate_cache()
    try:
        return sorted(str(name).rstrip("/").split("/")[-1] for name in fs.ls(path, detail=False))
    except FileNotFoundError:
        return []


def make_folder(folder: str) -> None:
    """A folder, with those above it."""
    fs, path = file_system(folder)
    try:
        fs.makedirs(path, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder} can not be made: {error.strerror or error}") from None


def remove(path: str) -> None:
    """Remove a file, if it is there."""
    fs, name = file_system(path)
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(name)


def write(path: str, content: bytes) -> None:
    """A file that is whole or not there, even if another process writes it at the same time.

    On local disk it is moved into place when it is complete; stores put an object at once.
    """
    fs, name = file_system(path)
    if is_local(path):
        write_whole(name, content)
    else:
        fs.pipe_file(name, content)
