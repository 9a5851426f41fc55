"""The command line. A file here that does not begin with an underscore is a command: its function of that name.

Only the module of the command asked for is imported, and commands import what is heavy when they run.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

FIRST = ("translate", "fill", "infill", "generate", "score", "models", "view")  # in the help; others follow by name
USAGE, FAILURE = 2, 1


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
        app.command(name)(getattr(module, name.replace("-", "_")))
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
    """Run a command line and leave: 0 done, 1 failed, 2 asked wrongly, 130 stopped with Ctrl-C."""
    args = list(sys.argv[1:] if argv is None else argv)
    known = commands()
    try:
        build(args[:1] if args and args[0] in known else known)(args=args, prog_name="anyorder")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        message = _for_people(error)
        if message is None:
            raise
        print(f"anyorder: {message}", file=sys.stderr)
        from anyorder.errors import UsageError

        sys.exit(USAGE if isinstance(error, UsageError) else FAILURE)
    sys.exit(0)


def _for_people(error: Exception) -> str | None:
    """What to say of an error that a user can do something about; None for one that is our mistake."""
    if type(error).__module__.startswith("anyorder."):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"can not use {error.filename}: {error.strerror}"
    if isinstance(error, ValueError) and _raised_in(error).startswith(("anyorder.core.", "anyorder.models.")):
        return str(error)  # written for whoever composes a decoder
    return None


def _raised_in(error: Exception) -> str:
    """The module that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
