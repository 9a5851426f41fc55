"""State: N hypotheses as tensors, one row each. Everything the engine knows between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.core.automaton import Automaton
from anyorder.core.devices import constant
from anyorder.core.ragged import joined, used
from anyorder.core.rules import FREE, Rules

ECHO = "position:echo"  # what a self-conditioned model is told of the pass before, in a state's memory


class View(NamedTuple):
    """p(y | Y, X) as decisions see it: (N, L) fields, meaningful where they were asked for.

    Fields that no part of the decoder reads are None: nobody pays for what nobody looks at.
    """

    token: Tensor  # (N, L) the proposed symbol
    logp: Tensor  # (N, L) its log p, after bans, before temperature
    current: Tensor | None = None  # (N, L) log p of the symbol in place, before bans
    entropy: Tensor | None = None  # (N, L) in nats, after bans
    margin: Tensor | None = None  # (N, L) p of the best symbol − p of the second
    hidden: Tensor | None = None  # (N, L, D), for a learned order
    top_token: Tensor | None = None  # (N, L, K″)
    top_logp: Tensor | None = None  # (N, L, K″)
    full: Tensor | None = None  # (N, L, V) log p, for counts that compare distributions
    best: Tensor | None = None  # (N, L) the most probable symbol, whatever was drawn
    best_logp: Tensor | None = None  # (N, L)
    echo: Tensor | None = None  # (N, L, D) what a self-conditioned model is told of this pass in its next; NaN unseen
    mass: Tensor | None = None  # (N, L) log of the probability that the rows' rules leave; None: no row has one

    def take(self, rows: Tensor) -> View:
        """These rows."""
        return View(*(None if f is None else f.index_select(0, rows) for f in self))  # type: ignore[arg-type]

    def trim(self, width: int) -> View:
        """The first `width` columns."""
        return View(*(None if f is None else f[:, :width] for f in self))  # type: ignore[arg-type]

    def join(self, *others: View) -> View:
        """These rows, then the others'; a field that one of them lacks is None."""
        fields = zip(self, *others, strict=True)
        return View(*(None if any(f is None for f in each) else joined(each) for each in fields))  # type: ignore[arg-type]

    def nothing(self, rows: int, width: int) -> View:
        """A view with these fields of rows that were not looked at."""
        return View(*(None if f is None else f.new_zeros(rows, width, *f.shape[2:]) for f in self))  # type: ignore[arg-type]


def merge(where: Tensor, a: View, b: View) -> View:
    """`a` where `where` (N, L), else `b`; a field that either lacks is None."""

    def one(x: Tensor | None, y: Tensor | None) -> Tensor | None:
        if x is None or y is None:
            return None
        return torch.where(where.reshape(*where.shape, *[1] * (x.dim() - 2)), x, y)

    return View(*map(one, a, b))  # type: ignore[arg-type]


