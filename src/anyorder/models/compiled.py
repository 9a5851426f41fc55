"""torch.compile: the same arithmetic in kernels made for this machine. Results are the same up to rounding."""

from __future__ import annotations

import copy
from typing import Any


def to_compiled(model: Any) -> Any:
    """A copy of one of our models whose Transformers are compiled when they are first used: a minute or so, and a C++
    compiler, for less time in everything between the matrix products.
    """
    from anyorder.models.layout import by_columns
    from anyorder.models.transformer import Transformer

    model = by_columns(copy.deepcopy(model).eval())  # a compiler looks into torch's own operations only
    for module in model.modules():
        if isinstance(module, Transformer):
            module.compile(dynamic=True)  # one kernel for all batch sizes and lengths
    return model
