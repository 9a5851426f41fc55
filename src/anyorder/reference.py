"""The old name of `anyorder.lab.authors` and `anyorder.lab.systems`; it goes with the next version."""

from __future__ import annotations

import sys
import warnings

from anyorder.lab import authors, authors_orders, systems

warnings.warn("anyorder.reference is anyorder.lab now", DeprecationWarning, stacklevel=2)
sys.modules.update(
    {f"{__name__}.authors": authors, f"{__name__}.orders": authors_orders, f"{__name__}.systems": systems}
)
