"""Each option is declared once: every task and every front end offers it, or says in a sentence why it does not."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest
import typer

from anyorder import cli
from anyorder.errors import PlanError
from anyorder.options import (
    HOLES,
    TASKS,
    About,
    Loading,
    Option,
    Options,
    defaults,
    hole,
    known,
    misspelt,
    offered,
    takes,
)
from anyorder.serve import how
from anyorder.text import keywords
from anyorder.text.load import load
from anyorder.text.plan import Plan, planned

COMMANDS = {  # command → its tasks
    "translate": ("translate",), "evaluate": ("translate",), "fill": ("fill",), "infill": ("infill",),
    "generate": ("generate",), "design": ("design",), "map": ("translate", "fill", "infill", "generate"),
}  # fmt: skip
LOADERS = {
    "translate": ("translation",), "evaluate": ("translation",), "fill": ("language",), "infill": ("language",),
    "generate": ("language",), "map": ("translation", "language"), "score": ("translation", "language"),
    "serve": ("translation", "language"), "effects": ("language",), "design": ("language",),
}  # fmt: skip
BODIES = {"translate": how.HowMany, "trace": how.HowShown, "fill": how.How}
KINDS = ("translation", "language")


def flags(command: str) -> dict[str, Any]:
    """{option: its parameter} of a command."""
    program: Any = typer.main.get_command(cli.build([command]))
    found = program.commands[command] if hasattr(program, "commands") else program
    return {p.name: p for p in found.params}


@pytest.mark.parametrize("task", TASKS)
def test_python_offers_every_option_that_a_task_uses(task: str) -> None:
    typed = getattr(keywords, task.capitalize())
    assert list(typed.__annotations__) == list(offered("python", task))
    assert set(planned(task, None, {}).changed) <= set(defaults(task)) & set(typed.__annotations__)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_offers_every_option_of_its_tasks_in_the_same_words(command: str) -> None:
    tasks, shown = COMMANDS[command], flags(command)
    expected = {name for task in tasks for name in offered(command, task)}
    own = {"ban"} if command == "design" else set()  # letters, of one position or another
    assert {name for name in shown if name in known()} == expected | own
    for name in expected:
        one, p = known()[name], shown[name]
        assert p.help.startswith(one.about.help) and p.opts[0] == f"--{name.replace('_', '-')}"
        assert p.rich_help_panel == one.about.panel
        assert p.default == (None if len(tasks) > 1 else one.of(tasks[0])[0])


@pytest.mark.parametrize("command", LOADERS)
def test_a_command_that_loads_a_model_offers_every_option_of_loading(command: str) -> None:
    expected = {name for kind in LOADERS[command] for name in offered(command, kind, Loading)}
    assert {name for name in flags(command) if name in known(Loading)} == expected


def test_a_command_that_loads_a_model_is_in_the_table() -> None:
    for command in cli.commands():
        shown = flags(command)
        assert command == "bench" or (command in LOADERS) == any(name in shown for name in known(Loading)), command
        assert (command in COMMANDS) == ("order_temperature" in shown), command


@pytest.mark.parametrize("task", BODIES)
def test_the_server_offers_every_option_of_a_task_with_its_bounds(task: str) -> None:
    body: Any = BODIES[task]
    assert list(body.model_fields) == list(offered("http", task))
    schema = body.model_json_schema()["properties"]
    for name, one in offered("http", task).items():
        most = min(one.about.most, one.about.served or math.inf)
        if {int, float} & set(one.kinds):
            assert schema[name]["maximum"] == most
            with pytest.raises(PlanError, match=name):
                one.check(name, most + 1, served=True)


def test_loading_is_the_same_in_python() -> None:
    assert list(keywords.Load.__annotations__) == [n for n in known(Loading) if ("python", n) not in HOLES]
    with pytest.raises(PlanError, match="did you mean 'int8'"):
        load("de-en", int9=True)
    assert not set(known()) & set(known(Loading))


def test_every_gap_is_a_decision_with_a_reason() -> None:
    fronts = {"python", "http", *COMMANDS, *LOADERS, *(f"python {task}" for task in TASKS)}
    for (front, name), why in HOLES.items():
        assert front in fronts and name in {**known(), **known(Loading)} and len(why.split()) > 2
    for of, tasks in ((Options, tuple(TASKS)), (Loading, KINDS)):
        for name, one in known(of).items():
            assert set(one.about.without) < set(tasks), f"no task uses {name}"
            assert all(len(why.split()) > 2 for why in one.about.without.values())
            assert set(one.about.defaults) <= set(takes_it(of, name))
            assert one.about.help.endswith("."), name


def takes_it(of: type, name: str) -> list[str]:
    return [task for task in (*TASKS, *KINDS) if name in takes(task, of)]


CHANGED: dict[str, Any] = {  # a value that is no default, and what it needs beside it
    "order": {"order": "left2right"}, "count": {"count": 2}, "steps": {"steps": 2}, "among": {"among": "block(2)"},
    "rescore": {"rescore": "pll"}, "normalise": {"normalise": "sum"}, "draft": {"draft": True},
    "conditionals": {"conditionals": "masked"}, "polish": {"polish": 1, "rescore": "pll"}, "beam": {"beam": 3},
    "samples": {"samples": 4, "rescore": "marginal"}, "temperature": {"temperature": 0.5},
    "top_k": {"top_k": 3, "temperature": 1.0}, "top_p": {"top_p": 0.5, "temperature": 1.0}, "nbest": {"nbest": 2},
    "order_temperature": {"order_temperature": 0.5}, "positions": {"positions": 2}, "lengths": {"lengths": 2},
    "prefix_beam": {"prefix_beam": 4}, "seed": {"seed": 3}, "most_passes": {"most_passes": 7},
    "most_memory": {"most_memory": 0.5},
    "guidance": {"guidance": 1.5}, "cache": {"cache": "dual"},
    "pattern": {"pattern": "a+"}, "schema": {"schema": '{"type": "null"}'}, "ban": {"ban": ("a", "b")},
    "include": {"include": ("a",)}, "keep": {"keep": ("numbers",)}, "glossary": {"glossary": (("Haus", "house"),)},
}  # fmt: skip


@pytest.mark.parametrize("name", known())
@pytest.mark.parametrize("task", TASKS)
def test_an_option_reaches_the_plan_or_is_refused_in_a_sentence(task: str, name: str) -> None:
    given = CHANGED[name]
    if name in takes(task) and hole("python", task, name) is None and all(more in takes(task) for more in given):
        assert getattr(planned(task, None, given), name) == given[name]
    else:
        with pytest.raises(PlanError, match=r"has no use for \w+: .* \(leave \w+ out\)"):
            planned(task, None, given)


def test_defaults_of_a_task_are_those_of_its_command() -> None:
    assert defaults("infill") == {"order": "negent", "nbest": 3}
    assert planned("infill", None, {}).order == flags("infill")["order"].default == "negent"
    assert flags("generate")["temperature"].default is None, "the model knows"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("beam", 0, "beam must be at least 1"), ("beam", True, "whole number"), ("beam", 2.5, "whole number"),
        ("beam", "4", "whole number"), ("temperature", math.nan, "finite"), ("temperature", -1, "at least 0"),
        ("top_p", 0, "above 0"), ("top_p", 1.5, "at most 1"), ("rescore", "best", "one of none, written, path"),
        ("conditionals", "hidden", "visible or masked"), ("among", 3, "among is text"), ("draft", 1, "True or False"),
        ("seed", 2**64, "at most"), ("count", 0, "at least 1"), ("steps", "0", "at least 1"),
    ],
    ids=str,
)  # fmt: skip
def test_one_check_serves_every_front_end(name: str, value: Any, message: str) -> None:
    for make in (lambda: Plan(**{name: value}), lambda: check(known()[name], name, value)):
        with pytest.raises(PlanError, match=message):
            make()


def check(one: Option, name: str, value: Any) -> None:
    one.check(name, one.value(value), served=True)


def test_several_texts_are_one_option() -> None:
    stop = Option(tuple[str, ...] | None, None, About("Ends.", words=True))
    assert stop.value("a") == ("a",) and stop.value(["a", "b"]) == ("a", "b") and stop.said == list[str] | None
    with pytest.raises(PlanError, match="stop is a text or a list of texts"):
        stop.check("stop", stop.value([1]))


def test_a_misspelt_option_is_told_its_name() -> None:
    assert "did you mean 'beam'" in str(misspelt("beem"))
    calls: list[Callable[[], Any]] = [lambda: Plan.of(beem=4), lambda: planned("fill", None, {"beem": 4})]
    for call in calls:
        with pytest.raises(PlanError, match="did you mean 'beam'"):
            call()


def test_editors_know_the_keywords() -> None:
    from anyorder.text.language_model import LanguageModel
    from anyorder.text.translator import Translator

    for method, task in (
        (Translator.translate, "Translate"),
        (Translator.trace, "Trace"),
        (Translator.stream, "Stream"),
        (LanguageModel.fill, "Fill"),
        (LanguageModel.infill, "Infill"),
        (LanguageModel.generate, "Generate"),
        (LanguageModel.stream, "Stream"),
    ):
        last = list(inspect.signature(method).parameters.values())[-1]
        assert last.kind is last.VAR_KEYWORD and last.annotation == f"Unpack[keywords.{task}]"
        assert get_type_hints(getattr(keywords, task))["seed"] is int
