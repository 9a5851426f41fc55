"""Generate sequences in any order: the equation of Mansimov et al. (ICML 2020) as a library.

    import anyorder
    anyorder.load().translate("Ein Hund läuft am Strand.", to="en").text

`anyorder.core` is the equation, `anyorder.recipes` every named decoder, `load` gives strings in and strings out.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyorder.text.load import load, shipped
    from anyorder.text.plan import Plan, PlanError
    from anyorder.text.results import Hypothesis, Moment, TextError, Translation
    from anyorder.text.translator import Translator
    from anyorder.text.writer import Filling, TextScore, Writer
    from anyorder.traces.trace import Trace

__version__ = "0.1.0"

_HOME = {
    "load": "text.load", "shipped": "text.load", "Plan": "text.plan", "PlanError": "text.plan",
    "Translator": "text.translator", "Translation": "text.results", "Hypothesis": "text.results",
    "Moment": "text.results", "TextError": "text.results", "Writer": "text.writer", "Filling": "text.writer",
    "TextScore": "text.writer", "Trace": "traces.trace",
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
