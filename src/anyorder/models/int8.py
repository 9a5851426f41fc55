"""int8: a model whose matrix products run on 8-bit integers, by kernels. Faster, and a named approximation.

Weights are rounded once, one scale an output; activations on the fly, one scale a row, so that a sentence's result does
not depend on its batch. The vocabulary projection stays as it is, since kernels compute little of it anyway.
"""

from __future__ import annotations

import copy
from typing import Any

from anyorder.errors import ModelError
from anyorder.models.layout import as_read
from anyorder.native import InPanels, InSteps, kernels


def to_int8(model: Any) -> Any:
    """A copy of one of our models with the linear maps of its layers in int8, where their sizes are for kernels."""
    if kernels() is None:
        raise ModelError(
            "int8 needs anyorder's kernels, which were not compiled for this machine: leave int8 out, or install a C "
            "compiler (on x86-64 a processor with AVX2) and then anyorder again"
        )
    model = as_read(copy.deepcopy(model).eval().requires_grad_(False))
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is InPanels and name != "head" and InSteps.possible(child):
                setattr(module, name, InSteps.of(child))
    return model
