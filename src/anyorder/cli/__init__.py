"""The command line. A file here that does not begin with an underscore is a command: its function of that name.

Only the module of the command asked for is imported, and commands import what is heavy when they run.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from anyorder.cli._guard import guarded
from anyorder.cli._terminal import FAILURE, OURS, drop_output, for_people, open_streams, visible

FIRST = (
    "translate",
    "fill",
    "infill",
    "generate",
    "score",
    "map",
    "models",
    "view",
)  # in the help; others follow by name


def commands() -> list[str]:
    """The names of all commands, in the order of the help."""
    names = [m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    return sorted(names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))


def build(names: Sequence[str]) -> typer.Typer:
    """The program with these commands."""
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
    )
    app.callback()(_about)
    for name in names:
        module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
        app.command(name)(guarded(getattr(module, name.replace("-", "_"))))
    return app


def _version(asked: bool) -> None:
    if asked:
        from anyorder import __version__

        typer.echo(f"anyorder {__version__}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Generate sequences in any order: translate, fill and write text with masked and undirected models."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and leave: 0 done, 1 failed, 2 asked wrongly, 70 our mistake, 130 stopped with Ctrl-C."""
    args = list(sys.argv[1:] if argv is None else argv)
    open_streams()
    known = commands()
    try:
        try:
            build(args[:1] if args and args[0] in known else known)(args=args, prog_name="anyorder")
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if isinstance(error, OSError):
            drop_output()  # or the interpreter would complain once more when it leaves
        if isinstance(error, BrokenPipeError):  # whoever reads has seen enough
            sys.exit(FAILURE)
        code, message = for_people(error)
        if code == OURS and os.environ.get("ANYORDER_TRACEBACK"):
            raise
        print(f"anyorder: {visible(message, lines=True)}", file=sys.stderr)
        sys.exit(code)
    sys.exit(0)
