"""int8: a model whose matrix products run on 8-bit integers. Faster, and a named approximation.

Weights are rounded once, one scale an output channel; activations on the fly. With kernels these have one scale a row,
and a sentence's result does not depend on its batch; the vocabulary projection stays as it is, since kernels compute
little of it anyway. Where torch does it, they have one scale a batch, and a result depends a little on the others.
"""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anyorder.models.layout import as_read
from anyorder.native import InPanels, InSteps, kernels

ENGINE = "onednn"  # the fastest on x86, above all at the vocabulary projection, with 8-bit products or without …
PLAIN = "fbgemm"  # … and the one that uses no matrix tiles


def quantise(linear: nn.Linear) -> nn.Module:
    """The same linear map in int8."""
    from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

    with warnings.catch_warnings(), _engine():
        warnings.simplefilter("ignore")  # torch announces a successor that lives in another package
        make: Any = quantize_dynamic
        wrapped = make(nn.Sequential(linear), {nn.Linear: per_channel_dynamic_qconfig})
    inner: nn.Module = wrapped[0]
    return inner


@contextmanager
def _engine() -> Iterator[None]:
    """Weights are packed for the engine that is set while they are."""
    before, engine = torch.backends.quantized.engine, ENGINE if tiles_work() else PLAIN
    if engine in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = engine
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


TILES = """
import torch
layer = torch.nn.Linear(192, 512).bfloat16()
with torch.inference_mode():
    layer(torch.ones(64, 192).bfloat16())
"""


@cache
def tiles_work() -> bool:
    """Can this machine do what it announces? Some virtual machines announce matrix tiles (AMX) and end the process that
    uses them, so that is tried in another process; without tiles there is nothing to try.
    """
    try:
        announced = "amx_tile" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return True
    return not announced or subprocess.run([sys.executable, "-c", TILES], capture_output=True).returncode == 0


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    out = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        out.weight.copy_(weight)
        out.bias.copy_(bias)
    return out


def to_int8(model: Any, by_torch: bool = False) -> Any:
    """A copy of one of our models with its linear layers in int8: by kernels, where there are any, or `by_torch`."""
    model = copy.deepcopy(model).eval()
    if by_torch or kernels() is None:
        return _by_torch(model)
    return _by_kernels(as_read(model.requires_grad_(False)))


def _by_kernels(model: Any) -> Any:
    """Every linear map within the layers; one whose sizes are not for kernels stays as it is."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is InPanels and name != "head" and InSteps.possible(child):
                setattr(module, name, InSteps.of(child))
    return model


def _by_torch(model: Any) -> Any:
    """Every linear layer, and the vocabulary projection."""
    from anyorder.models.layers import Attention, CrossAttention
    from anyorder.models.transformer import Transformer

    for transformer in [m for m in model.modules() if isinstance(m, Transformer)]:
        transformer.head = quantise(_linear(transformer.embeddings.weight, transformer.proj_bias))
    for module in list(model.modules()):
        if isinstance(module, Attention) and not isinstance(module, CrossAttention):
            fused, dim = module.qkv_lin, module.qkv_lin.in_features
            module.q_part = quantise(_linear(fused.weight[:dim], fused.bias[:dim]))
            module.kv_part = quantise(_linear(fused.weight[dim:], fused.bias[dim:]))
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, quantise(_linear(child.weight, child.bias)))
    return model
