"""Where the page of a benchmark goes."""

from __future__ import annotations

from pathlib import Path


def publish(text: str, output: Path | None) -> None:
    """Print a page, and write it to the file `output` where one was named."""
    if output is not None:
        output.write_text(text, encoding="utf-8")
    print(text)
