"""Write what is generated in the docs: docs/commands.md from the commands, tables of the README from docs/results.

python scripts/make_docs.py            write
python scripts/make_docs.py --check    say what is stale, and fail
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from pathlib import Path
from typing import Any

import typer

from anyorder.cli import build, commands

ROOT = Path(__file__).parents[1]
QUICK = ("translate", "fill", "infill", "generate", "score", "models")  # their examples are run by tests/test_docs.py
TABLE = re.compile(r"(<!-- table: (\S+)\s(.*?)-->\n).*?(<!-- end -->)", re.DOTALL)


def command_page() -> str:
    """All commands as Markdown."""
    program: Any = typer.main.get_command(build(commands()))
    parts = ["# Commands", "Generated from `anyorder --help` by `scripts/make_docs.py`."]
    for name in commands():
        parts += _command(name, program.commands[name])
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any) -> list[str]:
    text = inspect.cleandoc(command.help or "")
    text = re.sub(r"^Example: (.*)$", r"```bash\n\1\n```", text, flags=re.MULTILINE)
    if name not in QUICK:
        text = text.replace("```bash", "<!-- not run: it takes long, needs data, or opens a window -->\n```bash")
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    rows = ["| | | default |", "|---|---|---|", *(_parameter(p) for p in shown)]
    return [f"## anyorder {name}", text, "\n".join(rows)]


def _parameter(parameter: Any) -> str:
    argument = parameter.param_type_name == "argument"
    names = parameter.metavar or parameter.name.upper() if argument else ", ".join(
        [*parameter.opts, *parameter.secondary_opts]
    )  # fmt: skip
    text, told = (parameter.help or "").strip(), ""
    if match := re.fullmatch(r"(.*?)\s*\[(?:default: )?([^\]]*)\]", text):
        text, told = match[1], match[2]
    default = parameter.default
    if parameter.required:
        told = "required"
    elif not told and default is not None and default is not False and default != "":
        told = f"`{getattr(default, 'value', default)}`"
    safe = text.replace("|", "\\|")  # a bar would end the cell
    return f"| `{names}` | {safe} | {told} |".replace("  ", " ")


def filled(page: str) -> str:
    """A page with the tables that it names put in: FILE is its first table, FILE#heading the first under a heading.

    Further lines in the marker choose from it, with the names of rows and columns as they stand there:

        <!-- table: docs/results/README.md#a-heading
        columns: De→En BLEU, En→De BLEU
        easy-first, T = L => what the reader is told
        -->
        <!-- end -->
    """

    def table(match: re.Match[str]) -> str:
        name, _, heading = match[2].partition("#")
        rows = _rows(ROOT / name, heading)
        if rows and match[3].strip():
            rows = _chosen(rows, match[3].strip().splitlines(), match[2])
        text = "\n".join(rows) or f"*Not measured yet: this table will be in {name}.*"
        return f"{match[1]}\n{text}\n\n{match[4]}"

    return TABLE.sub(table, page)


def _rows(file: Path, heading: str) -> list[str]:
    """The lines of the first table of a file, or of the first under a heading."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if heading:
        at = next((i for i, line in enumerate(lines) if _slug(line) == heading), len(lines))
        lines = lines[at + 1 :]
    start = next((i for i, line in enumerate(lines) if line.startswith("|")), len(lines))
    return list(itertools.takewhile(lambda line: line.startswith("|"), lines[start:]))


def _chosen(rows: list[str], wanted: list[str], where: str) -> list[str]:
    """A table of some entries of another, whose rows begin with a direction and a name: one row per name."""
    head, _, *body = ([cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows)
    entries = {(row[0], row[1]): dict(zip(head, row, strict=True)) for row in body}
    columns = [tuple(c.strip().split(" ", 1)) for c in wanted[0].removeprefix("columns:").split(",")]
    out = [f"| | {' | '.join(map(' '.join, columns))} |", "|---|" + "---:|" * len(columns)]
    for name, _, told in (line.partition(" => ") for line in wanted[1:]):
        try:
            cells = [entries[direction, name][column] for direction, column in columns]
        except KeyError as error:
            sys.exit(f"{where} has no {error} for the row {name!r} that a page asks for")
        out.append(f"| {told or name} | {' | '.join(cells)} |")
    return out


def _slug(line: str) -> str:
    """What a link to a heading is called; empty for other lines."""
    text = line.lstrip("#").strip().lower() if line.startswith("#") else ""
    return re.sub(r"[^\w-]", "", text.replace(" ", "-"))


def pages() -> dict[Path, str]:
    """Every generated file with what should be in it."""
    readme = ROOT / "README.md"
    return {ROOT / "docs/commands.md": command_page(), readme: filled(readme.read_text(encoding="utf-8"))}


def main() -> None:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        if stale:
            sys.exit(f"stale: {', '.join(str(p.relative_to(ROOT)) for p in stale)}; run scripts/make_docs.py")
        return
    for path in stale:
        path.write_text(pages()[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
