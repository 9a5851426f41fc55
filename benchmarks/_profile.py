"""Where the time of a decoder goes, by kind of operation, on one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch

from anyorder.native import kernels, using

KINDS = {  # the first that is part of an operation's name
    "matrix products": ("addmm", "aten::mm", "bmm", "linear"),
    "layers in one call": ("kernel: column", "kernel: run", "kernel: remember"),
    "projection and statistics in one call": ("kernel: best",),
    "attention": ("scaled_dot_product",),
    "GELU": ("gelu",),
    "layer norm": ("layer_norm",),
    "statistics over the vocabulary": (
        "softmax",
        "amax",
        "aten::max",
        "sum",
        "mul",
        "sub",
        "clamp",
        "log",
        "topk",
    ),
    "copies and gathers": ("copy", "index", "gather", "cat", "scatter"),
}


class _Recorded:
    """Kernels whose calls the profiler sees."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self.library, name)

        def recorded(*args: Any) -> Any:
            with torch.profiler.record_function(f"kernel: {name}"):
                return call(*args)

        return recorded


def profile(run: Callable[[], Any], kinds: Mapping[str, tuple[str, ...]] = KINDS) -> str:
    """Shares of the time in operations and kernels, by their `kinds`, and what is left to Python, as Markdown."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run()
    library = None if kernels() is None else _Recorded(kernels())
    with (
        using(library),
        record(activities=[ProfilerActivity.CPU]) as seen,
        torch.profiler.record_function("everything"),
    ):
        run()
    torch.set_num_threads(threads)
    events = seen.key_averages()
    whole = next(e.cpu_time_total for e in events if e.key == "everything")
    shares: Counter[str] = Counter()
    for event in events:
        shares[_kind(event.key, kinds)] += event.self_cpu_time_total
    lines = ["| where the time goes | share |", "|---|---:|"]
    lines += [f"| {name} | {time / whole:.0%} |" for name, time in shares.most_common()]
    return "\n".join(lines) + "\n"


def _kind(name: str, kinds: Mapping[str, tuple[str, ...]]) -> str:
    if name == "everything":
        return "Python between the operations"
    return next((kind for kind, parts in kinds.items() if any(p in name for p in parts)), "everything else")
