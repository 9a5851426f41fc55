"""Where the time of a decoder goes, by kind of operation, on one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

KINDS = {  # the first that is part of an operation's name
    "matrix products": ("addmm", "aten::mm", "bmm", "linear"),
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


def profile(run: Callable[[], Any]) -> str:
    """Shares of the time in torch's operations, and what is left to Python, as Markdown."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run()
    with record(activities=[ProfilerActivity.CPU]) as seen, torch.profiler.record_function("everything"):
        run()
    torch.set_num_threads(threads)
    events = seen.key_averages()
    whole = next(e.cpu_time_total for e in events if e.key == "everything")
    shares: Counter[str] = Counter()
    for event in events:
        shares[_kind(event.key)] += event.self_cpu_time_total
    lines = ["| where the time goes | share |", "|---|---:|"]
    lines += [f"| {name} | {time / whole:.0%} |" for name, time in shares.most_common()]
    return "\n".join(lines) + "\n"


def _kind(name: str) -> str:
    if name == "everything":
        return "Python between the operations"
    return next((kind for kind, parts in KINDS.items() if any(p in name for p in parts)), "everything else")
