"""python -m tests.fuzz.load: memory over 10,000 sentences of one stream, and over 1,000 calls."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from cli_support import build_translator  # noqa: E402

import anyorder  # noqa: E402
from tests.fuzz import results  # noqa: E402


def resident() -> float:
    """Megabytes of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--results", type=Path, default=results.FILE)
    asked = parser.parse_args()
    found: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        model = anyorder.load(build_translator(Path(folder) / "tiny"), kind="translation")
        lines = (f"Ein Hund läuft am Strand {i}." for i in range(asked.sentences))
        every = max(1, asked.sentences // 5)
        for n, _ in enumerate(model.translate_stream(lines, "en", steps=2, lengths=1), 1):
            if n in (min(1000, every), *range(every, asked.sentences + 1, every)):
                found.append((f"{n:,} sentences of a stream", resident()))
        for n in range(1, asked.calls + 1):
            model.translate(f"Zwei Kinder spielen {n}.", to="en", steps=2, lengths=1)
            if n % max(1, asked.calls // 5) == 0:
                found.append((f"{n:,} calls", resident()))
    about = "resident memory of a process that translates with a small model."
    results.write(asked.results, "load", {"seed": 0, "about": about, "memory": found})
    print(found)


if __name__ == "__main__":
    main()
