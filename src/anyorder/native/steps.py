"""Weights as whole numbers of steps: rough, and it is known how rough; they tell which outputs may be the largest."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import torch
from torch import Tensor

MOST = 63  # steps, as in kernels.c: the sum of four products with a byte fits into 16 bits
HALF = 64  # what inputs are raised by, so that they are not negative
OVER = 1.0001  # norms are given a little larger than they were computed


class Steps(ctypes.Structure):
    """w = step·q + rest, |q| ≤ MOST, of weights (out, in); in panels as kernels.c reads them."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("q", "step", "size", "lost", "half"))

    def __init__(self, weight: Tensor, panel: int) -> None:
        self.kept = list(_laid(weight.detach(), panel))  # alive as long as this is
        super().__init__(*(t.data_ptr() for t in self.kept))

    @staticmethod
    def possible(weight: Tensor) -> bool:
        """Can such weights be given in steps? All have to be numbers, and inputs come by eight."""
        return not weight.shape[1] % 8 and bool(weight.isfinite().all())


def _laid(weight: Tensor, panel: int) -> Iterator[Tensor]:
    """q (out / panel, in / 4, panel, 4) int8, and of each output: the step, |w|, |rest|, and HALF·Σ q."""
    outputs, inputs = weight.shape
    w = weight.double()
    step = (w.abs().amax(1) / MOST).float().clamp_min(torch.finfo(torch.float32).tiny)
    q = (w / step.double()[:, None]).round().clamp(-MOST, MOST)
    yield q.to(torch.int8).view(outputs // panel, panel, inputs // 4, 4).transpose(1, 2).contiguous()
    yield step
    yield (w.norm(dim=1) * OVER).float()
    yield ((w - q * step.double()[:, None]).norm(dim=1) * OVER).float()
    yield (HALF * q.sum(1)).to(torch.int32)
