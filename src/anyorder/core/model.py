"""What the engine asks of a model: p(y | Y, X) in two halves, hidden states and a vocabulary projection."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self, cast, runtime_checkable

from torch import Tensor

from anyorder.core.ragged import joined


class Context(Protocol):
    """What `Model.encode` keeps of the inputs X, one row a hypothesis."""

    def take(self, rows: Tensor) -> Self:
        """The context of hypotheses `rows` (M,) int64, repeats allowed."""
        ...

    def join(self, *others: Self) -> Self:
        """The context of these hypotheses, then of the others': rows of different inputs in one batch."""
        ...


def without(context: Any, rows: Tensor, own: bool = False) -> Any:
    """The context of hypotheses `rows` (M,), when all others have left: columns that only they had go with them.

    A context that has columns says how with `trim()`. One that is the caller's `own`, so that nobody will ask it for
    other rows any more, may have `only(rows)`, which copies no row that stays in its place.
    """
    kept = context.only(rows) if own and hasattr(context, "only") else context.take(rows)
    return kept.trim() if hasattr(kept, "trim") else kept


class Rows:
    """Base of dataclasses with one row a hypothesis: fields are tensors (N, …), contexts, or the same for all rows."""

    def take(self, rows: Tensor) -> Self:
        """These rows."""
        return self._with(
            {
                name: value[rows] if isinstance(value, Tensor) else value.take(rows)
                for name, value in self._fields()
                if hasattr(value, "take")
            }
        )

    def join(self, *others: Self) -> Self:
        """These rows, then the others'; tensors are as wide as the widest."""
        changes = {}
        for name, value in self._fields():
            each = [getattr(other, name) for other in others]
            if isinstance(value, Tensor):
                changes[name] = joined([value, *each])
            elif hasattr(value, "join") and hasattr(value, "take"):
                changes[name] = value.join(*each)
            elif any(other != value for other in each):
                raise ValueError(f"rows with different {name} ({value!r} and others) cannot share a batch")
        return self._with(changes)

    def _fields(self) -> list[tuple[str, Any]]:
        return [(f.name, getattr(self, f.name)) for f in fields(cast(Any, self))]

    def _with(self, changes: dict[str, Any]) -> Self:
        return replace(cast(Any, self), **changes) if changes else self


@dataclass(frozen=True)
class NoContext(Rows):
    """X = ∅, or a prompt that is already part of the canvas: any rows are the same."""


@runtime_checkable
class Model(Protocol):
    """A masked ("undirected") model, or a causal one that scores position i from the symbols before it.

    `tokens` is the canvas Y: `mask_id` where nothing is written yet, `pad_id` after a row's end. A result may
    depend on a row's own tokens and context only, never on other rows or on the amount of padding.
    A model may memoise inside its context (a key/value cache) as long as results do not change. One whose `hidden`
    is no hidden state that an order could read (a table) says so with an attribute `has_hidden = False`. One that
    can compute some positions for less than all has `hidden_at(context, tokens, n, i)` → (M, D), entries (n, i) sorted
    by row. One that knows distributions without giving their logits has
    `best(hidden, banned, never, now)`: `token`, the most probable symbol, its `logp`, `log_sum` = log Σ exp of the
    logits, and `entropy`, (M,) each, where logits of the symbols `banned` are `never`; and `current`, log p of the
    symbols `now` (M,) as if nothing were banned, unless that is None. It may say None: then logits are looked at.
    One that finds the most probable symbol alone for less has `likeliest(hidden, banned)`: the symbol and its logit,
    (M,) each, or None as before; it is asked where nobody reads log p.
    One that says how many symbols it knows, `vocabulary`, is asked so from its first pass on.
    """

    mask_id: int
    pad_id: int

    def encode(self, source: Any) -> Context:
        """Inputs → context, once per input; one row each."""
        ...

    def hidden(self, context: Any, tokens: Tensor) -> Tensor:
        """One forward pass: canvas (N, L) int64 → hidden states (N, L, D)."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """The vocabulary projection, only at the rows asked for: (M, D) → (M, V). The engine may overwrite it."""
        ...
