"""Canvases of slots: a text is the symbols left when equal neighbours are merged and blanks dropped (CTC).

Many canvases read as the same text: its alignments. A text y_1 … y_M has J = 2M + 1 states, blank y_1 blank … y_M
blank, and an alignment is a walk through them, one state a slot: it begins in one of the first two, ends in one of the
last two, and goes in each step 0, 1 or, between different symbols, 2 states on (Graves et al. 2006).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

NO = float("-inf")


def stands(tokens: Tensor, blank: int, pad: int) -> Tensor:
    """Which slots (…, S) of finished canvases the text is read off: the first of equal neighbours, blanks left out."""
    before = F.pad(tokens[..., :-1], (1, 0), value=blank)
    return tokens.ne(before) & tokens.ne(blank) & tokens.ne(pad)


def needed(texts: Tensor, lengths: Tensor) -> Tensor:
    """The fewest slots (N,) that texts (N, M) of these lengths can stand on: a blank between symbols that repeat."""
    inside = torch.arange(1, texts.shape[1], device=texts.device) < lengths[:, None]
    return lengths + (texts[:, 1:].eq(texts[:, :-1]) & inside).sum(1)


class States(NamedTuple):
    """The states of N texts of at most M symbols."""

    columns: Tensor  # (N, M + 1) int64: the blank, y_1 … y_M
    column: Tensor  # (J,) which of `columns` each state shows
    skip: Tensor  # (N, J) 0 where a state may follow the one two before it, −∞ elsewhere
    counts: Tensor  # (N,) how many of the J states each text has

    @property
    def symbols(self) -> Tensor:
        """What each state shows: (N, J)."""
        return self.columns[:, self.column]


def states(texts: Tensor, lengths: Tensor, blank: int) -> States:
    """The states of texts (N, M), of which the first `lengths` (N,) symbols count."""
    (rows, width), device = texts.shape, texts.device
    inside = torch.arange(width, device=device) < lengths[:, None]
    columns = F.pad(texts.masked_fill(~inside, blank), (1, 0), value=blank)
    index = torch.zeros(2 * width + 1, dtype=torch.int64, device=device)
    index[1::2] = torch.arange(1, width + 1, device=device)
    skip = torch.full((rows, 2 * width + 1), NO, device=device)
    if width > 1:
        skip[:, 3::2] = torch.where(texts[:, 1:] != texts[:, :-1], 0.0, NO)
    return States(columns, index, skip, 2 * lengths + 1)


def emissions(logp: Tensor, s: States, held: Tensor | None = None) -> Tensor:
    """log p of what each state shows at each slot (N, S, J), from that of its columns (N, S, M + 1).

    Where `held` (N, S) is not −1, the alignment is in that state for sure: 0 there, −∞ in the others.
    """
    out = logp[:, :, s.column]
    if held is None:
        return out
    here = torch.arange(len(s.column), device=logp.device) == held[:, :, None]
    return torch.where(held[:, :, None] < 0, out, torch.where(here, 0.0, NO))


def posteriors(e: Tensor, s: States, slots: Tensor) -> tuple[Tensor, Tensor]:
    """log p(Y) = log Σ over alignments of Π emissions (N,), and p(state | Y) of each slot (N, S, J).

    `e` (N, S, J) are log-probabilities, `slots` (N,) how many of the S each row has. Forwards
    α_t(j) = e_t(j) + log Σ_{k → j} exp α_{t−1}(k), backwards likewise; p = exp(α + β − log p(Y)).
    """
    (rows, width, count), n = e.shape, torch.arange(len(e), device=e.device)
    e, alpha = _forwards(e, s)
    z, end = _ends(alpha[slots - 1, n][:, 2:], s.counts)
    beta = e.new_full((width, rows, count), NO)
    beta[-1] = end
    ahead, skip = e.new_full((rows, count + 2), NO), F.pad(s.skip.to(e.dtype), (0, 2), value=NO)[:, 2:]
    for t in range(width - 2, -1, -1):
        ahead[:, :count] = beta[t + 1] + e[t + 1]
        total = _sum(ahead[:, :count], ahead[:, 1:-1], ahead[:, 2:] + skip)
        beta[t] = torch.where((slots - 1 == t)[:, None], end, total)
    gamma = (alpha[:, :, 2:] + beta - z[:, None]).exp_().transpose(0, 1)
    inside = torch.arange(width, device=e.device) < slots[:, None]
    return z, gamma.masked_fill(~inside[:, :, None], 0.0).nan_to_num(0.0)


class _LogSum(torch.autograd.Function):
    """The log p(Y) of `posteriors`, whose gradient with respect to the emissions is p(state | Y)."""

    @staticmethod
    def forward(ctx: Any, e: Tensor, s: States, slots: Tensor) -> Tensor:
        if not ctx.needs_input_grad[0]:
            return _ends(_forwards(e, s)[1][slots - 1, torch.arange(len(e), device=e.device)][:, 2:], s.counts)[0]
        z, gamma = posteriors(e, s, slots)
        ctx.save_for_backward(gamma)
        return z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0][:, None, None] * ctx.saved_tensors[0], None, None


def log_sum(e: Tensor, s: States, slots: Tensor) -> Tensor:
    """log p(Y) summed over all alignments (N,), from emissions (N, S, J); −∞ where the slots are too few."""
    out: Tensor = _LogSum.apply(e, s, slots)  # type: ignore[no-untyped-call]
    return out


def best_alignment(e: Tensor, s: States, slots: Tensor) -> Tensor:
    """The state of each slot (N, S) in the most probable alignment (Viterbi); 0 behind a row's slots."""
    (rows, width, count), n = e.shape, torch.arange(len(e), device=e.device)
    e = e.masked_fill(torch.arange(count, device=e.device) >= s.counts[:, None, None], NO).transpose(0, 1)
    alpha = _first(e)
    back = torch.zeros(width, rows, count, dtype=torch.int8, device=e.device)
    last = alpha[:, 2:].clone()  # (N, J) of each row's last slot
    for t in range(1, width):
        best, step = torch.stack([alpha[:, 2:], alpha[:, 1:-1], alpha[:, :-2] + s.skip.to(e.dtype)]).max(0)
        back[t] = step.to(torch.int8)
        alpha[:, 2:] = best + e[t]
        last = torch.where((slots - 1 == t)[:, None], alpha[:, 2:], last)
    final = s.counts - 1
    state = torch.where(last[n, final] >= last[n, (final - 1).clamp(min=0)], final, (final - 1).clamp(min=0))
    out = torch.zeros(rows, width, dtype=torch.int64, device=e.device)
    for t in range(width - 1, -1, -1):
        inside = t < slots
        out[:, t] = torch.where(inside, state, 0)
        state = torch.where(inside, state - back[t, n, state], state)
    return out