@dataclass(frozen=True)
class State:
    """Y^t and what decisions remember of Y^{<t}, for N hypotheses."""

    tokens: Tensor  # Y^t (N, L) int64: mask_id where unfilled, pad_id after a row's end
    open: Tensor  # (N, L) bool: may ever change (neither prompt nor padding)
    logp: Tensor  # (N, L) log p of each symbol when it was written, 0 before
    score: Tensor  # (N,) log p(L) + Σ_t Σ_i log p(z) + z·log p(y)
    seed: Tensor  # (N,) int64: the row's own source of randomness
    row: Tensor  # (N,) int64: which row of the first state this hypothesis comes from
    step: Tensor  # (N,) int64: steps taken, each row its own
    mask_id: int
    pad_id: int
    budget: Tensor | None = None  # (N,) int64: T, the steps that each row has; None: until nothing is masked
    memory: dict[str, Tensor] = field(default_factory=dict)  # what parts carry along; (N, …) each, read by `recall`
    view: View | None = None  # a view of these tokens, where one is known already
    rules: Rules | None = None  # what the finished rows must be; None: no row has a rule

    @cached_property
    def masked(self) -> Tensor:
        """(N, L) open and not yet written."""
        return self.open & (self.tokens == self.mask_id)

    @cached_property
    def place(self) -> Tensor:
        """(N, L) index of a position among its row's open positions, counted from 0."""
        return self.open.long().cumsum(-1) - 1

    @cached_property
    def length(self) -> Tensor:
        """(N,) number of open positions: the L that counts and schedules speak of."""
        return self.open.sum(-1)

    @cached_property
    def fresh(self) -> Tensor | None:
        """(N,) bool: rows that have taken no step yet; None where there are none."""
        return self.step == 0 if 0 in self.step.tolist() else None

    @cached_property
    def remaining(self) -> list[int] | None:
        """The steps that each row has left; None: until nothing is masked."""
        return None if self.budget is None else (self.budget - self.step).tolist()

    def but(self, **changes: Any) -> State:
        """A copy with other fields, as dataclasses.replace makes it, at a tenth of its time.

        What is known of the open positions, or of steps, stays known if they are the same.
        """
        if not changes.keys() <= State.__dataclass_fields__.keys():
            raise TypeError(f"a state has no {', '.join(changes.keys() - State.__dataclass_fields__.keys())}")
        fields = self.__dict__ | changes
        if "open" in changes or "tokens" in changes:
            fields.pop("masked", None)
        if "open" in changes:
            fields.pop("place", None)
            fields.pop("length", None)
        if "step" in changes or "budget" in changes:
            fields.pop("fresh", None)
            fields.pop("remaining", None)
        new = object.__new__(State)
        new.__dict__.update(fields)
        return new

    def stepped(self, **changes: Any) -> State:
        """`but` of a step that was taken: no row is fresh any more, and each has one step fewer left."""
        new, left = self.but(**changes), self.__dict__.get("remaining")
        new.__dict__["fresh"] = None
        if left is not None:
            new.__dict__["remaining"] = [n - 1 for n in left]
        return new

    def take(self, rows: Tensor) -> State:
        """Hypotheses `rows` (M,), repeats allowed."""
        return self.but(
            tokens=self.tokens.index_select(0, rows),
            open=self.open.index_select(0, rows),
            logp=self.logp.index_select(0, rows),
            score=self.score.index_select(0, rows),
            seed=self.seed.index_select(0, rows),
            row=self.row.index_select(0, rows),
            step=self.step.index_select(0, rows),
            budget=None if self.budget is None else self.budget.index_select(0, rows),
            memory={k: v.index_select(0, rows) for k, v in self.memory.items()},
            view=None if self.view is None else self.view.take(rows),
            rules=None if self.rules is None else self.rules.take(rows),
        )

    def join(self, *others: State) -> State:
        """These hypotheses, then the others': rows of any length, each at its own step, in one batch.

        What a row has not begun to remember is read as its default (`recall`).
        """
        states = (self, *others)
        if len({(s.mask_id, s.pad_id, s.budget is None) for s in states}) > 1:
            raise ValueError("rows of different models, or rows with and without a number of steps, cannot be joined")
        keys = dict.fromkeys(key for s in states for key in s.memory)
        view = next((s.view for s in states if s.view is not None), None)
        if view is not None:  # rows that have none yet are looked at in their first step
            views = [view.nothing(*s.tokens.shape) if s.view is None else s.view for s in states]
            view = views[0].join(*views[1:])
        return self.but(
            tokens=joined([s.tokens for s in states], self.pad_id),
            open=joined([s.open for s in states]),
            logp=joined([s.logp for s in states]),
            score=torch.cat([s.score for s in states]),
            seed=torch.cat([s.seed for s in states]),
            row=torch.cat([s.row for s in states]),
            step=torch.cat([s.step for s in states]),
            budget=None if self.budget is None else torch.cat([s.budget for s in states if s.budget is not None]),
            memory={key: joined(_remembered(key, states)) for key in keys},
            view=view,
            rules=Rules.joined([s.rules for s in states], [s.tokens for s in states], self.mask_id, self.pad_id),
        )

    def ruled(self, automata: Sequence[Automaton | None], part: Tensor | None = None) -> State:
        """With a rule for each row, None: none; of `part` (N, L) int64 alone, where −1 belongs to no part and 0, 1, …
        to parts each of which must be in the language. By default all of a row but its padding is one part.
        """
        distinct = tuple(dict.fromkeys(a for a in automata if a is not None))
        if len(automata) != len(self.tokens):
            raise ValueError(f"{len(automata)} rules for {len(self.tokens)} rows: give each row its own, or None")
        if not distinct:
            return self.but(rules=None)
        of = torch.tensor([FREE if a is None else distinct.index(a) for a in automata], device=self.tokens.device)
        part = torch.zeros_like(self.tokens) if part is None else part
        return self.but(rules=Rules(distinct, of, part, self.mask_id, self.pad_id))

    def recall(self, key: str, default: Tensor | float) -> Tensor:
        """What was remembered under `key`, (N, …); a row that has taken no step yet has the default."""
        known = self.memory.get(key)
        if known is None:
            return default if isinstance(default, Tensor) else constant(default, self.tokens.device)
        if self.fresh is None:
            return known
        return torch.where(self.fresh.reshape(-1, *[1] * (known.dim() - 1)), default, known)

    def trim(self) -> State:
        """Drop columns that are padding in every row (memory is per row, and stays)."""
        width = used(self.tokens != self.pad_id)
        if width == self.tokens.shape[1]:
            return self
        cut = {k: v[:, :width] if k.startswith("position:") else v for k, v in self.memory.items()}
        view = None if self.view is None else self.view.trim(width)
        tokens, open_, logp = self.tokens[:, :width], self.open[:, :width], self.logp[:, :width]
        rules = None if self.rules is None else self.rules.trim(width)
        return self.but(tokens=tokens, open=open_, logp=logp, memory=cut, view=view, rules=rules)


