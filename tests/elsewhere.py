"""A device without a GPU: tensors that say they are elsewhere, compute on the CPU, and refuse to meet the CPU's.

`Elsewhere` is a wrapper whose device is called `lazy`. Inside `elsewhere()` tensors can be made and moved there; an
operation whose tensors are on both devices raises, as it does on a GPU, and so does float64 where it is refused, as on
MPS. Every read back to the host is counted with the line that made it.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

DEVICE = torch.device("lazy", 0)
CPU = torch.device("cpu")
READS = {  # operations that make the host wait for the device, because their result or its size is known there first
    "_local_scalar_dense", "nonzero", "masked_select", "unique_dim", "_unique2", "equal", "is_nonzero", "bincount",
    "unique_consecutive",
}  # fmt: skip


class Elsewhere(Tensor):
    """A tensor elsewhere; `here` is what it holds."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> Elsewhere:
        wrapped: Any = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, here.shape, strides=here.stride(), storage_offset=here.storage_offset(), dtype=here.dtype,
            device=DEVICE, requires_grad=False,
        )  # fmt: skip
        wrapped.here = here
        return wrapped  # type: ignore[no-any-return]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Elsewhere({self.here})"

    def tolist(self) -> Any:
        """The numbers, read back to the host."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, None)


class Met(AssertionError):
    """Tensors of two devices in one operation, or a format that the device does not have."""


class _Mode(TorchDispatchMode):
    def __init__(self, float64: bool) -> None:
        super().__init__()
        self.float64, self.reads = float64, Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, self)


def _run(func: Any, args: Any, kwargs: dict[str, Any], mode: _Mode | None) -> Any:
    name = func.overloadpacket.__name__
    flat = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    ours = [x for x in flat if isinstance(x, Elsewhere)]
    target = kwargs.get("device")
    target = None if target is None else torch.device(target)
    moves = name in ("_to_copy", "copy_", "lift_fresh", "lift_fresh_copy", "set_")
    if ours and len(ours) < len(flat) and not moves:
        others = [tuple(x.shape) for x in flat if not isinstance(x, Elsewhere)]
        raise Met(f"{name}: tensors elsewhere meet tensors of the CPU, {others}")
    away = (target.type == "lazy") if target is not None else bool(ours) and (name != "copy_" or flat[0] in ours[:1])
    if mode is not None and ours and (name in READS or (moves and not away) or _picks(name, args)):
        mode.reads[_line()] += 1
    inner = {**kwargs, "device": CPU} if target is not None else kwargs
    pinned = inner.pop("pin_memory", None)
    inner = inner if pinned is None else {**inner, "pin_memory": False}
    bare, inner = tree_map_only(Elsewhere, lambda x: x.here, (args, inner))
    out = func(*bare, **inner)
    if not away:
        return out
    if name.endswith("_") and not name.startswith("_") and ours:  # in place: the same wrapper
        return args[0]

    def wrap(x: Tensor) -> Tensor:
        if mode is not None and not mode.float64 and x.dtype == torch.float64:
            raise Met(f"{name} gives float64, which this device does not have")
        return Elsewhere(x)

    return tree_map_only(Tensor, wrap, out)


def _picks(name: str, args: Any) -> bool:
    """Is it an index by a bool mask? Its size is known when its entries were counted."""
    if name not in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return False
    return any(isinstance(i, Tensor) and i.dtype == torch.bool for i in args[1] or ())


def _line() -> str:
    """The line of anyorder's that is being carried out."""
    frames = [f for f in traceback.extract_stack() if "/anyorder/" in f.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "another library"


@contextmanager
def elsewhere(float64: bool = True) -> Iterator[_Mode]:
    """Within it there is a device `lazy`; without `float64` it refuses that format."""
    lifts = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # so that torch.tensor(…, device=…) asks the mode, too
    try:
        with _Mode(float64) as mode:
            yield mode
    finally:
        torch._C._set_only_lift_cpu_tensors(lifts)
