"""What devices differ in: how precise their numbers are, constants that live there, and what it costs to read back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

Doubts = list[tuple[Tensor, Callable[[], object]]]
_collecting = threading.local()
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


def doubt(wrong: Tensor, complain: Callable[[], object]) -> None:
    """Complain if `wrong` () holds: at once on a CPU, elsewhere when the `collected` doubts are `settled`, for every
    number that the host reads back makes it wait for the device."""
    held: Doubts | None = getattr(_collecting, "held", None)
    if held is not None and wrong.device.type != "cpu":
        held.append((wrong, complain))
    elif bool(wrong):
        complain()


@contextmanager
def collected() -> Iterator[Doubts]:
    """The doubts that are raised within, in this thread."""
    before, held = getattr(_collecting, "held", None), Doubts()
    _collecting.held = held
    try:
        yield held
    finally:
        _collecting.held = before


def settled(doubts: Doubts, more: Tensor) -> list[bool]:
    """Read all doubts, and `more` (n,) bool with them, at once; complain where one was justified."""
    flags = torch.cat([*(wrong.reshape(1) for wrong, _ in doubts), more]).tolist()
    for (_, complain), wrong in zip(doubts, flags, strict=False):
        if wrong:
            complain()
    known: list[bool] = flags[len(doubts) :]
    return known
