"""Small exact models and statistics that several test files share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from anyorder.core import Decoder, NoContext, Running, State, begin, canvas
from anyorder.core.noise import combine, mix, uniform
from anyorder.models.table import Table


def p_value(counts: Tensor, p: Tensor) -> float:
    """Chi-square: could these counts (S,) come from p (S,)? Outcomes expected fewer than 5 times are pooled."""
    expected = p.double() * counts.sum()
    rare = expected < 5
    observed = torch.cat([counts[~rare].double(), counts[rare].sum().double()[None]])
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    if expected[-1] == 0:
        assert observed[-1] == 0, "something impossible happened"
        observed, expected = observed[:-1], expected[:-1]
    return float(stats.chisquare(observed.numpy(), (expected * observed.sum() / expected.sum()).numpy()).pvalue)


def histogram(table: Table, tokens: Tensor) -> Tensor:
    """How often each sequence of the table occurs: (S,)."""
    return torch.bincount(table.index(tokens), minlength=len(table.p))


def masks(table: Any, *lengths: int, seed: int | Tensor = 0, dtype: torch.dtype = torch.float32) -> State:
    """All-mask rows of the given lengths."""
    tokens = canvas(torch.tensor(lengths), table.mask_id, table.pad_id)
    return begin(tokens, table.mask_id, table.pad_id, seed=seed, dtype=dtype)


def written(model: Any, tokens: Tensor, **more: Any) -> State:
    """Rows that are complete already, every symbol of which may change."""
    return begin(tokens, model.mask_id, model.pad_id, open=tokens != model.pad_id, **more)


@dataclass(frozen=True)
class Key:
    """X as one number per row."""

    key: Tensor  # (N,) int64

    def take(self, rows: Tensor) -> Key:
        return Key(self.key[rows])

    def join(self, *others: Key) -> Key:
        return Key(torch.cat([c.key for c in (self, *others)]))


class Hashed:
    """Pseudo-random logits that depend on X, the position and every symbol of the row (its own too) only.

    Exact in any batch: integers in, one float operation out. `causal` sees only the symbols before a position.
    """

    has_hidden = False

    def __init__(self, vocabulary: int = 7, *, causal: bool = False, sharpness: float = 3.0, seed: int = 0) -> None:
        self.vocabulary, self.causal, self.sharpness, self.seed = vocabulary, causal, sharpness, seed
        self.mask_id, self.pad_id = vocabulary, vocabulary + 1
        self.calls = self.rows = self.head_rows = 0

    def encode(self, source: Tensor) -> Key:
        return Key(source)

    def hidden(self, context: Key | NoContext, tokens: Tensor) -> Tensor:
        self.calls, self.rows = self.calls + 1, self.rows + len(tokens)
        i = torch.arange(tokens.shape[1])
        code = mix(tokens + (i << 20)) * (tokens != self.pad_id)
        seen = code.cumsum(-1) - code if self.causal else code.sum(-1, keepdim=True).expand_as(code)
        x = context.key[:, None] if isinstance(context, Key) else torch.zeros(len(tokens), 1, dtype=torch.int64)
        return combine(seen, i, x, self.seed)[..., None]  # (N, L, 1) int64

    def logits(self, hidden: Tensor) -> Tensor:
        self.head_rows += len(hidden)
        u = uniform(hidden, torch.arange(self.vocabulary + 1))  # <mask> has a logit, as in real models
        return (self.sharpness * (u / (1 - u)).log()).float()

    def log_p(self, tokens: list[int], i: int, own: bool = False) -> Tensor:
        """log p over the symbols at position i of one canvas, <mask> left out: an independent reading, (V,) float64.

        `own`: with <mask> among them, (V + 1,).
        """
        states = self.hidden(NoContext(), torch.tensor([tokens]))
        return self.logits(states[0, i : i + 1])[0, : self.vocabulary + own].double().log_softmax(-1)


def sentences(model: Hashed, lengths: list[int], seed: int = 0) -> tuple[Key, State]:
    """Inputs and all-mask canvases; each row has its own X and its own seed, whatever the batch."""
    own = combine(torch.tensor(lengths) * 1009, seed)
    return model.encode(own), masks(model, *lengths, seed=own)


def each_alone(context: Key, state: State) -> Iterator[tuple[Key, State]]:
    """The rows of a batch, one at a time, without the padding they have beside others."""
    for r in range(len(state.tokens)):
        row = torch.tensor([r])
        length = int((state.tokens[r] != state.pad_id).sum())
        one = begin(state.tokens[row, :length], state.mask_id, state.pad_id, seed=state.seed[row])
        yield context.take(row), one


def joining(model: Any, alone: list[tuple[Any, State]], decoder: Decoder, wait: int = 2) -> list[State]:
    """Rows that join a running batch one after the other, `wait` steps apart: where each ended, (1, L) each."""
    running, ends, queue = Running(model, decoder), {}, list(enumerate(alone))
    t = 0
    while queue or len(running.rows):
        if queue and t % wait == 0:
            row, (context, state) = queue.pop(0)
            running.join(context, state.but(row=torch.tensor([row])), torch.tensor([row]))
            ends[row] = state
        if len(running.rows):
            taken = running.step()
            ends |= {r: taken.state.take(torch.tensor([n])) for n, r in enumerate(taken.rows.tolist())}
            running.leave()
        t += 1
    return [ends[row] for row in range(len(alone))]


MASK, PAD = 9, 10


def blank(*rows: str) -> State:
    """'_' is open and masked, 'x' open and written, '.' fixed, ' ' padding."""
    code = {"_": MASK, "x": 1, ".": 2, " ": PAD}
    tokens = torch.tensor([[code[c] for c in row] for row in rows])
    return begin(tokens, MASK, PAD, open=torch.tensor([[c in "_x" for c in row] for row in rows]))


ROWS = st.lists(st.text("_x. ", min_size=1, max_size=9), min_size=1, max_size=4)


def tidy(rows: list[str]) -> list[str]:
    """Padding only at ends, every row with something open, one width."""
    rows = [r.replace(" ", "") + "_" for r in rows]
    width = max(map(len, rows))
    return [r.ljust(width) for r in rows]
