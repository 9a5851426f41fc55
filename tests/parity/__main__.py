"""`python -m tests.parity`: how many records of other systems our engine reproduces, and which not."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from anyorder.errors import ModelError
from anyorder.models.xlm import load_xlm

from .replay import METHODS, RecordError, batches, read, replay

RECORDS = Path(__file__).parent / "records"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    golden, model_file = str(RECORDS / "golden.jsonl"), str(RECORDS / "xlm-de-en.pth")
    parser.add_argument("golden", nargs="*", default=[golden], help="JSON-lines files of recorded generations")
    parser.add_argument("--model", default=model_file, help="the XLM checkpoint that they were made with")
    parser.add_argument("--differences", type=int, default=5, help="how many differing records to show (default 5)")
    options = parser.parse_args(arguments)
    out, err = Console(), Console(stderr=True)
    try:
        model = load_xlm(options.model)
        wrong = [_file(path, model, options.differences, out, err) for path in options.golden]
    except (RecordError, ModelError, OSError) as error:
        err.print(str(error), style="red", markup=False, highlight=False)
        return 2
    return 1 if any(wrong) else 0


def _file(path: str, model: object, shown: int, out: Console, err: Console) -> int:
    """Replay a file and print its table; the number of records that differ."""
    records = read(path)
    total: Counter[tuple[str, str, str]] = Counter()
    same: Counter[tuple[str, str, str]] = Counter()
    first: list[str] = []
    with Progress(console=err, transient=True) as progress:
        bar = progress.add_task("replaying", total=len(records))
        for batch in batches(records):
            for record, wrong in zip(batch, replay(model, batch), strict=True):  # type: ignore[arg-type]
                key = record["system"], record["method"], str(record.get("strategy", "–"))
                total[key] += 1
                same[key] += not wrong
                if wrong and len(first) < shown:
                    settings = METHODS[key[0], key[1]].settings
                    what = ", ".join(f"{name} {record[name]}" for name in settings)
                    first.append(f"line {record['line']}: {key[0]} {key[1]}, {what}\n  " + "\n  ".join(wrong))
            progress.advance(bar, len(batch))
    table = Table(title=path)
    for heading in ("system", "method", "strategy"):
        table.add_column(heading)
    table.add_column("identical / total", justify="right")
    for key in sorted(total):
        table.add_row(*key, f"{same[key]} / {total[key]}", style=None if same[key] == total[key] else "red")
    table.add_section()
    table.add_row("all", "", "", f"{same.total()} / {total.total()}")
    out.print(table)
    for text in first:
        out.print(text, markup=False, highlight=False)
    return total.total() - same.total()


if __name__ == "__main__":
    sys.exit(main())
