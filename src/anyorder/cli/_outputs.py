"""Outputs of a stream: they grow by whole blocks, and a record beside the first lets --resume go on, or refuse to."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from anyorder.cli._terminal import shown
from anyorder.files import FileError, agree, fingerprint, open_claimed, packed, special

VERSION = 1


@dataclass
class Sink:
    """A file that grows by blocks; without a path standard output, which is written at once."""

    path: Path | None
    size: int = field(default=0, init=False)  # bytes of whole blocks
    _parts: list[str] = field(default_factory=list, init=False)
    _file: IO[Any] | None = field(default=None, init=False)

    def open(self) -> IO[Any]:
        """Claim the file; what is in it stays until `cut`."""
        assert self.path is not None
        if self._file is None:
            kept = not special(self.path)
            self._file = open_claimed(self.path, 0) if kept else self.path.open("wb", buffering=0)
        return self._file

    def cut(self, size: int) -> None:
        """Keep the first bytes; what comes next is written after them."""
        if self.path is not None and not special(self.path):
            self.open().truncate(size)
            self.open().seek(size)
        self.size = size

    def write(self, text: str) -> None:
        if self.path is None:
            sys.stdout.write(shown(text, sys.stdout))
        else:
            self._parts.append(text)

    def commit(self) -> bytes:
        """Write the block to the end: all of it, or nothing and an error."""
        if self.path is None:
            sys.stdout.flush()
            return b""
        file, content, written = self.open(), packed(self.path, "".join(self._parts)), 0
        self._parts.clear()
        try:
            while written < len(content):
                written += file.write(content[written:]) or 0
        except OSError as error:
            self.cut(self.size)
            raise FileError(f"{self.path} can not be written: {error.strerror}") from None
        self.size += len(content)
        return content

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True)
class Block:
    """What was read and written at once: the number of lines, each file's size after it, and fingerprints."""

    lines: int
    sizes: list[int]
    read: str
    written: list[str]


class Outputs:
    """The files of one run, the first of which has a record: <file>.resume."""

    def __init__(self, paths: Sequence[Path | None], settings: dict[str, Any]) -> None:
        self.sinks = [Sink(path) for path in paths]
        self.files = [sink for sink in self.sinks if sink.path is not None]
        self.settings = settings
        self.blocks: list[Block] = []
        first = paths[0]
        kept = first is not None and not special(first)
        self.record = Sink(first.with_name(first.name + ".resume")) if kept and first is not None else None
        self._begun, self._recorded = False, [0]  # bytes of the record: its header's, then after each block

    def __enter__(self) -> Outputs:
        for sink in self.files:
            sink.open()
        return self

    def __exit__(self, *problem: object) -> None:
        with ExitStack() as stack:
            for sink in [*self.files, *([self.record] if self.record else [])]:
                stack.callback(sink.close)

    def resume(self) -> None:
        """Find the blocks that are whole; refuse where they are another run's, or have been changed."""
        output = self.files[0].path
        record = None if self.record is None else self.record.path
        if record is None or output is None:
            raise FileError(f"{output} is no file that a run could go on with: leave --resume out")
        if not record.exists():
            if output.stat().st_size:
                raise FileError(
                    f"{output} has no record ({record.name}) of how it was made: to write it anew, leave --resume out"
                )
            return
        settings, blocks, self._recorded = _read_record(record)
        if settings is None:
            return
        agree(output, settings, self.settings, "Leave --resume out to write it anew")
        self.blocks = blocks
        if any(len(block.sizes) != len(self.files) for block in blocks):
            raise FileError(f"{record} is damaged: leave --resume out to write {self.files[0].path} anew")
        for k, sink in enumerate(self.files):
            self._unchanged(sink, k)

    def _unchanged(self, sink: Sink, k: int) -> None:
        """Keep the blocks that are wholly in the file; each must be as it was written."""
        file, end = sink.open(), 0
        file.seek(0)
        for n, block in enumerate(self.blocks):
            content = _exactly(file, block.sizes[k] - end)
            if len(content) < block.sizes[k] - end:
                self.blocks = self.blocks[:n]
                return
            if fingerprint(content) != block.written[k]:
                raise FileError(
                    f"{sink.path} was changed after it was written (before byte {block.sizes[k]:,}): "
                    "leave --resume out to write it anew, or give another file"
                )
            end = block.sizes[k]

    def check(self, n: int, number: int, lines: Sequence[str]) -> None:
        """Is block n, which begins with line `number`, of these very lines?"""
        block = self.blocks[n]
        if len(lines) != block.lines or fingerprint("\n".join(lines)) != block.read:
            raise FileError(
                f"lines {number} to {number + block.lines - 1} of the input are not those that {self.files[0].path} "
                "was written from: leave --resume out to write it anew"
            )

    def begin(self) -> None:
        """Cut off what is no whole block (everything, where nothing is resumed); from here on files change."""
        if self._begun:
            return
        self._begun = True
        if self.record is not None and self.record.path is not None:
            if self.record.path.exists():
                _read_record(self.record.path)  # a file of another kind is not ours to replace
            self.record.cut(self._recorded[len(self.blocks)] if self.blocks else 0)
            if not self.blocks:
                head = {"anyorder": VERSION, "settings": self.settings}
                self.record.write(json.dumps(head, ensure_ascii=False) + "\n")
                self.record.commit()
        last = self.blocks[-1].sizes if self.blocks else [0] * len(self.files)
        for sink, size in zip(self.files, last, strict=True):
            sink.cut(size)

    def commit(self, lines: Sequence[str]) -> None:
        """The outputs of these lines are complete: write them, then note that they are."""
        self.begin()
        written = [sink.commit() for sink in self.sinks]
        if self.record is not None:
            for sink in self.files:
                os.fsync(sink.open().fileno())
            prints = [fingerprint(content) for sink, content in zip(self.sinks, written, strict=True) if sink.path]
            block = Block(len(lines), [sink.size for sink in self.files], fingerprint("\n".join(lines)), prints)
            self.record.write(json.dumps(vars(block)) + "\n")
            self.record.commit()


def _exactly(file: IO[bytes], size: int) -> bytes:
    """So many bytes of an unbuffered file, or fewer at its end."""
    parts: list[bytes] = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _sound(block: Block) -> bool:
    """Is everything in it what it should be? A record may be damaged."""
    kinds = ((block.sizes, int), (block.written, str))
    lists = all(isinstance(some, list) and all(type(one) is kind for one in some) for some, kind in kinds)
    return lists and type(block.lines) is int and len(block.sizes) == len(block.written)


def _read_record(path: Path) -> tuple[dict[str, Any] | None, list[Block], list[int]]:
    """The settings of a run, its blocks, and how many bytes of the record they take: the header, then each block.

    A last line that was cut off is left out; without a whole header there was no run yet.
    """
    head, *rest = path.read_bytes().split(b"\n")
    if not rest and not head.strip(b"\0"):
        return None, [], [0]
    try:
        first = json.loads(head)
        if first["anyorder"] != VERSION or not isinstance(first["settings"], dict):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileError(f"{path} is no record of a run that this version can go on with: move it away") from None
    blocks: list[Block] = []
    ends = [len(head) + 1]
    for line in rest:
        try:
            block = Block(**json.loads(line))
            if not _sound(block):
                break
        except (ValueError, TypeError, RecursionError):
            break
        blocks.append(block)
        ends.append(ends[-1] + len(line) + 1)
    return first["settings"], blocks, ends