def _remembered(key: str, states: Sequence[State]) -> list[Tensor]:
    """What each state remembers under `key`, zeros where it does not yet."""
    like = next(s.memory[key] for s in states if key in s.memory)

    def nothing(s: State) -> Tensor:
        sizes = [s.tokens.shape[1], *[0] * like.dim()] if key.startswith("position:") else [0] * like.dim()
        return like.new_zeros(len(s.tokens), *sizes[: like.dim() - 1])

    return [s.memory[key] if key in s.memory else nothing(s) for s in states]


def begin(
    tokens: Tensor,
    mask_id: int,
    pad_id: int,
    *,
    open: Tensor | None = None,
    score: Tensor | None = None,
    seed: int | Tensor = 0,
    dtype: torch.dtype = torch.float32,
) -> State:
    """The first state of a canvas Y^1 (N, L). Open by default: what is masked.

    `score` starts the path score, usually at log p(L|X). An int seed gives row n the seed (seed, n); a tensor (N,)
    gives each row its own, so that a row draws the same numbers in any batch.
    """
    if tokens.dim() != 2 or tokens.shape[1] == 0:
        raise ValueError(f"the canvas must be (rows, length ≥ 1), got shape {tuple(tokens.shape)}")
    open = tokens == mask_id if open is None else open
    if open.shape != tokens.shape or open.dtype != torch.bool:
        raise ValueError(f"`open` must be bool of shape {tuple(tokens.shape)}, got {open.dtype} {tuple(open.shape)}")
    stuck = (~open.any(-1)).nonzero()
    if len(stuck):
        raise ValueError(f"row {int(stuck[0])}: every position is fixed, so there is nothing to generate")
    if bool((open & (tokens == pad_id)).any()):
        raise ValueError(f"row {int((open & (tokens == pad_id)).any(-1).nonzero()[0])}: padding cannot be open")
    n = len(tokens)
    rows = torch.arange(n, device=tokens.device)
    if not isinstance(seed, Tensor):
        seed = rows + (int(seed) % 2**31 << 32)
    return State(
        tokens=tokens,
        open=open,
        logp=torch.zeros(tokens.shape, dtype=dtype, device=tokens.device),
        score=torch.zeros(n, dtype=dtype, device=tokens.device) if score is None else score.to(dtype),
        seed=seed.long(),
        row=rows,
        step=torch.zeros_like(rows),
        mask_id=mask_id,
        pad_id=pad_id,
    )


def canvas(lengths: Tensor, mask_id: int, pad_id: int, width: int | None = None) -> Tensor:
    """All-mask canvases of the given lengths (N,), padded to the longest (or `width`): (N, L)."""
    if len(lengths) and int(lengths.min()) < 1:
        raise ValueError(
            f"row {int(lengths.argmin())}: a canvas needs a length of at least 1, got {int(lengths.min())}"
        )
    width = int(lengths.max()) if width is None else width
    inside = torch.arange(width, device=lengths.device) < lengths[:, None]
    return torch.where(inside, mask_id, pad_id)
