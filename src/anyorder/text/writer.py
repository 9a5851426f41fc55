"""The old home of `anyorder.LanguageModel`, for one version."""

from __future__ import annotations

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "Writer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from anyorder.text.language_model import LanguageModel

    warnings.warn("anyorder.text.writer.Writer is now anyorder.LanguageModel", DeprecationWarning, stacklevel=2)
    return LanguageModel
