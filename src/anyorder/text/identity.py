"""What made an output, beside its settings: this version, and what is in the model's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anyorder.files import digest
from anyorder.models import catalog
from anyorder.text.own_orders import file_of

if TYPE_CHECKING:
    from anyorder.text.plan import Plan


def identity(model: str, plan: Plan, beside: str | None = None) -> dict[str, str]:
    """The version of this package, and a fingerprint of the model; of one on a hub its name alone."""
    from anyorder import __version__

    folder = catalog.locate(model)
    if folder is None:
        return {"version": __version__, "model": model}
    parts = [folder.path]
    judge = folder.beside if beside is None else catalog.locate(beside)
    if plan.rescore in ("ar", "both") and judge is not None:
        parts.append(judge.path)
    orders = [one.order for one in plan.each]
    named = [order for order in orders if isinstance(order, str)]
    policies = [Path(order) for order in named if order.endswith(".safetensors")]
    policies += [path for order in named if (path := file_of(order)) is not None]
    return {"version": __version__, "model": digest(*parts, *(p for p in policies if p.is_file()))}
