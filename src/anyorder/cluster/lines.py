"""Rows that are lines: plain text, JSON lines, and the records of FASTA."""

from __future__ import annotations

import json
from typing import IO

from anyorder.cluster.rows import Content, Span
from anyorder.data.lines import lines, raw_lines, text_of
from anyorder.errors import DataError

FOLD = 60  # letters of a line of FASTA


def read_lines(path: str, file: IO[bytes], span: Span, content: Content, kind: str) -> None:
    """Lines of text, or of JSON, that begin in a span."""
    for at, text, problem in lines(file, span):
        where = f"{path}, byte {at:,}"
        if problem:
            content.add({}, f"{where}: {problem}")
            continue
        if kind == "text":
            content.add({"text": text})
        elif text.strip():
            try:
                record = json.loads(text)
                problem = "" if isinstance(record, dict) else f"{where}: not a JSON object"
            except (ValueError, RecursionError):
                record, problem = {}, f"{where}: not JSON"
            if not problem:
                content.said[len(content.records)] = text.strip()
            content.add({} if problem else record, problem)


def read_fasta(path: str, file: IO[bytes], span: Span, content: Content) -> None:
    """Records whose > is in the span; a record may go on beyond it."""
    letters: list[str] | None = None
    for at, raw in raw_lines(file, (span[0], 1 << 62)):
        problem = text_of(at, raw).problem
        line = raw.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if line.startswith(">"):
            if at >= span[1]:
                break
            letters = []
            content.add({"id": line[1:].strip(), "sequence": letters}, problem and f"{path}, byte {at:,}: {problem}")
        elif problem and content.records:
            content.problems.setdefault(len(content.records) - 1, f"{path}, byte {at:,}: {problem}")
        elif letters is not None:
            letters.append(line)
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
