"""Options that several commands share, and what they mean together."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli._guard import WRITTEN
from anyorder.cli._terminal import shown
from anyorder.errors import UsageError
from anyorder.options import SHOW, Loading, Option, known, offered

if TYPE_CHECKING:
    from anyorder.text.language_model import LanguageModel
    from anyorder.text.plan import Plan
    from anyorder.text.translator import Translator


Command = Callable[..., None]


def options(*tasks: str, loads: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """A command with the options of its task, and of loading models of the kinds it `loads`, as its last keywords.

    A command that does several tasks shows no defaults: each task has its own.
    """

    def declared(command: Command) -> Command:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[:-1]  # the last is **given
        task = tasks[0] if len(tasks) == 1 else ""
        some = {name for each in tasks for name in offered(command.__name__, each)}
        more = {name for kind in loads for name in offered(command.__name__, kind, Loading)}
        shown = [_parameter(name, one, task) for name, one in known().items() if name in some]
        loaded = [_parameter(name, one, "loading") for name, one in known(Loading).items() if name in more]
        first = [p for p in own if p.kind is not p.KEYWORD_ONLY]
        every = [*first, *shown, *loaded, *(p for p in own if p.kind is p.KEYWORD_ONLY)]
        plain = [p.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in every]
        command.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in plain}
        return command

    return declared


def parted(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(options of a plan, options of loading) as a command was given them: what is left to the task is left out."""
    plan = {
        name: value for name, value in given.items() if name in known() and value is not None and value is not False
    }
    for name in ("order", "steps"):  # as Python gives them: a folder of `map` is of the same job, however it was begun
        if name in plan:
            plan[name] = known()[name].value(plan[name])
    loading = {name: given[name] for name, one in known(Loading).items() if given.get(name, one.default) != one.default}
    return plan, loading


def _parameter(name: str, one: Option, task: str) -> inspect.Parameter:
    """An option as typer shows it, with the default of a task; "" for several."""
    about = one.about
    default, told = one.of(task) if task else (None, "")
    flags = [f"--{name.replace('_', '-')}", *about.flags, *about.aliases.get(task, ())]
    shown = typer.Option(
        *flags, help=about.help + (f" [default: {told}]" if told else ""), rich_help_panel=about.panel or None
    )
    said = one.said if default is not None else one.said | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[said, shown])


TranslationModel = Annotated[str, typer.Option("--model", "-m", help="A model's folder, or the name of a shipped one.")]
Json = Annotated[bool, typer.Option("--json", help="A JSON object per line, with scores.", rich_help_panel=SHOW)]
Show = Annotated[bool, typer.Option("--show", help="Play the writing, step by step.", rich_help_panel=SHOW)]
TraceFile = Annotated[
    Path | None,
    typer.Option("--trace", help="Write the steps to this file (JSON lines).", rich_help_panel=SHOW),
    WRITTEN,
]
View = Annotated[bool, typer.Option("--view", help="Play the writing in the browser.", rich_help_panel=SHOW)]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on a Ray cluster: its address (127.0.0.1:6379, auto), or local for one of this machine alone.",
        rich_help_panel="Who works",
    ),
]
LanguageModelName = Annotated[
    str, typer.Option("--model", "-m", help="A masked LM: a folder, or a name on the Hugging Face hub.")
]


def lengths_of(text: str) -> range:
    """A number, or a range such as 2-6, of tokens."""
    match = re.fullmatch(r"(\d+)(?:\s*(?:-|\.\.)\s*(\d+))?", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2] or match[1]):
        raise UsageError(f"--length is a number or a range such as 2-6, from 1 up; got {text!r}")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def make_plan(**options: Any) -> Plan:
    """A plan from options, checked before any model is loaded; None leaves the plan's own default."""
    from anyorder.text.plan import Plan

    return Plan.of(**options).check()


def open_translator(name: str, loading: dict[str, Any]) -> Translator:
    """The translation model of that name."""
    from anyorder.text.load import load

    return load(name, kind="translation", **loading)


def check_beside(loading: dict[str, Any], plan: dict[str, Any]) -> None:
    """Refuse a model beside another that nothing would ask."""
    if "beside" in loading and plan.get("rescore") not in ("ar", "both"):
        raise UsageError("--beside is the model that --rescore ar and both ask: add one of them, or leave it out")


def open_language_model(name: str, loading: dict[str, Any]) -> LanguageModel:
    """The language model of that name."""
    from anyorder.text.load import load

    if loading.pop("diffusion", False):
        return load(name, kind="diffusion", **loading)
    return load(name, kind="language", **loading)


def say(text: str, score: float, as_json: bool, **more: Any) -> None:
    """One result: its score and text, or everything as JSON."""
    from anyorder.text.results import told

    if as_json:
        echo(json.dumps({"text": text, "score": told(score), **more}, ensure_ascii=False))
    else:
        echo(f"{score:.4f}\t{text}")


def echo(line: str) -> None:
    """A line to standard output."""
    sys.stdout.write(shown(line + "\n", sys.stdout))
    sys.stdout.flush()