def _first(e: Tensor) -> Tensor:
    """α of the first slot (N, 2 + J), two columns of −∞ before the states; `e` (S, N, J)."""
    out = F.pad(torch.full_like(e[0], NO), (2, 0), value=NO)
    out[:, 2:4] = e[0, :, :2]
    return out


def _forwards(e: Tensor, s: States) -> tuple[Tensor, Tensor]:
    """Emissions (S, N, J), −∞ in states that a text has not, and α of every slot (S, N, 2 + J)."""
    inside = torch.arange(e.shape[2], device=e.device) < s.counts[:, None]
    e = e.masked_fill(~inside[:, None], NO).transpose(0, 1).contiguous()
    alpha, skip = e.new_full((*e.shape[:2], e.shape[2] + 2), NO), s.skip.to(e.dtype)
    alpha[0] = _first(e)
    for t in range(1, len(e)):
        before = alpha[t - 1]
        alpha[t, :, 2:] = _sum(before[:, 2:], before[:, 1:-1], before[:, :-2] + skip) + e[t]
    return e, alpha


def _sum(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.logaddexp(torch.logaddexp(a, b), c)


def _ends(last: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """log Σ over the two states that an alignment may end in (N,), and 0 there, −∞ elsewhere (N, J)."""
    n, final = torch.arange(len(last), device=last.device), count - 1
    before = torch.where(count > 1, last[n, (final - 1).clamp(min=0)], NO)
    end = torch.full_like(last, NO)
    end[n, final] = 0.0
    end[n, (final - 1).clamp(min=0)] = 0.0
    return torch.logaddexp(last[n, final], before), end


def chain(e: Tensor, s: States, slots: Tensor) -> Tensor:
    """log p(y_i | y_<i) of each symbol, and of the end behind the last, with all alignments summed: (N, M + 1).

    A text begins with y_1 … y_i where some slot t is the first in the state of y_i, whatever comes after it:
    log p(y_1 … y_i) = log Σ_t exp(e_t(j) + log(exp α_{t−1}(j − 1) + exp α_{t−1}(j − 2)·[y_i ≠ y_{i−1}])), j = 2i.
    """
    n, most = torch.arange(len(e), device=e.device), s.columns.shape[1] - 1
    e, alpha = _forwards(e, s)  # (S, N, J), (S, N, 2 + J)
    total = _ends(alpha[slots - 1, n][:, 2:], s.counts)[0]
    before, skip = alpha[:-1], s.skip[:, 1::2].to(e.dtype)
    enter = torch.logaddexp(before[:, :, 2 : 2 + 2 * most : 2], before[:, :, 1 : 1 + 2 * most : 2] + skip)
    at_once = torch.full_like(e[:1, :, 1::2], NO)
    at_once[:, :, :1] = 0.0
    enter = torch.cat([at_once, enter]) + e[:, :, 1::2]  # (S, N, M)
    inside = torch.arange(len(e), device=e.device)[:, None] < slots
    begins = F.pad(enter.masked_fill(~inside[:, :, None], NO).logsumexp(0), (1, 0))  # (N, M + 1)
    lengths = (s.counts - 1) // 2
    ends = torch.arange(most + 1, device=e.device) == lengths[:, None]
    after = torch.where(ends, total[:, None], F.pad(begins[:, 1:], (0, 1)))
    out = (after - begins).nan_to_num(nan=NO, neginf=NO)  # −∞ − −∞: what cannot begin goes on to nothing
    return out.masked_fill(torch.arange(most + 1, device=e.device) > lengths[:, None], 0.0)
