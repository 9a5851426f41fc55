"""Batches under way, decoded or searched, behind one face: rows join, step and leave by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from anyorder.core import Running, Searching, State, Step, done
from anyorder.serve.job import Ended, Part
from anyorder.text.batching import CACHED

Seen = Callable[[Step], None]


class Batch(Protocol):
    """Rows of equal decoders, known by numbers."""

    @property
    def rows(self) -> Tensor:
        """(n,) the numbers of the rows under way."""
        ...

    @property
    def size(self) -> int:
        """Tokens in the batch, with padding."""
        ...

    def join(self, context: Any, state: State, rows: Tensor) -> None:
        """Let rows in."""
        ...

    def step(self, seen: Seen) -> dict[int, Ended]:
        """One step of every row; those that are done leave, and are returned."""
        ...

    def only(self, rows: Tensor) -> None:
        """All but the rows at these places (m,) leave."""
        ...


class Decoded:
    """One hypothesis a row."""

    def __init__(self, part: Part) -> None:
        self.running, self.top = Running(part.model, part.decoder, part.cost), part.top
        self._early: dict[int, Ended] = {}  # rows that were done when they came

    @property
    def rows(self) -> Tensor:
        """The numbers of the rows inside."""
        return self.running.rows

    @property
    def size(self) -> int:
        """Tokens of a step."""
        return width(self.running.state, self.running.context) * len(self.rows)

    def join(self, context: Any, state: State, rows: Tensor) -> None:
        """Let rows in."""
        self.running.join(context, state, rows)
        inside = set(self.rows.tolist())
        self._early |= {r: _ended(state, n) for n, r in enumerate(rows.tolist()) if r not in inside}

    def step(self, seen: Seen) -> dict[int, Ended]:
        """One step of all rows; what ended with it, by row."""
        out, self._early = self._early, {}
        if not len(self.rows):
            return out
        taken = self.running.step(self.top)
        seen(taken)
        for n in done(self.running.decoder, taken.state).nonzero()[:, 0].tolist():
            out[int(taken.rows[n])] = _ended(taken.state, n)
        self.running.leave()
        return out

    def only(self, rows: Tensor) -> None:
        """Keep these rows, drop the others."""
        self.running.only(rows)


def _ended(state: State, n: int) -> Ended:
    end = int((state.tokens[n] != state.pad_id).sum())
    return Ended(state.tokens[n, None, :end], state.logp[n, None, :end], state.score[n, None])


class Searched:
    """K hypotheses a row, that compete among themselves."""

    def __init__(self, part: Part) -> None:
        self.searching = Searching(part.model, part.decoder, part.beam, part.positions, cost=part.cost)

    @property
    def rows(self) -> Tensor:
        """The numbers of the rows inside."""
        return self.searching.rows

    @property
    def size(self) -> int:
        """Tokens of a step."""
        return width(self.searching.state, self.searching.context) * len(self.rows) * self.searching.K

    def join(self, context: Any, state: State, rows: Tensor) -> None:
        """Let rows in."""
        self.searching.join(context, state, rows)

    def step(self, seen: Seen) -> dict[int, Ended]:
        """One step of all rows; what ended with it, by row."""
        self.searching.step()
        ended = self.searching.done()
        if not bool(ended.any()):
            return {}
        out = {}
        found, rows, state = self.searching.found(), self.searching.rows, self.searching.state
        assert state is not None
        for n in ended.nonzero()[:, 0].tolist():
            end = int(found.tokens[n, 0].ne(state.pad_id).sum())
            path = (found.path[n], found.symbol[n], found.gain[n])
            out[int(rows[n])] = Ended(found.tokens[n, :, :end], found.logp[n, :, :end], found.score[n], path)
        self.searching.only((~ended).nonzero()[:, 0])
        return out

    def only(self, rows: Tensor) -> None:
        """Keep these rows, drop the others."""
        self.searching.only(rows)


def open_batch(part: Part) -> Batch:
    """An empty batch for rows like a part's."""
    return Searched(part) if part.beam > 1 or part.positions > 1 else Decoded(part)


def width(state: State | None, context: Any) -> int:
    """Tokens of a row with its padding, its source's included; fewer count where one column is run at a step."""
    if state is None:
        return 0
    whole = state.tokens.shape[1] + int(getattr(context, "width", 0))
    return max(1, whole // CACHED) if getattr(context, "cached", False) else whole


def numbers(rows: list[int]) -> Tensor:
    """Row numbers as a tensor."""
    return torch.tensor(rows, dtype=torch.int64)
