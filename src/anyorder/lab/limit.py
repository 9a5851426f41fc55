"""The limit: the time of just the matrix products that a decoder asks for, on the shapes it asks for them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from anyorder.native import InPanels, using

PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default}


class _Shapes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the shapes of every matrix product (and of fused attention, as the two products inside it)."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products: Counter[tuple[tuple[int, ...], tuple[int, ...], bool]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in PRODUCTS:
            a, b = args[-2:]
            self.products[tuple(a.shape), tuple(b.shape), not b.is_contiguous()] += 1
        elif func is torch.ops.aten.linear.default:  # x Wᵀ, where nothing takes it apart first
            rows, (wide, deep) = args[0].shape[:-1].numel(), args[1].shape
            self.products[(rows, deep), (deep, wide), True] += 1
        elif "scaled_dot_product" in str(func):
            q, k = args[0], args[1]  # (N, H, L, d), (N, H, S, d)
            n, (length, d), width = q.shape[0] * q.shape[1], q.shape[-2:], k.shape[-2]
            self.products[(n, length, d), (n, d, width), True] += 1
            self.products[(n, length, width), (n, width, d), False] += 1
        return func(*args, **(kwargs or {}))


def products(run: Callable[[], Any]) -> Counter[tuple[tuple[int, ...], tuple[int, ...], bool]]:
    """The matrix products of `run`, by shape."""
    shapes, threads = _Shapes(), torch.get_num_threads()
    torch.set_num_threads(1)  # all in this thread, and by torch: where they are seen
    with torch.no_grad(), shapes, using(None):
        run()
    torch.set_num_threads(threads)
    return shapes.products


def seconds(shapes: Counter[tuple[tuple[int, ...], tuple[int, ...], bool]], repeats: int = 2) -> float:
    """The time of these products alone, were every thread busy with nothing else: each shape timed on one thread (best
    of `repeats` after a first, by torch and, where there is one, by the kernel), times how often it occurs, divided by
    the number of threads.
    """
    total, threads = 0.0, torch.get_num_threads()
    torch.set_num_threads(1)
    for (a, b, transposed), count in shapes.items():
        x = torch.randn(a)
        y = torch.randn(*b[:-2], b[-1], b[-2]).transpose(-1, -2) if transposed else torch.randn(b)
        ways: list[Callable[[], object]] = [partial(torch.matmul, x, y, out=x @ y)]
        if len(b) == 2 and InPanels.possible(linear := nn.Linear(*b).requires_grad_(False)):
            ways.append(partial(InPanels.of(linear), x))
        total += min(_quickest(way, repeats) for way in ways) * count
    torch.set_num_threads(threads)
    return total / threads


@torch.no_grad()
def _quickest(way: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        way()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def flops(shapes: Counter[tuple[tuple[int, ...], tuple[int, ...], bool]]) -> float:
    """2·m·k·n of every product."""
    return float(sum(2 * torch.Size(a).numel() * b[-1] * count for (a, b, _), count in shapes.items()))


def parameters(model: nn.Module) -> int:
    """How many weights a model has."""
    return sum(p.numel() for p in model.parameters())
