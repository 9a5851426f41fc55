"""Options that several commands share, and what they mean together."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli._guard import WRITTEN
from anyorder.cli._terminal import shown
from anyorder.errors import UsageError

if TYPE_CHECKING:
    from anyorder.text.plan import Plan
    from anyorder.text.translator import Translator
    from anyorder.text.writer import Writer


class Rescore(StrEnum):
    """What the best candidate is chosen by."""

    written = "written"
    path = "path"
    pll = "pll"
    forwards = "forwards"
    ar = "ar"
    both = "both"
    marginal = "marginal"


class Normalised(StrEnum):
    """How scores of candidates of different lengths are compared."""

    mean = "mean"
    sum = "sum"


class Conditional(StrEnum):
    """How an order sees a position that is written already."""

    visible = "visible"
    masked = "masked"


PLAN, SHOW, SPEED = "How to write", "What to show", "How fast"
ORDER_HELP = (
    "Which position next: uniform, left2right, right2left, least2most, easy-first, hard-first, confidence, margin, "
    "learned, learned-count (which decides how many at once, too), a sum of features such as 'negent + 0.9*logp', or a "
    "recipe such as 'mask-predict(10)'."
)
ORDERS_HELP = (
    f"{ORDER_HELP} forwards is from left to right to an end of its own, for a model that contains an autoregressive "
    "one. Several, as in 'easy-first | left2right', give candidates that --rescore compares. "
    "[default: the model's own (de-en: forwards); easy-first beside --count, --steps or --among]"
)
Order = Annotated[str, typer.Option("--order", "-O", help=ORDER_HELP, rich_help_panel=PLAN)]
Orders = Annotated[str | None, typer.Option("--order", "-O", help=ORDERS_HELP, rich_help_panel=PLAN)]
CountOption = Annotated[
    str | None,
    typer.Option(
        "--count",
        help="How many positions per step: a number, constant, even, anneal (these need --steps), threshold(0.9), "
        "factor(1), entropy-bound(0.1), whole; with learned-count above(2) to write fewer at once, or above(-2), more. "
        "[default: 1; constant with --steps; learned-count's own]",
        rich_help_panel=PLAN,
    ),
]
Steps = Annotated[
    str | None,
    typer.Option("--steps", help="Number of steps T, or 2L: twice over everything. [default: L]", rich_help_panel=PLAN),
]
Among = Annotated[
    str | None,
    typer.Option(
        help="Which positions may be chosen: masked, everywhere, revisit, block(8), dilated(16).", rich_help_panel=PLAN
    ),
]
Conditionals = Annotated[
    Conditional,
    typer.Option(
        help="How an order sees a written position: as it stands (one pass per step), or masked, as in the paper "
        "(a pass per position).",
        rich_help_panel=PLAN,
    ),
]
Beam = Annotated[int, typer.Option(help="K, hypotheses kept.", rich_help_panel=PLAN)]
Positions = Annotated[int, typer.Option(help="K′, positions tried per hypothesis.", rich_help_panel=PLAN)]
Temperature = Annotated[float, typer.Option(help="Of symbols; 0 takes the likeliest.", rich_help_panel=PLAN)]
TopK = Annotated[int | None, typer.Option(help="Sample among the k likeliest symbols.", rich_help_panel=PLAN)]
TopP = Annotated[float | None, typer.Option(help="Sample among the likeliest symbols of mass p.", rich_help_panel=PLAN)]
Seed = Annotated[int, typer.Option(help="The same seed gives the same text.", rich_help_panel=PLAN)]
Lengths = Annotated[int, typer.Option(help="Target lengths tried.", rich_help_panel=PLAN)]
Draft = Annotated[
    bool,
    typer.Option(
        "--draft",
        help="Try the lengths nearest to that of a draft, which the model writes first from left to right, not "
        "those of p(L|X): for a model that contains an autoregressive one.",
        rich_help_panel=PLAN,
    ),
]
RescoreOption = Annotated[
    Rescore | None,
    typer.Option(
        "--rescore",
        help="What the best candidate is chosen by: log p of its symbols when they were written, of its whole path, "
        "pseudo log-likelihood, log p from left to right by the same model (forwards) or by the autoregressive one "
        "beside it (ar), the mean of these two (both), or log p(Y|X) over sampled paths (marginal). [default: "
        "forwards, where the model contains an autoregressive one and candidates are compared; else written]",
        rich_help_panel=PLAN,
    ),
]
NormaliseOption = Annotated[
    Normalised,
    typer.Option(
        "--normalise",
        help="Compare candidates by their score divided by their length (mean), or as it is (sum): the paper's Eq. 4 "
        "with --rescore path, its choice of a length with --rescore pll.",
        rich_help_panel=PLAN,
    ),
]
Samples = Annotated[int, typer.Option(help="Paths from which --rescore marginal estimates.", rich_help_panel=PLAN)]
OrderTemperature = Annotated[float, typer.Option(help="Of positions; 0 takes the best.", rich_help_panel=PLAN)]
Polish = Annotated[
    int,
    typer.Option(
        help="Rounds of local search: parts of the best candidate are written anew, and kept if --rescore "
        "(forwards, ar or pll) prefers the result.",
        rich_help_panel=PLAN,
    ),
]
TranslationModel = Annotated[str, typer.Option("--model", "-m", help="A model's folder, or the name of a shipped one.")]
Beside = Annotated[
    str | None,
    typer.Option(
        help="The autoregressive model that --rescore ar and both ask: a folder, or a shipped one. [default: the one "
        "beside the model, FOLDER-ar]",
        rich_help_panel=PLAN,
    ),
]
MostPasses = Annotated[
    int,
    typer.Option(
        "--most-passes", min=1, help="Refuse what would take more passes than this a text.", rich_help_panel=SPEED
    ),
]
MostMemory = Annotated[
    float,
    typer.Option("--most-memory", help="Refuse what would take more gigabytes a text.", rich_help_panel=SPEED),
]
Int8 = Annotated[
    bool,
    typer.Option("--int8", help="Round matrix products to 8 bits: not exact, but faster.", rich_help_panel=SPEED),
]
Compiled = Annotated[
    bool,
    typer.Option(
        "--compiled", help="Use torch.compile, not our kernels: slow to start, for long inputs.", rich_help_panel=SPEED
    ),
]
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
LanguageModel = Annotated[
    str, typer.Option("--model", "-m", help="A masked LM: a folder, or a name on the Hugging Face hub.")
]
Diffusion = Annotated[bool, typer.Option(help="The model is a diffusion LM (LLaDA, Dream …).")]


def steps_of(text: str | None) -> int | str | None:
    """A number of steps as a number; words as they are."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else text


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


def open_translator(name: str, int8: bool = False, compiled: bool = False, beside: str | None = None) -> Translator:
    """The translation model of that name, and the one `beside` it that rescores."""
    from anyorder.text.load import load

    return load(name, kind="translation", int8=int8, compiled=compiled, beside=beside)


def check_beside(beside: str | None, rescore: Rescore | None) -> None:
    """Refuse a model beside another that nothing would ask."""
    if beside is not None and rescore not in (Rescore.ar, Rescore.both):
        raise UsageError("--beside is the model that --rescore ar and both ask: add one of them, or leave it out")


def open_writer(name: str, diffusion: bool = False) -> Writer:
    """The masked language model of that name."""
    from anyorder.text.load import load

    return load(name, kind="diffusion") if diffusion else load(name, kind="language")


def say(text: str, score: float, as_json: bool, **more: Any) -> None:
    """One result: its score and text, or everything as JSON."""
    if as_json:
        echo(json.dumps({"text": text, "score": score, **more}, ensure_ascii=False))
    else:
        echo(f"{score:.4f}\t{text}")


def echo(line: str) -> None:
    """A line to standard output."""
    sys.stdout.write(shown(line + "\n", sys.stdout))
    sys.stdout.flush()
