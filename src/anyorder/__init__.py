"""Generate sequences in any order: the equation of Mansimov et al. (ICML 2020) as a library.

    import anyorder
    anyorder.load().translate("Ein Hund läuft am Strand.", to="en").text

`anyorder.core` is the equation, `anyorder.recipes` every named decoder, `load` gives strings in and strings out.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyorder.plan import Plan, PlanError
    from anyorder.results import Hypothesis, Moment, TextError, Translation
    from anyorder.text import load, shipped
    from anyorder.trace import Trace
    from anyorder.translator import Translator
    from anyorder.writer import Filling, TextScore, Writer

__version__ = "0.1.0"

_HOME = {
    "load": "text", "shipped": "text", "Plan": "plan", "PlanError": "plan", "Translator": "translator",
    "Translation": "results", "Hypothesis": "results", "Moment": "results", "TextError": "results",
    "Writer": "writer", "Filling": "writer", "TextScore": "writer", "Trace": "trace",
}  # fmt: skip
__all__ = [
    "Filling", "Hypothesis", "Moment", "Plan", "PlanError", "TextError", "TextScore", "Trace", "Translation",
    "Translator", "Writer", "load", "shipped",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that `import anyorder` is cheap."""
    if name not in _HOME:
        raise AttributeError(f"module 'anyorder' has no attribute {name!r}")
    return getattr(importlib.import_module(f"anyorder.{_HOME[name]}"), name)
