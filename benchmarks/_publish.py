"""Where the page of a benchmark goes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def publish(parts: Sequence[str], output: Path | None) -> None:
    """Print a page of Markdown, and write it to the file `output` where one was named."""
    text = "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
    if output is not None:
        output.write_text(text, encoding="utf-8")
    print(text)
