"""The layers of a Transformer as kernels see them: by address."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from anyorder.native.library import kernels
from anyorder.native.panels import InPanels, InSteps, Steps, by_kernels, shared, version

_AT, _LEN = ctypes.c_void_p, ctypes.c_int64
PARTS = ("qkv", "out", "norm", "cross_q", "cross_out", "cross_norm", "widen", "narrow", "ffn_norm")


class _Pair(ctypes.Structure):
    _fields_ = (("weight", _AT), ("bias", _AT), ("steps", _AT))


class _Layer(ctypes.Structure):
    _fields_ = tuple((part, _Pair) for part in PARTS)


class _Stack(ctypes.Structure):
    _fields_ = (
        ("layers", ctypes.POINTER(_Layer)), *((name, _LEN) for name in ("count", "dim", "heads", "ffn", "post")),
        ("eps", ctypes.c_double),
    )  # fmt: skip


class _Kept(ctypes.Structure):
    _fields_ = (("whole", _AT), *((name, _LEN) for name in ("layer", "half", "row", "head")))


class Stack:
    """All layers of a Transformer in one call."""

    def __init__(self, transformer: Any) -> None:
        a, each = transformer.architecture, list(_parts(transformer))
        modules: list[Any] = [module for parts in each for module in parts if module is not None]
        self.weights = [t for module in modules for t in (module.weight, module.bias)]
        self.versions = list(map(version, self.weights))
        self.laid = [[_numbers(module) for module in parts] for parts in each]  # alive as long as this is
        layers = (_Layer * len(each))(*(_Layer(*(_pair(*numbers) for numbers in parts)) for parts in self.laid))
        self.stack = _Stack(layers, len(each), a.dim, a.heads, a.ffn, a.norm == "post", a.layer_norm_eps)
        self.about, self.width = ctypes.byref(self.stack), a.dim
        self.work = sum(w.numel() for w in self.weights)  # multiplications of a row, about

    @classmethod
    def of(cls, transformer: Any) -> Stack | None:
        """The layers of a Transformer as they are now; None where kernels cannot compute them."""
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or not by_kernels(transformer.proj_bias):
            return None
        made = _made.get(transformer)
        if made is not None and made.versions == list(map(version, made.weights)):
            return made
        a = transformer.architecture
        kinds = {type(module) for parts in _parts(transformer) for module in parts}
        if a.gelu != "erf" or a.dim // a.heads % 8 or not kinds <= {InPanels, InSteps, nn.LayerNorm, type(None)}:
            return None
        _made[transformer] = made = cls(transformer)
        return made

    def column(self, x: Tensor, places: Tensor, cache: Tensor, memory: Tensor, real: Tensor | None) -> Tensor:
        """Embedded symbols (N, D) at `places` (N,) → their states (N, D), in place.

        Keys and values of `cache` and `memory` are (layers, 2, N, H, columns, D/H) each; the column's own are put into
        the cache. `real` (N, columns of the memory) bool: which of those are; None: all.
        """
        assert cache.shape[2] == memory.shape[2] == len(x)
        a, at, sources, run = x.data_ptr(), places.data_ptr(), memory.shape[4], kernels().column

        def rows(i: int, j: int) -> int:
            kept = (ctypes.byref(_kept(w, i)) for w in (cache, memory))
            seen = None if real is None else real.data_ptr() + i * sources
            return run(self.about, a + 4 * i * self.width, j - i, at + 8 * i, *kept, seen, sources)  # type: ignore[no-any-return]

        shared(len(x), self.work, rows)
        return x

    def run(
        self,
        x: Tensor,  # (M, D) embedded symbols of texts, one after the other; they are overwritten
        ends: Tensor,  # (N,) int64: where each text ends
        sight: Tensor | None = None,  # (1 or N, 1 or L, L) bool: which columns of its text each column sees; None: all
        memory: Tensor | None = None,  # (layers, 2, N, H, S, D/H)
        real: Tensor | None = None,  # (N, S) bool: which columns of the memory are; None: all
        columns: Tensor | None = None,  # (N, C) int64: states of those alone, (N·C, D); with texts of one length
    ) -> Tensor:
        """Embedded symbols → their states, (M, D)."""
        out = x if columns is None else x.new_empty(columns.numel(), self.width)
        assert memory is None or memory.shape[2] == len(ends)
        step = (0, 0) if sight is None else [0 if sight.shape[k] == 1 else sight.stride(k) for k in (0, 1)]
        about = None if memory is None else ctypes.byref(_kept(memory, 0))
        sources, wanted = 0 if memory is None else memory.shape[4], 0 if columns is None else columns.shape[1]
        a, b, c, d, y = (None if t is None else t.data_ptr() for t in (ends, sight, real, columns, out))
        run = kernels().run

        def texts(i: int, j: int) -> int:
            return run(self.about, x.data_ptr(), a, i, j, b, *step, about, c, sources, d, wanted, y)  # type: ignore[no-any-return]

        shared(len(ends), self.work * len(x) // max(1, len(ends)), texts)
        return out


_made: WeakKeyDictionary[Any, Stack] = WeakKeyDictionary()


def remember(maps: Sequence[nn.Module], x: Tensor, heads: int) -> Tensor | None:
    """Keys and values (layers, 2, N, H, S, D/H) of states (N, S, D), each layer's by its own map to 2·D.

    None where kernels cannot compute them.
    """
    if torch.is_grad_enabled() or not by_kernels(x) or not all(isinstance(m, InPanels) for m in maps):
        return None
    (rows, columns, dim), x = x.shape, x.contiguous()
    whole = x.new_empty(len(maps), 2, rows, heads, columns, dim // heads)
    laid = [_numbers(m) for m in maps]
    pairs = (_Pair * len(maps))(*(_pair(*numbers) for numbers in laid))
    if not kernels().remember(pairs, len(maps), x.data_ptr(), rows, columns, dim, heads, whole.data_ptr()):
        raise MemoryError(f"no memory for {rows} rows")
    return whole


def _parts(transformer: Any) -> Iterator[tuple[nn.Module | None, ...]]:
    """The modules of each layer, in the order of `PARTS`."""
    t = transformer
    for i, own in enumerate(t.attentions):
        cross: tuple[nn.Module | None, ...] = (None, None, None)
        if hasattr(t, "encoder_attn"):
            cross = t.encoder_attn[i].q_lin, t.encoder_attn[i].out_lin, t.layer_norm15[i]
        ffn = t.ffns[i]
        yield own.qkv_lin, own.out_lin, t.layer_norm1[i], *cross, ffn.lin1, ffn.lin2, t.layer_norm2[i]


def _numbers(module: Any) -> tuple[Tensor | None, Tensor | None, Steps | None]:
    """Weights and biases as kernels read them, and the weights in whole numbers where kernels read these instead."""
    if module is None:
        return None, None, None
    steps = module.steps if isinstance(module, InSteps) else None
    if steps is not None:
        return None, module.bias, steps
    return (module.panels if isinstance(module, InPanels) else module.weight), module.bias, None


def _pair(weight: Tensor | None, bias: Tensor | None, steps: Steps | None) -> _Pair:
    addresses = (None if t is None else t.data_ptr() for t in (weight, bias))
    return _Pair(*addresses, None if steps is None else ctypes.addressof(steps))


def _kept(whole: Tensor, row: int) -> _Kept:
    """Keys and values from a row on."""
    strides = whole.stride()[:4]
    return _Kept(whole.data_ptr() + 4 * row * strides[2], *strides)
