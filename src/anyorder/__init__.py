"""Generate sequences in any order: the equation of Mansimov et al. (ICML 2020) as a library.

    import anyorder
    anyorder.load().translate("Ein Hund läuft am Strand.", to="en").text

`anyorder.core` is the equation, `anyorder.recipes` every named decoder, `load` gives strings in and strings out.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from anyorder import core, recipes
    from anyorder.adapters.fill_mask import pipeline
    from anyorder.adapters.generate import generate
    from anyorder.errors import AnyorderError, DataError, ModelError, PlanError, TextError
    from anyorder.text.generator import Generator
    from anyorder.text.language_model import LanguageModel
    from anyorder.text.load import load, shipped
    from anyorder.text.plan import Plan
    from anyorder.text.results import Filling, Hypothesis, Moment, TextScore, Translation
    from anyorder.text.rows import Canvas, Input
    from anyorder.text.translator import Translator
    from anyorder.traces.trace import Trace

__version__ = "0.1.0"

_HOME = {
    "adapters.fill_mask": ("pipeline",),
    "adapters.generate": ("generate",),
    "errors": ("AnyorderError", "DataError", "ModelError", "PlanError", "TextError"),
    "text.generator": ("Generator",),
    "text.load": ("load", "shipped"),
    "text.plan": ("Plan",),
    "text.results": ("Filling", "Hypothesis", "Moment", "TextScore", "Translation"),
    "text.rows": ("Canvas", "Input"),
    "text.translator": ("Translator",),
    "text.language_model": ("LanguageModel",),
    "traces.trace": ("Trace",),
}
_OLD = {"Writer": "LanguageModel"}  # old names, for one version
__all__ = [
    "AnyorderError",
    "Canvas",
    "DataError",
    "Filling",
    "Generator",
    "Hypothesis",
    "Input",
    "LanguageModel",
    "ModelError",
    "Moment",
    "Plan",
    "PlanError",
    "TextError",
    "TextScore",
    "Trace",
    "Translation",
    "Translator",
    "core",
    "generate",
    "load",
    "pipeline",
    "recipes",
    "shipped",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Public names are imported when they are first used, so that `import anyorder` is cheap."""
    if name in ("core", "recipes"):
        return _importlib.import_module(f"anyorder.{name}")
    if name in _OLD:
        import warnings

        new = _OLD[name]
        warnings.warn(f"anyorder.{name} is now anyorder.{new}", DeprecationWarning, stacklevel=2)
        return __getattr__(new)
    for home, names in _HOME.items():
        if name in names:
            return getattr(_importlib.import_module(f"anyorder.{home}"), name)
    raise AttributeError(f"module 'anyorder' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
