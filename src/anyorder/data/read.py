"""Text from files: parallel or tab-separated, plain or gzip, or a Hugging Face dataset; bad lines are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from anyorder.data.lines import Line, lines, readable, unpacked
from anyorder.errors import DataError, extra


@dataclass
class Report:
    """How many lines of a corpus were kept, and why others were not."""

    name: str
    kept: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, int] = field(default_factory=dict)  # reason → the first line number, from 1

    def skip(self, reason: str, line: int) -> None:
        """Count a line that is left out, and keep the first of each reason."""
        self.skipped[reason] += 1
        self.examples.setdefault(reason, line)

    def __str__(self) -> str:
        bad = ", ".join(f"{n} {reason} (first: line {self.examples[reason]})" for reason, n in self.skipped.items())
        return f"{self.name}: {self.kept} kept" + (f", skipped {bad}" if bad else "")


@dataclass(frozen=True)
class Pairs:
    """Sentences in two languages, line by line."""

    first: list[str]
    second: list[str]
    report: Report


@dataclass(frozen=True)
class Texts:
    """Sentences in one language."""

    lines: list[str]
    report: Report


def read_lines(path: Path | str) -> Iterator[Line]:
    """The lines of a file, plain or gzip."""
    with readable(str(path)), open(path, "rb") as file:
        yield from lines(unpacked(file))


def _usable(line: Line, number: int, report: Report, longest: int) -> str | None:
    """The text of a line, or None after noting why not."""
    text = line.text.strip()
    if line.problem:
        report.skip("not UTF-8" if "UTF-8" in line.problem else "too long for a line of text", number)
    elif not text:
        report.skip("empty", number)
    elif len(text) > longest:
        report.skip(f"longer than {longest} characters", number)
    else:
        return text
    return None


def _collect(rows: Iterable[tuple[Line, Line] | None], report: Report, longest: int) -> Pairs:
    first, second = [], []
    for number, row in enumerate(rows, 1):
        if row is None:
            report.skip("wrong number of fields", number)
            continue
        a = _usable(row[0], number, report, longest)
        b = _usable(row[1], number, report, longest) if a is not None else None
        if a is not None and b is not None:
            first.append(a)
            second.append(b)
    report.kept = len(first)
    return Pairs(first, second, report)


def read_parallel(first: Path | str, second: Path | str, longest: int = 1000) -> Pairs:
    """Two files, one sentence a line, line i of one the translation of line i of the other."""
    report = Report(f"{first} + {second}")

    def rows() -> Iterator[tuple[Line, Line]]:
        for number, (a, b) in enumerate(zip_longest(read_lines(first), read_lines(second)), 1):
            if a is None or b is None:
                short = first if a is None else second
                raise DataError(
                    f"{first} and {second} are not aligned: {short} ends after {number - 1} lines, the other goes on. "
                    "Line i of one must be the translation of line i of the other"
                )
            yield a, b

    return _collect(rows(), report, longest)


def read_tsv(path: Path | str, longest: int = 1000) -> Pairs:
    """One file, first language TAB second language."""

    def rows() -> Iterator[tuple[Line, Line] | None]:
        for line in read_lines(path):
            parts = line.text.split("\t")
            if line.problem:
                yield line, line
            else:
                yield (Line(0, parts[0]), Line(0, parts[1])) if len(parts) == 2 else None

    return _collect(rows(), Report(str(path)), longest)


@dataclass(frozen=True)
class Aligned:
    """All lines of two files, in place: a blank one is empty, and so is one with a problem."""

    first: list[str]
    second: list[str]
    problems: dict[int, str]  # line, from 0 → its problem


def read_aligned(first: Path | str, second: Path | str) -> Aligned:
    """Two files, line by line, nothing left out: a translation must stay beside its source."""
    sides: tuple[list[str], list[str]] = ([], [])
    problems: dict[int, str] = {}
    for path, side in ((first, sides[0]), (second, sides[1])):
        for n, line in enumerate(read_lines(path)):
            if line.problem:
                problems.setdefault(n, f"{line.problem} in {path}")
            side.append(line.text.strip())
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{first} and {second} are not aligned: {len(sides[0])} lines and {len(sides[1])}. "
            "Line i of one must be the translation of line i of the other"
        )
    return Aligned(*sides, problems)


def read_texts(path: Path | str, longest: int = 1000) -> Texts:
    """One file, one sentence a line."""
    report = Report(str(path))
    usable = (_usable(raw, number, report, longest) for number, raw in enumerate(read_lines(path), 1))
    texts = [text for text in usable if text is not None]
    report.kept = len(texts)
    return Texts(texts, report)


def read_hub(name: str, config: str | None, split: str, languages: tuple[str, str], longest: int = 1000) -> Pairs:
    """A Hugging Face dataset with rows {"translation": {"de": …, "en": …}} or {"de": …, "en": …}."""
    with extra("hub"):
        from datasets import load_dataset
    report = Report(f"{name} ({split})")

    def rows() -> Iterator[tuple[Line, Line] | None]:
        for row in load_dataset(name, config, split=split):
            both: Any = row.get("translation", row)
            if any(not isinstance(both.get(language), str) for language in languages):
                yield None
            else:
                yield Line(0, both[languages[0]]), Line(0, both[languages[1]])

    return _collect(rows(), report, longest)


def copy_task(n: int, seed: int) -> Pairs:
    """Random sequences of 3 to 10 letters, each its own translation: the smallest thing that can be learned."""
    import random

    draw = random.Random(seed)
    texts = [" ".join(draw.choices("abcdefghijklmnopqrst", k=draw.randint(3, 10))) for _ in range(n)]
    return Pairs(texts, list(texts), Report("copy task", kept=n))
