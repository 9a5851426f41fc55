"""The one error for model files and models that cannot be used."""

from __future__ import annotations


class ModelError(ValueError):
    """A model that cannot be used: what is wrong, where, and what to do."""


def first_line(error: Exception) -> str:
    """The gist of another library's error, to quote in ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
