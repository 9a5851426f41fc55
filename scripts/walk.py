"""The walk of one sentence: which functions of ours `anyorder translate` enters, and how deep their frames stand.

python scripts/walk.py            write the table of docs/architecture.md
python scripts/walk.py --all      print every function, file by file

Counted are distinct functions under src/, by sys.setprofile; what an import runs is not counted.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, SOURCE = ROOT / "docs" / "architecture.md", str(ROOT / "src" / "anyorder")
TABLE = re.compile(r"(<!-- walk -->\n).*?(<!-- end -->)", re.DOTALL)
COMMAND = ["translate", "Ein Hund läuft am Strand.", "--to", "en"]


class Walk:
    """What was entered while a program ran."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.deepest: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile function: notes each call of ours outside an import."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        stack: list[str] = []
        above: FrameType | None = frame
        while above is not None:
            name = above.f_code.co_filename
            if name.startswith("<frozen importlib"):
                return
            if name.startswith(SOURCE):
                stack.append(f"{_file(name)}: {above.f_code.co_qualname}")
            above = above.f_back
        self.functions.add((_file(code.co_filename), code.co_qualname))
        if len(stack) > len(self.deepest):
            self.deepest = stack[::-1]


def _file(path: str) -> str:
    return path.removeprefix(SOURCE).lstrip("/")


def walked(program: Callable[[], None]) -> Walk:
    """The walk of a program that may leave by SystemExit."""
    walk = Walk()
    sys.setprofile(walk)
    try:
        program()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    return walk


def table(walk: Walk) -> str:
    """The walk by package, as Markdown."""
    packages = Counter(file.split("/")[0].removesuffix(".py") for file, _ in walk.functions)
    files, parts = len({file for file, _ in walk.functions}), sum(name.endswith(">") for _, name in walk.functions)
    rows = "\n".join(f"| {package} | {n} |" for package, n in packages.most_common())
    return (
        f"`anyorder {' '.join(f'{word!r}' if ' ' in word else word for word in COMMAND)}` enters "
        f"{len(walk.functions)} functions in {files} files, {len(walk.deepest)} frames deep; {parts} of them "
        "are comprehensions and lambdas.\n\n"
        f"| package | functions |\n|---|---:|\n{rows}\n\n"
    )


def main() -> None:
    from anyorder.cli import main as program

    wanted = sys.argv[1:]
    sys.argv = ["anyorder", *COMMAND]
    walk = walked(program)
    if "--all" in wanted:
        print("\n".join(f"{file}: {name}" for file, name in sorted(walk.functions)))
        print("\n".join(["", "deepest:", *walk.deepest]))
        return
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda match: match[1] + "\n" + table(walk) + match[2], page), encoding="utf-8")
    print(table(walk))


if __name__ == "__main__":
    main()
