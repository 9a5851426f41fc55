"""Rows that are lines: plain text, JSON lines, and the records of FASTA."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO

from anyorder.cluster.rows import LONGEST, Content, Span
from anyorder.errors import DataError

FOLD = 60  # letters of a line of FASTA


def read_lines(path: str, file: IO[bytes], span: Span, content: Content, kind: str) -> None:
    """Lines of text, or of JSON, that begin in a span."""
    for at, line in _lines(file, span):
        where = f"{path}, byte {at:,}"
        if len(line) > LONGEST:
            content.add({}, f"{where}: a line of more than {LONGEST:,} bytes; is this text?")
            continue
        try:
            text = line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            content.add({}, f"{where}: byte {error.start + 1} of the line is not UTF-8")
            continue
        text = text.removeprefix("\ufeff") if at == 0 else text
        if kind == "text":
            content.add({"text": text})
        elif text.strip():
            try:
                record = json.loads(text)
                problem = None if isinstance(record, dict) else f"{where}: not a JSON object"
            except (ValueError, RecursionError):
                record, problem = {}, f"{where}: not JSON"
            if problem is None:
                content.said[len(content.records)] = text.strip()
            content.add(record if problem is None else {}, problem)


def _lines(file: IO[bytes], span: Span) -> Iterator[tuple[int, bytes]]:
    """(where it begins, a line with its end) of all that begin in a span; one that is too long is cut."""
    at, stop = span
    if at:  # the line that is under way here began before: it ends here, or later
        file.seek(at - 1)
        at += sum(map(len, _rest(file))) - 1
    while at < stop and (line := file.readline(LONGEST + 1)):
        yield at, line
        at += len(line)
        if len(line) > LONGEST and not line.endswith(b"\n"):
            at += sum(map(len, _rest(file)))


def _rest(file: IO[bytes]) -> Iterator[bytes]:
    """What is left of a line, in pieces."""
    while piece := file.readline(1 << 16):
        yield piece
        if piece.endswith(b"\n"):
            return


def read_fasta(path: str, file: IO[bytes], span: Span, content: Content) -> None:
    """Records whose > is in the span; a record may go on beyond it."""
    lines: list[str] | None = None
    for at, raw in _lines(file, (span[0], 1 << 62)):
        try:
            line, bad = raw.decode("utf-8").strip(), ""
        except UnicodeDecodeError as error:
            line = raw.decode("utf-8", "replace").strip()
            bad = f"{path}, byte {at:,}: byte {error.start + 1} of the line is not UTF-8"
        if len(raw) > LONGEST:
            bad = f"{path}, byte {at:,}: a line of more than {LONGEST:,} bytes"
        if line.startswith(">"):
            if at >= span[1]:
                break
            lines = []
            content.add({"id": line[1:].strip(), "sequence": lines}, bad or None)
        elif bad and content.records:
            content.problems.setdefault(len(content.records) - 1, bad)
        elif lines is not None:
            lines.append(line)
        elif line and span[0] == 0:
            raise DataError(f"{path} is not FASTA: it does not begin with >")
        elif at >= span[1]:
            break
    for record in content.records:
        record["sequence"] = "".join(record["sequence"])


def folded(name: str, text: str) -> str:
    """A record of FASTA."""
    letters = "".join(text.split())
    return f">{name}\n" + "".join(letters[i : i + FOLD] + "\n" for i in range(0, len(letters), FOLD))
