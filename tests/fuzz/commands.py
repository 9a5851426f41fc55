"""Command lines of every command, drawn from what its function says it takes."""

from __future__ import annotations

import importlib
import os
import shutil
import types
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import torch
from hypothesis import strategies as st

from anyorder.cli import commands
from anyorder.cli._guard import File, roles, said_as
from tests.fuzz import strategies as say
from tests.fuzz.harness import run
from tests.fuzz.world import World

# What keeps a success small: the last of two values counts. A server would stay, a report would take minutes, a corpus
# would be fetched, and --ray would start a cluster: these are tried with a model that can not be loaded, or not at all.
BOUNDS: dict[str, list[str]] = {
    "serve": ["--model={damaged}"], "bench": ["--model={damaged}"], "reproduce": ["--model={damaged}"],
    "tune": ["--model={damaged}"], "data": ["--from={.}"], "map": ["--plan"], "view": ["--no-open"],
    "train": ["--out={new}"], "distill": ["--limit=2"],
}  # fmt: skip
LEFT_OUT = {"ray", "view", "open_page"}
FILES = [
    "in.de",
    "in.en",
    "in.gz",
    "t.jsonl",
    "bad.de",
    "empty",
    "tiny.toml",
    ".",
    "new",
    "new/deeper",
    "model",
    "x.pth",
]
MODELS = ["translator", "grown", "ar", "bert", "damaged", "de-en-nothing", "../../x", ""]
BY_NAME: dict[str, st.SearchStrategy[str]] = {
    "order": say.orders, "count": say.counts, "steps": say.steps, "among": say.regions,
    "to": st.sampled_from(["en", "de", "fr", ""]), "source": st.sampled_from(["en", "de", "fr", ""]),
    "host": st.sampled_from(["127.0.0.1", "::1", "", "not a host", "256.0.0.1"]),
    "length": st.sampled_from(["2", "1-3", "3-1", "1-1000000", "x", "0"]),
    "corpus": st.sampled_from(["multi30k", "tatoeba", "nothing", ""]),
    "config": st.sampled_from(["{tiny.toml}", "{tiny.toml}", "{empty}", "{in.gz}", "{.}", "{new}"]),
}  # fmt: skip


class Parameter(NamedTuple):
    """What a command takes: its flag (None where it is an argument), and what may be said."""

    flag: str | None
    values: st.SearchStrategy[str] | None  # None: a switch
    required: bool
    written: bool  # a file that is named to be written


@cache
def parameters(command: str) -> list[Parameter]:
    """The parameters of a command, in order."""
    function = getattr(importlib.import_module(f"anyorder.cli.{command.replace('-', '_')}"), command.replace("-", "_"))
    defaults, files = function.__defaults__ or (), roles(function)
    hints = {n: h for n, h in get_type_hints(function, include_extras=True).items() if n != "return"}
    needed = len(hints) - len(defaults)
    out = []
    for i, (name, hint) in enumerate(hints.items()):
        kind, *details = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        options = [d for d in details if type(d).__name__ in ("OptionInfo", "ArgumentInfo")]
        flag = said_as(name, details)
        argument = any(type(d).__name__ == "ArgumentInfo" for d in options)
        if name not in LEFT_OUT:
            written = name in files and files[name][1] is File.WRITTEN
            out.append(Parameter(None if argument else flag, _values(name, kind, name in files), i < needed, written))
    return out


def _values(name: str, kind: Any, file: bool) -> st.SearchStrategy[str] | None:
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if bool in kinds:
        return None
    if name == "model":
        return st.sampled_from(MODELS).map(
            lambda m: f"{{{m}}}" if m in ("translator", "grown", "ar", "bert", "damaged") else m
        )
    if name in BY_NAME:
        return BY_NAME[name]
    if file:
        return st.one_of(
            st.sampled_from([f"{{{f}}}" for f in FILES]), st.sampled_from(["/dev/full", "/dev/null", "", "-"])
        )
    for one in kinds:
        if isinstance(one, type) and issubclass(one, Enum):
            return st.sampled_from([str(e.value) for e in one] + ["", "x"])
    if int in kinds or float in kinds:
        return st.one_of(say.small, say.numbers)
    return say.arguments


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """The command line of some command; {names} stand for files."""
    command = draw(st.sampled_from(commands()))
    options: list[str] = []
    given: list[str] = []
    for p in parameters(command):
        if not draw(st.integers(0, 19)) if p.required or p.flag is None else draw(st.integers(0, 14)):
            continue
        value = None if p.values is None else draw(p.values).replace("\x00", "")
        if p.flag is None:
            given.append(str(value))
        else:
            options.append(p.flag if value is None else f"{p.flag}={value}")
    return [command, *options, *BOUNDS.get(command, []), "--", *given]


def check(world: World, case: list[str]) -> str:
    """Whatever is asked of whatever command: an answer, and no file changed that was not named to be written."""
    folder = world.fresh()
    placed = [place(world, word) for word in case]
    written = {p.flag for p in parameters(case[0]) if p.written}
    named = [Path(word.split("=", 1)[1]).name for word in placed if word.split("=", 1)[0] in written]
    here, threads = Path.cwd(), torch.get_num_threads()
    os.chdir(folder)
    try:
        done = run(placed, b"Ein Hund.\n")
    finally:
        os.chdir(here)
        torch.set_num_threads(threads)
    world.untouched(*named)
    return {0: "done", 1: "refused (1)", 2: "asked wrongly (2)"}[done.code]


def place(world: World, word: str) -> str:
    """A word of a command line, with the file that a {name} in it stands for."""
    before, mark, name = word.partition("{")
    if not mark or not name.endswith("}"):
        return word
    name = name[:-1]
    models = {"translator": world.translator, "grown": world.grown, "ar": world.ar, "bert": world.bert}
    if name in models:
        return before + str(models[name])
    path = world.page / name
    if name == "damaged":
        path.mkdir(exist_ok=True)
        (path / "config.json").write_text("{")
    elif name == "model" and not path.exists():
        shutil.copytree(world.translator, path)
    elif name == "x.pth":
        path.write_bytes(world.given["in.gz"])
    return before + str(path)
