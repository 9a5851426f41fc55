"""(c) Length: p(L|X). Which target lengths to try, with which log-probability."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from anyorder.core.settings import whole_number
from anyorder.core.state import State


class Length(Protocol):
    """p(L|X). A learned predictor reads the model's context; the others need the source's length at most."""

    def propose(self, source_lengths: Tensor, n: int, context: Any = None) -> tuple[Tensor, Tensor]:
        """The n best lengths of each of B inputs, best first, and log p(L|X): (B, n) int64, (B, n)."""
        ...

    def finish(self, state: State) -> State:
        """After each step: close what the length no longer allows."""
        ...


class Known:
    """A length that is decided before generation begins."""

    def finish(self, state: State) -> State:
        """Nothing is left to do: the length was known."""
        return state


@dataclass(frozen=True, eq=False)
class Counts(Known):
    """p(L|X) estimated from training pairs: how often a source of S tokens had a target of L.

    p(L|S) = (count(S, L) + q(L|S)) / (count(S) + 1), with q a discretised normal around the least-squares line of
    target on source lengths. q breaks ties, and answers for a source length that was never seen.
    """

    table: Tensor  # (S+1, L+1) counts

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Counts:
        """From (source length, target length) pairs, one a training pair."""
        data = torch.tensor(list(pairs), dtype=torch.int64).reshape(-1, 2)
        if not len(data):
            raise ValueError("no training pairs to estimate p(L|X) from")
        table = torch.zeros(int(data[:, 0].max()) + 1, int(data[:, 1].max()) + 1, dtype=torch.float64)
        table.index_put_((data[:, 0], data[:, 1]), torch.ones(len(data), dtype=torch.float64), accumulate=True)
        return cls(table)

    @cached_property
    def _line(self) -> tuple[float, float, float]:
        """Slope, intercept and residual deviation of target on source lengths."""
        total = self.table.sum()
        s = torch.arange(self.table.shape[0], dtype=torch.float64)
        t = torch.arange(self.table.shape[1], dtype=torch.float64)
        mean_s, mean_t = (self.table.sum(1) @ s) / total, (self.table.sum(0) @ t) / total
        var_s = self.table.sum(1) @ (s - mean_s) ** 2 / total
        cov = (s - mean_s) @ self.table @ (t - mean_t) / total
        slope = float(cov / var_s) if var_s > 0 else float(mean_t / mean_s.clamp_min(1))
        intercept = float(mean_t) - slope * float(mean_s)
        residual = (self.table * (t - slope * s[:, None] - intercept) ** 2).sum() / total
        return slope, intercept, max(float(residual) ** 0.5, 0.5)

    def propose(self, source_lengths: Tensor, n: int, context: Any = None) -> tuple[Tensor, Tensor]:
        """Source lengths (N,) → the n best target lengths and their log p, (N, n) each, best first."""
        whole_number("the number of length candidates", n)
        slope, intercept, deviation = self._line
        source = source_lengths.cpu()
        reach = (slope * source.double() + intercept + 4 * deviation).long() + 1  # each row by its own, not the batch's
        reach = reach.clamp_min(max(self.table.shape[1], n + 1))
        width = int(reach.max()) if len(reach) else n + 1
        counts = torch.zeros(len(source), width, dtype=torch.float64)
        seen = source < self.table.shape[0]
        counts[seen, : self.table.shape[1]] = self.table[source[seen]]
        t = torch.arange(width, dtype=torch.float64)
        q = -0.5 * ((t - slope * source[:, None].double() - intercept) / deviation) ** 2
        q = q.masked_fill((t < 1) | (t >= reach[:, None]), -torch.inf)
        p = (counts + q.softmax(-1)) / (counts.sum(-1, keepdim=True) + 1)
        logp, lengths = p.masked_fill(t < 1, 0).log().sort(dim=-1, descending=True, stable=True)
        logp, lengths = logp[:, :n], lengths[:, :n]
        return lengths.to(source_lengths.device), logp.float().to(source_lengths.device)


@dataclass(frozen=True, eq=False)
class Given(Known):
    """The length is known: one for all, or one per input (a fixed or a gold length)."""

    lengths: int | Tensor

    def propose(self, source_lengths: Tensor, n: int, context: Any = None) -> tuple[Tensor, Tensor]:
        """Source lengths (N,) → the n best target lengths and their log p, (N, n) each, best first."""
        value = torch.as_tensor(self.lengths, device=source_lengths.device).expand(len(source_lengths))
        return value[:, None].clone(), torch.zeros(len(value), 1, device=value.device)


@dataclass(frozen=True, eq=False)
class Predicted(Known):
    """A learned p(L|X): the model reads it off its own context, log p of lengths 0 … M as (B, M+1)."""

    log_length: Callable[[Any], Tensor]

    def propose(self, source_lengths: Tensor, n: int, context: Any = None) -> tuple[Tensor, Tensor]:
        """Source lengths (N,) → the n best target lengths and their log p, (N, n) each, best first."""
        logp = self.log_length(context)
        logp = logp.masked_fill(torch.arange(logp.shape[1], device=logp.device) < 1, -torch.inf)
        best, lengths = logp.topk(min(n, logp.shape[1]), -1)
        return lengths, best


@dataclass(frozen=True)
class UntilEos:
    """p(L|X) is implied by a causal model: the row ends where <eos> is written, or at the longest length."""

    longest: int
    eos_id: int

    def propose(self, source_lengths: Tensor, n: int, context: Any = None) -> tuple[Tensor, Tensor]:
        """Source lengths (N,) → the n best target lengths and their log p, (N, n) each, best first."""
        return Given(self.longest).propose(source_lengths, n)

    def finish(self, state: State) -> State:
        """Everything right of a written <eos> is closed padding."""
        ended = state.open & (state.tokens == self.eos_id)
        if not bool(ended.any()):  # so that what is known of the open positions stays known
            return state
        after = (ended.long().cumsum(-1) - ended.long()) > 0
        return state.but(tokens=state.tokens.masked_fill(after, state.pad_id), open=state.open & ~after, view=None)
