"""Linear maps whose weights lie as a product reads them, in panels or as whole numbers of steps, on several threads."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.native.library import kernels

LARGE = 1 << 25  # multiplications that are worth a thread


def shared(rows: int, work: int, run: Callable[[int, int], int]) -> None:
    """run(first, last) over all rows, each of which takes `work` multiplications; it says 0 if there was no memory."""
    parts = min(torch.get_num_threads(), rows, rows * work // LARGE) if rows * work > LARGE else 1
    if parts < 2:
        done = [run(0, rows)]
    else:
        ends = [rows * k // parts for k in range(parts + 1)]
        pool = _pool(os.getpid(), parts)
        others = [pool.submit(run, *span) for span in pairwise(ends[1:])]
        try:
            done = [run(0, ends[1])]
        finally:
            wait(others)  # whatever happens here: they write into tensors of the caller's
        done += [other.result() for other in others]
    if not all(done):
        raise MemoryError(f"no memory for {rows} rows")


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a fork has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="anyorder-kernel")


MOST = 63  # steps, as in kernels.c: the sum of four products with a byte fits into 16 bits
HALF = 64  # added to inputs, so that they are not negative
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


PANEL = 16  # outputs whose weights lie together, as in kernels.c
WIDEST = 4096  # inputs of a map in whole numbers, as in kernels.c
SEVERAL = 64  # of the best are kept in order, one by one; more are for torch


class Best(NamedTuple):
    """Statistics of distributions over the outputs, (M,) each but for the several best."""

    token: Tensor  # int64, the output with the largest logit …
    logp: Tensor  # … and its log-probability
    log_sum: Tensor  # log Σ exp of the logits
    entropy: Tensor
    tokens: Tensor  # (M, several) the outputs with the largest logits, best first …
    logps: Tensor  # … and their log-probabilities
    current: Tensor | None = None  # log p of the symbol in place, as if nothing were banned


Version = tuple[int, int, int]  # of a tensor: another one when its numbers have changed


class Weights(nn.Parameter):
    """Weights of which a copy lies elsewhere. torch does not count edits through `.data`: from the first look at it on,
    the numbers themselves are compared."""

    edits = 0
    _seen: Tensor | None = None  # the numbers as they were last, once somebody may edit them uncounted

    @property
    def data(self) -> Tensor:
        """The plain tensor, which may be edited."""
        if self._seen is None:
            self._seen = self.plain.clone()
        return self.plain

    @data.setter
    def data(self, value: Tensor) -> None:
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]

    @property
    def plain(self) -> Tensor:
        """The plain tensor, to read."""
        out: Tensor = torch.Tensor.data.__get__(self)  # type: ignore[attr-defined]
        return out

    @property
    def uncounted(self) -> int:
        """How many edits there were that torch did not count."""
        if self._seen is not None and not torch.equal(self._seen, self.plain):
            self.edits, self._seen = self.edits + 1, self.plain.clone()
        return self.edits

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        memo[id(self)] = out = nn.Parameter(self.plain.clone(), self.requires_grad)
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        return nn.Parameter(self.plain, self.requires_grad).__reduce_ex__(protocol)  # type: ignore[no-untyped-call]


class InPanels(nn.Linear):
    """A linear map, the same but for rounding. Its weights are kept twice: as they were, and in panels."""

    _panels: tuple[Version, Tensor] | None = None
    _steps: tuple[Version, Steps | None] | None = None

    @staticmethod
    def possible(linear: nn.Linear) -> bool:
        """Are there kernels, and for such a map?"""
        return linear.bias is not None and not linear.out_features % PANEL and by_kernels(linear.weight)

    @classmethod
    def of(cls, linear: nn.Linear) -> InPanels:
        """The same map, with the same parameters."""
        if type(linear.weight) is nn.Parameter:
            linear.weight.__class__ = Weights  # the same object, which other modules may have too
        out = cls(1, 1, device="meta")
        out.weight, out.bias = linear.weight, linear.bias
        out.out_features, out.in_features = linear.weight.shape
        return out

    @property
    def panels(self) -> Tensor:
        """Weights (out, in) as (out / PANEL, in, PANEL); made anew when the weights have changed."""
        w = self.weight
        kept = self._panels
        if kept is None or kept[0] != version(w):
            laid = w.detach().reshape(-1, PANEL, w.shape[1]).transpose(1, 2).contiguous()
            self._panels = kept = version(w), laid
        return kept[1]

    @property
    def steps(self) -> Steps | None:
        """The weights in whole numbers of steps; None where they cannot be; made anew when the weights have changed."""
        w = self.weight
        kept = self._steps
        if kept is None or kept[0] != version(w):
            self._steps = kept = version(w), Steps(w, PANEL) if Steps.possible(w) else None
        return kept[1]

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) → (…, out)."""
        return self.part(x, 0, self.out_features)

    def part(self, x: Tensor, first: int, last: int) -> Tensor:
        """The outputs from `first` to `last`, both multiples of PANEL: (…, in) → (…, last − first)."""
        if not self._fits(x):
            whole = first == 0 and last == self.out_features
            weight, bias = (self.weight, self.bias) if whole else (self.weight[first:last], self.bias[first:last])
            return F.linear(x, weight, bias)
        x, inputs, outputs = x.contiguous(), x.shape[-1], last - first
        out = x.new_empty(*x.shape[:-1], outputs)
        laid = self.panels  # a name of its own: another thread may lay them, too
        w, b = laid.data_ptr() + 4 * first * inputs, self.bias.data_ptr() + 4 * first
        a, y, run = x.data_ptr(), out.data_ptr(), kernels().linear

        def rows(i: int, j: int) -> int:
            return run(a + 4 * i * inputs, inputs, j - i, inputs, w, b, outputs, y + 4 * i * outputs, outputs)  # type: ignore[no-any-return]

        shared(x.numel() // inputs, inputs * outputs, rows)
        return out

    def best(self, x: Tensor, banned: Tensor, never: float, now: Tensor | None = None, several: int = 0) -> Best | None:
        """Of states (M, in), and of the symbols in place if they are given, (M,). None: torch has to do it.

        Logits of `banned` outputs (int64, ascending) are `never`. With `several`, so many of the best as well.
        """
        if not self._fits(x) or several > min(SEVERAL, self.out_features):
            return None
        x, inputs, outputs = x.contiguous(), self.in_features, self.out_features
        token, numbers = banned.new_empty(len(x)), x.new_empty(4, len(x))
        laid = self.panels
        w, b, a, run = laid.data_ptr(), self.bias.data_ptr(), x.data_ptr(), kernels().best
        bans, now = banned.data_ptr(), None if now is None else now.contiguous()
        logp, log_sum, entropy, current = numbers
        tokens, logps = banned.new_empty(len(x), several), x.new_empty(len(x), several)
        each = (token, logp, log_sum, entropy, now, current, tokens, logps)

        def rows(i: int, j: int) -> int:
            to = (None if t is None else t.data_ptr() + t.element_size() * t.stride(0) * i for t in each)
            return run(a + 4 * i * inputs, j - i, inputs, w, b, outputs, bans, len(banned), never, several, *to)  # type: ignore[no-any-return]

        shared(len(x), inputs * outputs, rows)
        return Best(token, logp, log_sum, entropy, tokens, logps, None if now is None else current)

    def likeliest(self, x: Tensor, banned: Tensor) -> tuple[Tensor, Tensor] | None:
        """Of states (M, in) the output with the largest logit and that logit, (M,) each: the token that `best` finds.

        Most logits are never computed. None: torch has to do it. Outputs that are `banned` (int64) are none.
        """
        steps = self.steps if self._fits(x) else None
        if steps is None:
            return None
        x, inputs, outputs = x.contiguous(), self.in_features, self.out_features
        token, top, laid = banned.new_empty(len(x)), x.new_empty(len(x)), self.panels
        w, b, a, run = laid.data_ptr(), self.bias.data_ptr(), x.data_ptr(), kernels().likeliest
        about, bans, first, second = ctypes.byref(steps), banned.data_ptr(), token.data_ptr(), top.data_ptr()

        def rows(i: int, j: int) -> int:
            to = first + 8 * i, second + 4 * i
            return run(a + 4 * i * inputs, j - i, inputs, w, b, outputs, about, bans, len(banned), *to)  # type: ignore[no-any-return]

        shared(len(x), inputs * outputs // 2, rows)
        return token, top

    def _fits(self, x: Tensor) -> bool:
        """Can a kernel take this: no gradient goes through it, and its width is right?"""
        return not torch.is_grad_enabled() and by_kernels(x) and x.shape[-1] == self.in_features

    def __getstate__(self) -> dict[str, Any]:
        """A copy lays its own."""
        return self.__dict__ | {"_panels": None, "_steps": None}


class InSteps(InPanels):
    """A linear map in whole numbers: weights and inputs are rounded, their products are summed exactly.

    x ≈ step·q of each row, w ≈ step·q of each output, |q| ≤ 63. So a row's result depends on nothing but the row.
    """

    @staticmethod
    def possible(linear: nn.Linear) -> bool:
        """Are there kernels, and for such a map?"""
        return InPanels.possible(linear) and linear.in_features <= WIDEST and Steps.possible(linear.weight)

    def part(self, x: Tensor, first: int, last: int) -> Tensor:
        """As of any map in panels."""
        steps = self.steps if self._fits(x) else None
        if steps is None:
            return super().part(x, first, last)
        x, inputs, outputs = x.contiguous(), x.shape[-1], last - first
        out = x.new_empty(*x.shape[:-1], outputs)
        about, b, a, y, run = ctypes.byref(steps), self.bias.data_ptr(), x.data_ptr(), out.data_ptr(), kernels().rounded

        def rows(i: int, j: int) -> int:
            return run(a + 4 * i * inputs, j - i, inputs, about, first, b, outputs, y + 4 * i * outputs, outputs)  # type: ignore[no-any-return]

        shared(x.numel() // inputs, inputs * outputs // 2, rows)
        return out


def by_kernels(x: Tensor) -> bool:
    """Are such numbers for kernels, and are there any?"""
    return x.dtype == torch.float32 and x.device.type == "cpu" and kernels() is not None


def version(x: Tensor) -> Version:
    """Another one when the tensor has changed."""
    return x.data_ptr(), 0 if x.is_inference() else x._version, x.uncounted if isinstance(x, Weights) else 0
