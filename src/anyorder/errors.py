"""The errors that a user can do something about: one family, each with a sentence that says what, where, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class AnyorderError(ValueError):
    """Something asked for that cannot be; the message says what, where, and what to do instead."""


class UsageError(AnyorderError):
    """Asked wrongly: other words are needed, not other files. The command line leaves with status 2."""


class PlanError(UsageError):
    """A plan that makes no sense, or an option that could have no effect; the message says what to write instead."""


class RuleError(PlanError):
    """A rule that cannot be kept, is no rule, or that no text can keep; the message says which part of it."""


class TooMuchError(PlanError):
    """A plan that would take more passes or memory for a text than it may; for a shorter text it may do."""


class ModelError(AnyorderError):
    """A model that cannot be used, or that breaks the rules of models."""


class DataError(AnyorderError):
    """Data that cannot be used."""


class TextError(AnyorderError):
    """An input that cannot be written from; says which and why."""


class MissingError(AnyorderError):
    """A package that was not installed; says which of anyorder's extras brings it."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around an import of a package that `pip install anyorder[name]` brings: if it is missing, the error says so."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingError(
            f"this needs the package {error.name}, which is not installed: pip install 'anyorder[{name}]'"
        ) from None


def first_line(error: Exception) -> str:
    """The gist of another library's error, to quote in ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def no_memory(error: Exception) -> bool:
    """Was there too little memory? Of torch's errors some say so by their name, some in words alone."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "can't allocate memory" in str(error)


def near(name: str, known: Iterable[str]) -> str:
    """The known name that `name` is a misspelling of, as a question; empty where there is none."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {found[0]!r}? " if found else ""


def pointer(text: str, at: int, around: int = 40) -> str:
    """A text and, below it, an arrow to one of its characters; of a long text only the part around it."""
    start = max(0, at - around)
    before, after = "…" if start else "", "…" if len(text) > at + around else ""
    return f"  {before}{text[start : at + around]}{after}\n  {' ' * (len(before) + at - start)}^"


def raised_in(error: BaseException) -> str:
    """The module that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
