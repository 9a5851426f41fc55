"""`python -m tests.published FOLDER …`: how many records of the authors' own code come out of their folders."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from anyorder.errors import AnyorderError

from .replay import RecordError, kind, load, read, replay

HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.published", description=__doc__)
    known = [HERE / "llada", HERE / "dream"]
    parser.add_argument("folder", nargs="*", type=Path, default=known, help="a published folder with a golden.jsonl")
    parser.add_argument("--differences", type=int, default=5, help="how many differing records to show (default 5)")
    options = parser.parse_args(arguments)
    out, err = Console(), Console(stderr=True)
    wrong = 0
    for folder in options.folder:
        try:
            wrong += _folder(folder, options.differences, out, err)
        except (RecordError, AnyorderError) as error:
            err.print(f"{folder}: {error}", style="red", markup=False, highlight=False)
            wrong += 1
    return 1 if wrong else 0


def _folder(folder: Path, shown: int, out: Console, err: Console) -> int:
    """Replay the records of a folder and print their table; the number of those that differ."""
    records, writer = read(folder), load(folder)
    if not records:
        raise RecordError("there is no record in golden.jsonl")
    total: Counter[str] = Counter()
    same: Counter[str] = Counter()
    first: list[str] = []
    for record in track(records, "replaying", console=err, transient=True):
        wrong = replay(writer, record)
        total[kind(record)] += 1
        same[kind(record)] += wrong is None
        if wrong is not None and len(first) < shown:
            first.append(f"line {record['line']}: {kind(record)}\n  {wrong}")
    table = Table("records", "hold", "of", title=str(folder))
    for name, count in total.items():
        table.add_row(name, str(same[name]), str(count), style=None if same[name] == count else "red")
    out.print(table)
    for text in first:
        out.print(text, markup=False, highlight=False)
    return total.total() - same.total()


if __name__ == "__main__":
    sys.exit(main())
