"""Write what is generated: docs/commands.md from the commands, docs/options.md and the types of Python's keywords
(src/anyorder/text/keywords.py) from the options, tables of the README from docs/results.

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
from anyorder.options import HOLES, TASKS, Loading, Option, Options, known, offered

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
    if name in QUICK:  # OWNER/NAME is a model of the hub
        text = re.sub(r"(```bash\n.* -m [\w.-]+/)", r"<!-- not run: its model is downloaded -->\n\1", text)
    else:
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


KEYWORDS = '''"""Types of the keywords of each task, for editors and mypy. Written by scripts/make_docs.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from anyorder.core import Count, Decoder, Order
'''


def keywords() -> str:
    """A TypedDict for each task, and one for loading."""
    blocks = [_typed(task, f"Options of {what}.", offered("python", task)) for task, what in TASKS.items()]
    loaded = {name: one for name, one in known(Loading).items() if ("python", name) not in HOLES}
    text = "\n\n".join([KEYWORDS, *blocks, _typed("load", "Options of loading a model.", loaded)])
    for name in ("Sequence", "Path", "Any", "Literal"):
        if not re.search(rf"\b{name}\b", text[len(KEYWORDS) :]):
            text = re.sub(rf"^from [\w.]+ import {name}\n", "", text, flags=re.MULTILINE)
            text = re.sub(rf"\b{name}, ", "", text, count=1)
    return text


def _typed(name: str, about: str, options: Any) -> str:
    lines = [f"    {option}: {_python(one)}" for option, one in options.items()]
    return "\n".join([f"class {name.capitalize()}(TypedDict, total=False):", f'    """{about}"""', "", *lines, ""])


def _python(one: Option) -> str:
    """The type of an option as it is written in Python."""
    if one.about.python:
        return one.about.python
    if one.listed:
        return "str | Sequence[str] | None"
    text = one.type.__name__ if isinstance(one.type, type) else str(one.type)
    text = re.sub(r"typing\.Optional\[(.*)\]$", r"\1 | None", text)
    return re.sub(r"'([\w-]+)'", r'"\1"', text.replace("typing.", "").replace("NoneType", "None"))


def option_page() -> str:
    """Every option with its default, its bounds and its tasks, and each gap with its reason."""
    parts = [
        "# Options",
        "Every option of writing, searching, choosing and loading: the same in Python, on the command line and over "
        "HTTP. Generated from `src/anyorder/options.py` by `scripts/make_docs.py`.",
        "A task without a mark has no use for the option, and refuses it with the reason below.",
    ]
    head = ["option", "default", "values", "over HTTP", *TASKS]
    rows = [_option_row(name, one) for name, one in known().items()]
    parts.append(_table(head, rows))
    parts += ["## What each option does", "\n".join(f"- `{n}`: {one.about.help}" for n, one in known().items())]
    parts += ["## Loading", _table(
        ["option", "default", "what it does"],
        [[f"`{n}`", one.about.told or f"`{one.default}`", one.about.help] for n, one in known(Loading).items()],
    )]  # fmt: skip
    gaps = [[f"`{n}`", ", ".join(sorted(t for t in one.about.without if one.about.without[t] == why)), why]
            for of in (Options, Loading) for n, one in known(of).items()
            for why in dict.fromkeys(one.about.without.values())]  # fmt: skip
    gaps += [[f"`{name}`", front, why] for (front, name), why in HOLES.items()]
    parts += ["## Where an option is not offered", _table(["option", "where", "why"], gaps)]
    return "\n\n".join(parts) + "\n"


def _option_row(name: str, one: Option) -> list[str]:
    about, numeric = one.about, {int, float} & set(one.kinds)
    least = f"{'>' if about.above else '≥'} {about.least:g}" if numeric and about.least > -1e9 else ""
    most = f"≤ {about.most:g}" if numeric and about.most < 1e9 else ""
    values = ", ".join(one.choices) or ", ".join(filter(None, [least, most]))
    http = "–" if ("http", name) in HOLES else f"≤ {about.served:g}" if about.served is not None else "✓"
    own = [", ".join(f"{v}" for v in [about.defaults.get(task, "✓")]) if task not in about.without else ""
           for task in TASKS]  # fmt: skip
    return [f"`{name}`", about.told or f"`{one.default}`", values, http, *own]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
    return {
        ROOT / "docs/commands.md": command_page(), ROOT / "docs/options.md": option_page(),
        ROOT / "src/anyorder/text/keywords.py": keywords(), readme: filled(readme.read_text(encoding="utf-8")),
    }  # fmt: skip


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
