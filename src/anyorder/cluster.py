"""The old name of `anyorder.corpus`; it goes with the next version."""

from __future__ import annotations

import warnings

from anyorder.corpus import Fill, Generate, Infill, Score, Translate

__all__ = ["Fill", "Generate", "Infill", "Score", "Translate"]
warnings.warn("anyorder.cluster is anyorder.corpus now", DeprecationWarning, stacklevel=2)
