"""A lane: rows with equal decoders. Some wait, oldest first; the others are a batch that they join and leave."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import NamedTuple

from anyorder.core import Step
from anyorder.core.model import without
from anyorder.serve.batch import Batch, numbers, open_batch, width
from anyorder.serve.job import Ended, Job, Part

SHARE = 16  # rows of one job that come with its age; each further so many …
LATER = 0.1  # … wait as if the job had come this many seconds later, so that a long job lets short ones pass


class Owner(NamedTuple):
    """Whose a row is."""

    job: Job
    part: Part
    place: int  # in the part


@dataclass(order=True)
class _Waiting:
    age: float
    job: int
    turn: int  # rows of a job stay in their order
    owner: Owner = field(compare=False)


class Lane:
    """Rows whose parts have one key."""

    def __init__(self, part: Part) -> None:
        self.part = part  # one like all of them
        self.turn = 0  # when it last had one
        self.batch: Batch = open_batch(part)
        self.cached = bool(getattr(part.context, "cached", False))  # do its rows keep keys and values?
        self._copies = part.beam
        self._owners: dict[int, Owner] = {}  # of the rows in the batch, by number
        self._waiting: list[_Waiting] = []
        self._numbers, self._turns = itertools.count(), itertools.count()

    @property
    def rows(self) -> int:
        """Rows in the batch."""
        return len(self._owners)

    @property
    def waiting(self) -> int:
        """Rows that wait for room."""
        return len(self._waiting)

    @property
    def empty(self) -> bool:
        """Is nothing running or waiting?"""
        return not self._owners and not self._waiting

    @property
    def oldest(self) -> float:
        """When the oldest of its requests came."""
        return min([*(o.job.ticket.arrived for o in self._owners.values()), *(w.age for w in self._waiting[:1])])

    @property
    def inside(self) -> list[Job]:
        """The jobs with rows in the batch."""
        return list(dict.fromkeys(owner.job for owner in self._owners.values()))

    def wait(self, job: Job, part: Part) -> None:
        """The rows of a part queue up."""
        for place in range(len(part)):
            self._wait(Owner(job, part, place))

    def _wait(self, owner: Owner) -> None:
        age = owner.job.ticket.arrived + LATER * (owner.place // SHARE)
        heapq.heappush(self._waiting, _Waiting(age, owner.job.number, next(self._turns), owner))

    def clear(self) -> None:
        """Rows of jobs that are over leave, in the batch and before it."""
        if any(w.owner.job.over for w in self._waiting):
            self._waiting = [w for w in self._waiting if not w.owner.job.over]
            heapq.heapify(self._waiting)
        if any(owner.job.over for owner in self._owners.values()):
            self._owners = {n: owner for n, owner in self._owners.items() if not owner.job.over}
            here = self.batch.rows.tolist()
            self.batch.only(numbers([i for i, n in enumerate(here) if n in self._owners]))

    def fill(self, budget: int) -> list[Job]:
        """Waiting rows join, oldest first, while the batch has at most `budget` tokens with its padding; one at least.

        Returns the jobs whose rows came in.
        """
        chosen: list[Owner] = []
        rows = self.rows
        wide = self.batch.size // (rows * self._copies) if rows else 0
        while self._waiting:
            owner = self._waiting[0].owner
            wider = max(wide, width(owner.part.state, owner.part.context))
            if rows and wider * (rows + 1) * self._copies > budget:
                break
            wide, rows = wider, rows + 1
            chosen.append(owner)
            heapq.heappop(self._waiting)
        if chosen:
            self._join(chosen)
        return list(dict.fromkeys(owner.job for owner in chosen))

    def _join(self, owners: list[Owner]) -> None:
        """All of them at once: the rows that are under way are copied a single time."""
        contexts, states, known = [], [], []
        together: dict[tuple[int, int], list[Owner]] = {}  # those that were prepared together are taken together
        for owner in owners:
            together.setdefault((id(owner.part.context), id(owner.part.state)), []).append(owner)
        for some in together.values():
            part, at = some[0].part, [owner.part.at[owner.place] for owner in some]
            known += some
            whole = at == list(range(len(part.state.tokens)))
            contexts.append(part.context if whole else without(part.context, numbers(at)))
            states.append(part.state if whole else part.state.take(numbers(at)).trim())
        rows = [next(self._numbers) for _ in known]
        self._owners |= dict(zip(rows, known, strict=True))
        context, state = (some[0].join(*some[1:]) if len(some) > 1 else some[0] for some in (contexts, states))
        self.batch.join(context, state, numbers(rows))

    def step(self) -> list[tuple[Owner, Ended]]:
        """One step of every row in the batch; those that are done leave, and are returned."""
        return [(self._owners.pop(number), ended) for number, ended in self.batch.step(self._tell).items()]

    def _tell(self, taken: Step) -> None:
        """Listeners hear of the steps of their rows."""
        for n, number in enumerate(taken.rows.tolist()):
            part, place = self._owners[number][1:]
            if part.listener is not None:
                t = int(taken.before.step[n])
                if t == part.heard.get(place, 0):  # a row that began anew repeats itself
                    part.heard[place] = t + 1
                    part.listener(part.rows[place], taken, n)

    def apart(self) -> dict[Job, Lane]:
        """After a step failed: a lane for each job with rows in the batch, so that only the one that fails is lost.

        Rows begin anew: what a row gives depends on nothing but itself.
        """
        out = {job: Lane(self.part) for job in self.inside}
        for owner in self._owners.values():
            out[owner.job]._wait(owner)
        self._owners, self.batch = {}, open_batch(self.part)
        return out
