"""What devices differ in: how precise their numbers are, which numbers are tensors there, how gradients are left out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache

import torch
from torch import Tensor

NO_FLOAT64 = {"mps"}  # draws have 23 bits there, not 53, and log p of sets seven digits


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
