"""Every option is declared here, once: type, default, bounds, its sentence of help, and the tasks that it belongs to.

Python's keywords, the command line, the server's request bodies and the tables in the docs all follow.

To add an option of writing, searching or choosing:

1. Add one field to `Options`. `without` names each task that cannot use it, with the reason and what to use instead.
2. Run `python scripts/make_docs.py`, which writes `text/keywords.py` (types for editors and mypy) and the docs.
3. Use it: a `Plan` has it as an attribute (text/plan.py makes a Decoder of the core from it).

An option of loading a model is one field of `Loading`, and used in text/load.py. Where a front end cannot offer an
option, `HOLES` says why; tests/test_options.py walks tasks × options × front ends and accepts no other gap.
"""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from anyorder.errors import PlanError, near

Conditionals = Literal["visible", "masked"]
Rescore = Literal["none", "written", "path", "pll", "forwards", "ar", "both", "marginal"]
Normalise = Literal["mean", "sum"]
Cached = Literal["prefix", "dual", "approximate-prefix", "approximate-dual"]
Unknown = Literal["refuse", "allow"]
Format = Literal["float32", "bfloat16", "float16", "auto"]
Task = Literal["translate", "trace", "fill", "infill", "generate", "design", "stream"]
TASKS: dict[Task, str] = {
    "translate": "translations of texts, the best first",
    "trace": "how one translation comes about, and all that it was chosen from",
    "fill": "the masks of a text, filled jointly",
    "infill": "gaps of unknown length, filled",
    "generate": "new texts",
    "design": "stretches of a sequence, written anew",
    "stream": "one text, watched while it is written",
}
ORDER_FILE = re.compile(r"(.+\.py):([A-Za-z_]\w*)")  # an order of one's own
MOST = 2**40  # the largest whole number that an option may have
WORDS = 200  # characters that an option given as text may have over HTTP
PLAN, RULES, SHOW, SPEED = "How to write", "What to write", "What to show", "How fast"


class Told(str):
    """A default that the task computes, in words."""

    __slots__ = ()


@dataclass(frozen=True)
class About:
    """What is declared of an option beside its type and default."""

    help: str
    told: str = ""  # the default in words, where it is None
    defaults: Mapping[str, Any] = field(default_factory=dict)  # task → its own default, or `Told` in words
    without: Mapping[str, str] = field(default_factory=dict)  # task that cannot use it → why, and what to do instead
    flags: tuple[str, ...] = ()  # more names on the command line
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # task → names on its command line alone
    least: float = 0
    above: bool = False  # more than `least`, not equal to it
    most: float = MOST
    served: float | None = None  # the most that the server accepts
    causal: bool = False  # acts where a text is written from left to right to its own end, too
    words: bool = False  # on the command line and over HTTP it is text, whatever Python accepts
    python: str = ""  # its type in Python, where that differs
    made_of: str = ""  # the class of the core whose objects it may be, too
    read: Callable[[str], Any] = str  # text → the value that it stands for
    panel: str = PLAN


def option(default: Any, help: str, **about: Any) -> Any:
    """A field of `Options` or `Loading`."""
    return field(default=default, metadata={"about": About(help, **about)})


def _order(text: str) -> str:
    """Files are absolute, so that every worker finds them."""
    found = ORDER_FILE.fullmatch(text.strip())
    return text if found is None else f"{Path(found[1]).absolute()}:{found[2]}"


def _steps(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 20 else text


def _schema(text: str) -> str:
    """A JSON Schema, as JSON, from a file or from JSON; the word `object` stands for any JSON object."""
    if text.strip() in ("object", '"object"'):
        return '"object"'
    if not text.lstrip().startswith(("{", "true", "false")):
        text = _content("schema", text)
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"the schema is no JSON: {error}") from None


def _glossary(text: str) -> tuple[tuple[str, str], ...]:
    """Pairs of terms from a file, `source TAB target` a line."""
    pairs = []
    for n, line in enumerate(_content("glossary", text).splitlines(), 1):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) != 2 or not all(part.strip() for part in parts):
            raise PlanError(f"{text}, line {n}: a term of a glossary is `source TAB target`, not {line!r}")
        pairs.append((parts[0].strip(), parts[1].strip()))
    return tuple(pairs)


