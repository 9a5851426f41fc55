"""What devices differ in: how precise their numbers are, constants that live there, how gradients are left out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

NO_FLOAT64 = {"mps"}  # draws have 23 bits there, not 53, and log p of sets seven digits


def device_of(model: Any) -> torch.device:
    """Where a model is, and so everything that it is given; the CPU for one that has no parameters."""
    first: Tensor | None = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
    if first is None:
        return torch.device("cpu")
    if first.device.type == "meta":  # its weights are brought in when they are needed (accelerate)
        hooks = (getattr(module, "_hf_hook", None) for module in model.modules())
        return torch.device(next((h.execution_device for h in hooks if h and hasattr(h, "execution_device")), "cpu"))
    return first.device


def precise(device: torch.device) -> torch.dtype:
    """The widest floats of a device: float64 but for those that have none (MPS, some GPUs of Intel)."""
    if device.type == "xpu":
        return torch.float64 if torch.xpu.get_device_properties(device).has_fp64 else torch.float32
    return torch.float32 if device.type in NO_FLOAT64 else torch.float64


@lru_cache(maxsize=64, typed=True)
def constant(value: float, device: torch.device) -> Tensor:
    """A number as a tensor () of this device, made once: not in every step."""
    with torch.inference_mode(False):
        return torch.full((), value, device=device)


def inference(device: torch.device) -> AbstractContextManager[object]:
    """Without gradients. Inference mode, which is a little faster, is not to be had on every device (XLA)."""
    return torch.inference_mode() if device.type in ("cpu", "cuda") else torch.no_grad()
