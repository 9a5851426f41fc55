"""Batches with the rows that wait for them, passes over texts, and whose turn it is: clients share the time."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anyorder.serve.work import Queued
from anyorder.text.engine import Batch, Row, Rows

SHARE = 16  # rows of one request that come with its age; each further so many …
LATER = 0.1  # … wait as if the request had come this many seconds later, so that a long request lets short ones pass
BATCHES = 8  # batches of one client that take turns: those with its oldest requests
SLICE = 4096  # tokens of texts that are passed through the model in one turn


@dataclass(order=True)
class _Waiting:
    age: float
    request: int
    turn: int  # rows of a request stay in their order
    row: Row = field(compare=False)


class Group:
    """A batch, and the rows that wait for room in it, oldest first."""

    def __init__(self, like: Rows) -> None:
        self.batch = Batch(like)
        self.turn = 0  # when it last had one
        self.cached = bool(getattr(like.context, "cached", False))  # do its rows keep keys and values?
        self.kind: Hashable = None
        self._waiting: dict[str, list[_Waiting]] = {}  # by client
        self._turns = itertools.count()

    @property
    def rows(self) -> int:
        """Rows in the batch."""
        return len(self.batch)

    @property
    def size(self) -> int:
        """Tokens of a step."""
        return self.batch.size

    @property
    def waiting(self) -> int:
        """Rows that wait for room."""
        return sum(map(len, self._waiting.values()))

    @property
    def empty(self) -> bool:
        """Is nothing running or waiting?"""
        return not len(self.batch) and not self._waiting

    @property
    def inside(self) -> list[Queued]:
        """The work with rows in the batch."""
        return list(dict.fromkeys(row.rows.owner for row in self.batch.inside.values()))

    def oldest(self, client: str) -> float:
        """When the oldest request of a client came."""
        here = [row.rows.owner.request for row in self.batch.inside.values()]
        ages: list[float] = [request.arrived for request in here if request.client == client]
        return min([*ages, *(one.age for one in self._waiting.get(client, ())[:1])])

    @property
    def shares(self) -> Counter[str]:
        """Rows of each client in the batch."""
        return Counter(row.rows.owner.request.client for row in self.batch.inside.values())

    @property
    def clients(self) -> set[str]:
        """Those with rows in the batch, or that wait."""
        return {*self.shares, *self._waiting}

    def wait(self, item: Queued, rows: Rows, seconds: float = 0.0) -> None:
        """Rows queue up; each is expected to take so many seconds."""
        self.kind = item.work.size.kind
        for place in range(len(rows)):
            self._wait(Row(rows, place), seconds)

    def _wait(self, row: Row, seconds: float = 0.0) -> None:
        item = row.rows.owner
        later = max(LATER * (row.place // SHARE), seconds * row.place)
        mine = self._waiting.setdefault(item.request.client, [])
        heapq.heappush(mine, _Waiting(item.request.arrived + later, item.number, next(self._turns), row))

    def clear(self) -> None:
        """Rows of work that is over leave, in the batch and before it."""
        for client, waiting in list(self._waiting.items()):
            left = [one for one in waiting if not one.row.rows.owner.over]
            heapq.heapify(left)
            self._waiting[client] = left
            if not left:
                del self._waiting[client]
        self.batch.drop(lambda row: bool(row.rows.owner.over))

    def fill(self, budget: int) -> list[Queued]:
        """Waiting rows join while the batch has at most `budget` tokens with its padding; one at least.

        The next is of the client with the fewest rows inside, its oldest. Returns the work whose rows came in.
        """
        chosen: list[Row] = []
        rows, copies = len(self.batch), self.batch.like.beam
        if not self._waiting:
            return []
        wide = self.batch.steps.width if rows else 0
        here = self.shares
        while self._waiting:
            client = min(self._waiting, key=lambda one: (here[one], self._waiting[one][0]))
            waiting = self._waiting[client]
            row = waiting[0].row
            wider = max(wide, row.rows.width)
            if rows and wider * (rows + 1) * copies > budget:
                break
            wide, rows = wider, rows + 1
            chosen.append(row)
            here[client] += 1
            heapq.heappop(waiting)
            if not waiting:
                del self._waiting[client]
        if chosen:
            self.batch.join(chosen)
        return list(dict.fromkeys(row.rows.owner for row in chosen))

    def step(self) -> list[Queued]:
        """One step of every row in the batch; the owners of those that ended."""
        return [row.rows.owner for row in self.batch.step()]

    def separated(self) -> dict[Queued, Group]:
        """After a step failed: a group for each request with rows in the batch, so that only one is lost.

        Rows begin anew: what a row gives depends on nothing but itself.
        """
        out = {item: Group(self.batch.like) for item in self.inside}
        for row in self.batch.inside.values():
            out[row.rows.owner].kind = self.kind
            out[row.rows.owner]._wait(row)
        self.batch = Batch(self.batch.like)
        return out


class Scoring:
    """Passes over texts that are there, a slice at a time; texts of several requests share a pass."""

    cached = False

    def __init__(self, kind: Hashable) -> None:
        self.kind, self.turn, self.size = kind, 0, 0
        self._waiting: dict[str, deque[tuple[Queued, int]]] = {}  # by client: work, and which of its items
        self._next: list[tuple[Queued, int]] = []

    @property
    def rows(self) -> int:
        """Texts in the next pass."""
        return len(self._next)

    @property
    def waiting(self) -> int:
        """Texts that wait for a later one."""
        return sum(map(len, self._waiting.values()))

    @property
    def empty(self) -> bool:
        """Is nothing left?"""
        return not self._next and not self._waiting

    @property
    def inside(self) -> list[Queued]:
        """The work with texts in the next pass."""
        return list(dict.fromkeys(item for item, _ in self._next))

    @property
    def shares(self) -> Counter[str]:
        """Texts of each client in the next pass."""
        return Counter(item.request.client for item, _ in self._next)

    @property
    def clients(self) -> set[str]:
        """Those with texts that wait."""
        return set(self._waiting)

    def oldest(self, client: str) -> float:
        """When the oldest request of a client came."""
        return min(item.request.arrived for item, _ in self._waiting[client])

    def wait(self, item: Queued) -> None:
        """The texts of some work queue up."""
        mine = self._waiting.setdefault(item.request.client, deque())
        mine.extend((item, n) for n in range(len(item.work.items)))

    def clear(self) -> None:
        """Texts of work that is over leave."""
        kept = {c: deque(one for one in some if not one[0].over) for c, some in self._waiting.items()}
        self._waiting = {client: some for client, some in kept.items() if some}
        self._next = [one for one in self._next if not one[0].over]

    def fill(self, budget: int) -> list[Queued]:
        """Texts for the next pass, of each client in turn."""
        self._next, self.size = [], 0
        while self._waiting and (not self._next or self.size < SLICE):
            client = next(iter(self._waiting))
            waiting = self._waiting.pop(client)
            item, n = waiting.popleft()
            self._next.append((item, n))
            self.size += item.work.items[n].tokens
            if waiting:
                self._waiting[client] = waiting  # behind the others
        return self.inside

    def step(self) -> list[Queued]:
        """Pass the texts through the model."""
        work: Any = self._next[0][0].work
        answers = work.answer([item.work.items[n].value for item, n in self._next])
        for (item, n), answer in zip(self._next, answers, strict=True):
            item.work.items[n].answer = answer
        ended, self._next = [item for item, _ in self._next], []
        return ended

    def separated(self) -> dict[Queued, Scoring]:
        """After a pass failed: each request by itself."""
        out = {item: Scoring(self.kind) for item in self.inside}
        for item, n in self._next:
            out[item]._waiting.setdefault(item.request.client, deque()).append((item, n))
        self._next = []
        return out


class Turns:
    """Whose turn it is: a batch of the client that has had the least time, those of one client in turn."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}  # seconds of the model, by clients with rows here
        self._turn = itertools.count(1)

    def next(self, groups: Mapping[Hashable, Group | Scoring]) -> tuple[Hashable, Group | Scoring]:
        """The batch that takes the next step."""
        clients = {key: group.clients for key, group in groups.items()}
        here = sorted(set().union(*clients.values()))
        least = min((self._spent[client] for client in here if client in self._spent), default=0.0)
        self._spent = {client: max(least, self._spent.get(client, 0.0)) for client in here}  # idle time earns nothing
        client = min(here, key=lambda one: self._spent[one])
        mine = [key for key, some in clients.items() if client in some]
        eldest = sorted(mine, key=lambda key: groups[key].oldest(client))[:BATCHES] if len(mine) > BATCHES else mine
        key = min(eldest, key=lambda key: groups[key].turn)
        groups[key].turn = next(self._turn)
        return key, groups[key]

    def spent(self, shares: Mapping[str, int], seconds: float) -> None:
        """A step took so long: clients have had that time, by their shares of the batch."""
        for client, rows in shares.items():
            self._spent[client] = self._spent.get(client, 0.0) + seconds * rows / sum(shares.values())