def _content(what: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise PlanError(f"{what}: {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


FILLING = ("fill", "infill", "generate", "design", "stream")
GIVEN = dict.fromkeys(FILLING, "the length is given")
NO_SLOTS = dict.fromkeys(("fill", "infill", "generate", "design"), "a text that is filled has no slots")
NO_PROMPT = dict.fromkeys(("translate", "trace"), "it is for language models, which have no source side")
ALONE = {"stream": "one hypothesis is followed"}
JUDGED = dict.fromkeys(FILLING, "no candidates are compared by it; score(texts) gives pseudo log-likelihoods")
WATCHED = {
    "stream": "it shows a text that is not finished: use the call that returns it",
    "design": "a design has letters allowed and banned for each stretch",
}
SOURCED = dict.fromkeys(FILLING, "there is no source to keep anything of: use include")
COUNTED = {
    "trace": "it shows the best one; candidates() gives all of them",
    "stream": "it shows the writing of one text",
}


class Declared:
    """A set of options, each a field made by `option`, each checked when an object is made."""

    def __post_init__(self) -> None:
        for name, one in self.known().items():
            value = one.value(getattr(self, name))
            object.__setattr__(self, name, value)
            one.check(name, value)

    @classmethod
    def known(cls) -> Mapping[str, Option]:
        """Every option by its name."""
        return known(cls)  # type: ignore[arg-type]  # a class can be hashed

    @property
    def changed(self) -> list[str]:
        """The options that differ from their defaults."""
        return [name for name, one in self.known().items() if getattr(self, name) != one.default]


@dataclass(frozen=True, kw_only=True)
class Options(Declared):
    """Everything that a user may choose about a generation."""

    order: Any = option(
        None,
        "Which position next: uniform, left2right, right2left, least2most, easy-first, hard-first, confidence, margin, "
        "learned, learned-count (which decides how many at once, too), a sum of features such as 'negent + 0.9*logp', "
        "or a recipe such as 'mask-predict(10)'. forwards is from left to right to an end of its own, for a model that "
        "contains an autoregressive one. Your own: FILE.py:NAME, or the name that an installed package gives it (entry "
        "point anyorder.orders). Several, as in 'easy-first | left2right', give candidates that --rescore compares.",
        told="the model's own (de-en: refinement(2)); easy-first beside --count, --steps or --among",
        defaults={"fill": "negent", "infill": "negent", "generate": Told("a diffusion LM's own; uniform"),
            "design": "uniform"},
        flags=("-O",), words=True, python="str | Order | Decoder | None", read=_order,
    )  # fmt: skip
    count: str | int | None = option(
        None,
        "How many positions per step: a number, constant, even, anneal (these need --steps), threshold(0.9), "
        "factor(1), entropy-bound(0.1), whole; with learned-count above(2) to write fewer at once, or above(-2), more.",
        told="1; constant with --steps; learned-count's own", least=1, words=True,
        python="str | int | Count | None", made_of="Count",
    )  # fmt: skip
    steps: int | str | None = option(
        None, "Number of steps T, or 2L: twice over everything.",
        told="L", least=1, served=256, words=True, read=_steps,
    )  # fmt: skip
    among: str | None = option(
        None, "Which positions may be chosen: masked, everywhere, revisit, block(8), aligned(8), dilated(16).",
        told="masked; everywhere with --count anneal", words=True,
    )  # fmt: skip
    conditionals: Conditionals = option(
        "visible",
        "How an order sees a written position: as it stands (one pass per step), or masked, as in the paper (a pass "
        "per position).",
    )
    beam: int = option(
        1, "K, hypotheses kept.", defaults={"fill": Told("max(n, 8)"), "infill": Told("max(n, 4)")}, without=ALONE,
        least=1, served=8, causal=True,
    )  # fmt: skip
    positions: int = option(1, "K′, positions tried per hypothesis.", without=ALONE, least=1, served=8)
    lengths: int = option(4, "Target lengths tried.", without=GIVEN, least=1, served=8)
    prefix_beam: int | None = option(
        None,
        "Texts that a prefix beam keeps, for a model whose canvas has slots: the likeliest, all their alignments "
        "together, by what the passes saw; it costs no pass.",
        told="16, where the canvas has slots", least=1, served=32,
        without={"stream": "it shows the canvas, and its one reading", **NO_SLOTS},
    )  # fmt: skip
    draft: bool = option(
        False,
        "Try the lengths nearest to that of a draft, which the model writes first from left to right, not those of "
        "p(L|X): for a model that contains an autoregressive one.",
        without=GIVEN,
    )
    rescore: Rescore | None = option(
        None,
        "What the best candidate is chosen by: log p of its symbols when they were written, of its whole path, pseudo "
        "log-likelihood, log p from left to right by the same model (forwards) or by the autoregressive one beside it "
        "(ar), the mean of these two (both), or log p(Y|X), exact on slots, else over sampled paths (marginal). none "
        "asks no other model: it is written.",
        told="forwards, where the model contains an autoregressive one and candidates are compared; on slots ar, where "
        "one is beside; else written",
        without=JUDGED,
        causal=True,
    )
    normalise: Normalise = option(
        "mean",
        "Compare candidates by their score divided by their length (mean), or as it is (sum): the paper's Eq. 4 with "
        "--rescore path, its choice of a length with --rescore pll.",
        without=JUDGED,
        causal=True,
    )
    samples: int = option(
        16, "Paths from which --rescore marginal estimates.", without=JUDGED, least=1, served=16, causal=True
    )
    polish: int = option(
        0,
        "Rounds of local search: parts of the best candidate are written anew, and kept if --rescore (forwards, ar or "
        "pll) prefers the result.",
        without={
            **dict.fromkeys(FILLING, "there is no score of whole candidates to improve"),
            "trace": "a polished text joins parts of many generations: there is no single one to show",
        },
        served=4,
        causal=True,
    )
    temperature: float = option(
        0.0, "Of symbols; 0 takes the likeliest.",
        defaults={"generate": Told("a diffusion LM's own; 1"), "design": 1.0}, served=100, causal=True,
    )  # fmt: skip
    order_temperature: float = option(0.0, "Of positions; 0 takes the best.", served=100)
    top_k: int | None = option(None, "Sample among the k likeliest symbols.", least=1, causal=True)
    top_p: float | None = option(None, "Sample among the likeliest symbols of mass p.", above=True, most=1, causal=True)
    seed: int = option(0, "The same seed gives the same text.", least=-(2**63), most=2**63 - 1, causal=True)
    guidance: float = option(
        0.0,
        "Classifier-free guidance: how much further than the prompt alone takes it; each pass runs twice, with and "
        "without the prompt.",
        without=NO_PROMPT, served=100,
    )  # fmt: skip
    cache: Cached | None = option(
        None,
        "Keys and values kept between the steps of a diffusion LM: of the blocks before (prefix), or of those after, "
        "too (dual): exact, for block-causal models; approximate-prefix and approximate-dual for the others.",
        without=NO_PROMPT,
    )
    pattern: str | None = option(
        None,
        "A regular expression that the whole text (of fill and infill: what is written in each gap) matches; in any "
        "order, exactly. Python's syntax without lookaround, backreferences and flags; \\d, \\w and \\s are ASCII.",
        without=WATCHED, python="str | None", panel=RULES, causal=True,
    )  # fmt: skip
    schema: Any = option(
        None, "A JSON Schema (a file, or the JSON itself) under which the text is valid; 'object': any JSON object.",
        without=WATCHED, words=True, read=_schema, python="dict[str, Any] | str | Path | type | None", panel=RULES,
        causal=True,
    )  # fmt: skip
    ban: tuple[str, ...] | None = option(
        None,
        "A word that is not in the text, as it is spelt here; may be repeated.",
        without=WATCHED,
        panel=RULES,
        causal=True,
    )
    include: tuple[str, ...] | None = option(
        None, "A word that stands somewhere in the text, in any tokenisation; may be repeated.", without=WATCHED,
        panel=RULES, causal=True,
    )  # fmt: skip
    keep: tuple[str, ...] | None = option(
        None, "What stands in the translation if it stands in the source: numbers, names (words with a capital that no "
        "sentence begins with), or a regular expression; may be repeated.", without=SOURCED, panel=RULES,
        causal=True,
    )  # fmt: skip
    glossary: Any = option(
        None, "A file of terms, each `source TAB target`: where the source has the first, the translation has the "
        "second.", without=SOURCED, words=True, read=_glossary, python="dict[str, str] | str | Path | None",
        panel=RULES, causal=True,
    )  # fmt: skip
    nbest: int = option(
        1, "Texts per input, the best first.", defaults={"fill": 5, "infill": 3}, without=COUNTED,
        flags=("-n",), aliases={"generate": ("--number",)}, least=1, panel=SHOW, causal=True,
    )  # fmt: skip
    most_passes: int = option(
        100_000, "Refuse what would take more passes than this a text.", least=1, panel=SPEED, causal=True
    )
    most_memory: float = option(
        2.0, "Refuse what would take more gigabytes a text.", above=True, panel=SPEED, causal=True
    )


@dataclass(frozen=True, kw_only=True)
class Loading(Declared):
    """How a model is loaded: for Python's `load`, and for every command that loads one."""

    beside: Any = option(
        None, "The autoregressive model that --rescore ar and both ask: a folder, or a shipped one.",
        told="the one beside the model, FOLDER-ar", words=True, python="str | Path | None", panel=PLAN,
        without={"language": "it is for anyorder's own translation models"},
    )  # fmt: skip
    int8: bool = option(
        False, "Round matrix products to 8 bits: not exact, but faster.", panel=SPEED,
        without={"language": "it is for anyorder's own translation models"},
    )  # fmt: skip
    diffusion: bool = option(
        False, "The model is a diffusion LM (LLaDA, Dream …).", panel="",
        without={"translation": "it is for language models that denoise masks"},
    )  # fmt: skip
    device: str | None = option(
        None, "Where the model computes: cpu, cuda, cuda:1, mps, xpu, or auto, the best that there is.",
        told="a GPU where there is one; anyorder's own models: the CPU, which has kernels for them", panel=SPEED,
    )  # fmt: skip
    dtype: Format = option(
        "float32",
        "The format of the weights in memory: float32, bfloat16, float16, or auto, as they are stored. The halves take "
        "half of the memory and are not exact; anyorder's kernels are for float32.",
        panel=SPEED,
    )
    device_map: str | None = option(
        None, "auto: over all devices, the memory of the CPU and the disk, for what one device cannot hold.",
        panel=SPEED, without={"translation": "anyorder's own models are small: name one device"},
    )  # fmt: skip
    revision: str | None = option(
        None, "A branch, tag or commit of a model on the Hugging Face hub.", told="main", panel="",
        without={"translation": "anyorder's own models are folders"},
    )  # fmt: skip
    token: str | None = option(
        None, "The token of a Hugging Face account, for a repository that is not open to all.",
        told="HF_TOKEN", panel="", without={"translation": "anyorder's own models are folders"},
    )  # fmt: skip
    unknown: Unknown = option(
        "refuse",
        "A text with symbols that the vocabulary lacks: refuse it, or allow it, the model reading its unknown symbol.",
        panel="", without={"translation": "anyorder's own models know every character"},
    )  # fmt: skip


# Gaps that are meant: (front end or command, option) → why, and what stands for it there. Everything else is offered.
# A front end is python, http, or a command; "python fill" is one task of it.
HOLES: dict[tuple[str, str], str] = {
    ("http", "schema"): "a schema is no text: OpenAI's requests have response_format and structured_outputs for it",
    ("http", "glossary"): "files are not read for a request: include says what must be there",
    ("http", "nbest"): "each dialect has a field of its own: n, alternatives or top_k",
    ("http", "most_passes"): "the server decides what a request may cost, by its limits and its deadline",
    ("http", "most_memory"): "the server decides what a request may cost, by its limits and its deadline",
    ("python fill", "nbest"): "the argument n says how many",
    ("python infill", "nbest"): "the argument n says how many",
    ("python generate", "nbest"): "the argument n says how many",
    ("python design", "nbest"): "the argument n says how many",
    ("python", "diffusion"): "load has kind='diffusion'",
    ("evaluate", "nbest"): "the best translation of each sentence is compared with its reference",
    ("map", "beside"): "workers load the model that lies beside the other as FOLDER-ar",
    ("serve", "beside"): "a server loads the model that lies beside each of its models as FOLDER-ar",
    ("score", "beside"): "a score asks one model: name it with --model",
    ("serve", "diffusion"): "a model is served as its folder says",
}


@dataclass(frozen=True)
class Option:
    """An option, as everything that shows or checks it needs it."""

    type: Any
    default: Any
    about: About

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types it may have, without None."""
        whole = get_origin(self.type) in (Literal, tuple)
        kinds = (self.type,) if whole else get_args(self.type) or (self.type,)
        return tuple(kind for kind in kinds if kind is not type(None))

    @property
    def listed(self) -> bool:
        """Does it take several texts?"""
        return any(get_origin(kind) is tuple for kind in self.kinds)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be, where these are all."""
        return next((get_args(kind) for kind in self.kinds if get_origin(kind) is Literal), ())

    @property
    def said(self) -> Any:
        """Its type on the command line."""
        if self.listed:
            return list[str] | None
        return str | None if self.about.words else self.type

    def of(self, task: str) -> tuple[Any, str]:
        """(default, the same in words where it is no plain value) in a task."""
        own = self.about.defaults.get(task, self.default)
        return (None, str(own)) if isinstance(own, Told) else (own, self.about.told if own is None else "")

    def value(self, given: Any) -> Any:
        """What was given, in the form that a plan keeps."""
        if isinstance(given, str):
            return (given,) if self.listed else self.about.read(given)
        return tuple(given) if self.listed and isinstance(given, (list, tuple)) else given

    def check(self, name: str, value: Any, served: bool = False) -> None:
        """Refuse a value that nothing could use, in a sentence; `served`: also one beyond the server's limit."""
        kinds, about = self.kinds, self.about
        text = isinstance(value, str)
        if value is None and self.default is None:
            return
        if served and text and len(value) > WORDS:
            raise PlanError(f"{name} may have {WORDS} characters, not {len(value):,}")
        if self.type is Any or (about.made_of and about.made_of in {kind.__name__ for kind in type(value).__mro__}):
            return
        if self.listed:
            if not isinstance(value, tuple) or not all(isinstance(one, str) for one in value):
                raise PlanError(f"{name} is a text or a list of texts, not {value!r}")
        elif self.choices:
            if value not in self.choices:
                said = self.choices
                which = " or ".join(said) if len(said) == 2 else f"one of {', '.join(said)}"
                raise PlanError(f"{name} is {which}; got {value!r}")
        elif bool in kinds:
            if not isinstance(value, bool):
                raise PlanError(f"{name} is True or False, not {value!r}")
        elif str in kinds and (text or int not in kinds):
            if not text:
                raise PlanError(f"{name} is text, not {value!r}")
        elif int in kinds or float in kinds:
            most = about.most if about.served is None or not served else min(about.most, about.served)
            number(name, value, about.least, about.above, whole=int in kinds, most=most)


def number(
    name: str, value: Any, least: float = 1, above: bool = False, whole: bool = True, most: float = MOST
) -> None:
    """Refuse what is not a number from `least` to `most`, in a sentence; `whole`: nor may it have a fraction."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral if whole else numbers.Real):
        raise PlanError(f"{name} is a {'whole ' * whole}number, not {value!r}")
    checked: Any = value
    value = int(checked) if whole else float(checked)
    if math.isfinite(value) and (least < value if above else least <= value) and value <= most:
        return
    limit = (
        f"at most {most:,}"
        if math.isfinite(value) and value > most
        else f"{'above' if above else 'at least'} {least:g}"
    )
    raise PlanError(f"{name} must be {limit}{'' if whole else ', and finite'}; got {value}")


@cache
def known(of: type = Options) -> Mapping[str, Option]:
    """Every option by its name."""
    hints = get_type_hints(of)
    return {f.name: Option(hints[f.name], f.default, f.metadata["about"]) for f in fields(of)}


@cache
def takes(task: str, of: type = Options) -> Mapping[str, Option]:
    """The options that a task (of `Loading`: a kind of model) uses."""
    return {name: one for name, one in known(of).items() if task not in one.about.without}


def offered(front: str, task: str, of: type = Options) -> Mapping[str, Option]:
    """The options of a task that a front end offers."""
    return {name: one for name, one in takes(task, of).items() if hole(front, task, name) is None}


def hole(front: str, task: str, name: str) -> str | None:
    """Why a front end does not offer an option of a task; None: it does."""
    return HOLES.get((front, name), HOLES.get((f"{front} {task}", name)))


def defaults(task: str) -> dict[str, Any]:
    """The defaults of a task where they differ from those of every task."""
    own = ((name, one.of(task)[0], one.default) for name, one in takes(task).items())
    return {name: value for name, value, general in own if value is not None and value != general}


def reason(task: str, name: str) -> str:
    """Why a task has no use for an option, as a sentence."""
    why = known()[name].about.without[task]
    return f"{task} has no use for {name}: {why} (leave {name} out)"


def misspelt(name: str, of: type = Options) -> PlanError:
    """The error for a name that no option has."""
    what = "option" if of is Options else "option of loading"
    return PlanError(f"no {what} {name!r}; {near(name, known(of))}there are {', '.join(known(of))}")
