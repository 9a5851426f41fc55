"""The scheduler: one thread that owns the models. Each turn new work is prepared and one batch takes one step.

Rows with equal decoders share a batch; batches take turns. Clients share the time: the next step is for the client that
has had the least of it lately, so that neither many requests nor long ones of one client hold up the others.

In a batch that keeps keys and values, to join costs much the same for one row as for several, and every row makes a
step longer for all. So waiting requests join several at once, and at most a share of all that are here is written at a
time; the waiting request with the most work left starts first. That makes the slowest requests quicker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

import torch

from anyorder.machine import Freed
from anyorder.serve.admission import Admission
from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters
from anyorder.serve.refusal import INTERNAL, Refusal, refusal
from anyorder.serve.served import probes
from anyorder.serve.turns import Group, Scoring, Turns
from anyorder.serve.work import Queued
from anyorder.text.engine import Batch, Row, Rows
from anyorder.text.load import Model

PREPARED = 16  # requests prepared in one turn, so that rows under way do not wait for all that arrive
WRITTEN = 0.8  # share of the cached rows here that are written at a time, …
FEW = 8  # … or this many, where that is more
CROWD = 0.15  # share of them that join at once, …
MOMENT = 0.2  # … or those that have waited for this many seconds
LATELY = 0.9  # weight of earlier turns in the mean time of a turn
CALIBRATION, STEPS = 5.0, 3  # seconds at most in which steps are timed at the start, steps of each kind
IDLE = 0.5  # seconds after which an idle scheduler looks around
LARGE = 0.25  # of the token budget: a row that takes more is in a batch with its like, and holds up no small ones

log = logging.getLogger("anyorder.serve")


class Scheduler(Admission):
    """Lets requests in, and does their work."""

    def __init__(self, limits: Limits, meters: Meters, budget: int) -> None:
        super().__init__(limits, meters, budget)
        self._queue: deque[Queued] = deque()
        self._items: set[Queued] = set()  # prepared, and not answered
        self._groups: dict[Hashable, Group | Scoring] = {}
        self._turns = Turns()
        self.models: Mapping[str, Model] = {}  # whose steps are timed before the first request
        self._seconds = 0.01  # that a turn takes, lately
        self._thread = threading.Thread(target=self.run, name="model", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step that is being taken; what is left is refused."""
        with self._door:
            self._stopping = True
            self._door.notify()
        self._thread.join(timeout=30)

    @property
    def alive(self) -> bool:
        """Does the model's thread run?"""
        return self._thread.is_alive()

    def _hand(self, item: Queued) -> None:
        with self._door:
            self._queue.append(item)
            self._door.notify()

    # ------------------------------------------------------------------ on the model's thread

    def run(self) -> None:
        """Work until it is stopped."""
        freed = Freed()
        with torch.inference_mode():
            self._calibrate()
            while not self._stopping:
                self._listen()
                with self._door:
                    new = self._next(time.monotonic())
                if not new and not self._groups:
                    freed.rest()
                    continue
                begun = time.monotonic()
                self._take_in(new)
                self._look_around()
                if self._groups:
                    self._step()
                self._seconds = LATELY * self._seconds + (1 - LATELY) * (time.monotonic() - begun)
                freed.used()
                self._report()
        for item in [*self._items, *self._queue]:
            self._refuse(item, Refusal(503, "the server has stopped", code="stopping", wait=5))
        self._report()

    def _calibrate(self) -> None:
        """Time a few steps of every kind, so that the first request's size is judged, too."""
        begun = time.monotonic()
        for work in probes(self.models):
            if time.monotonic() - begun > CALIBRATION:
                break
            try:
                work.prepare([])
                batch = Batch(work.rows[0])
                batch.join([Row(rows, place) for rows in work.rows for place in range(len(rows))])
                for _ in range(STEPS):
                    now, size = time.monotonic(), batch.size
                    batch.step()
                    self.made(work.size.kind, size, time.monotonic() - now)
            except Exception as error:  # a model that cannot do this: its first requests are not judged
                log.info("steps were not timed", exc_info=error)

    def _listen(self) -> None:
        """Wait while there is nothing to do."""
        with self._door:
            if not self._queue and not self._groups:
                self._door.wait(IDLE)

    def _report(self) -> None:
        """After every turn; in this process everything is known already."""

    def _next(self, now: float) -> list[Queued]:
        """The work in the queue whose turn it is."""
        waiting = [item for item in self._queue if item.work.cached]
        new = [item for item in self._queue if not item.work.cached] + self._joining(waiting, now)
        new = new[:PREPARED]
        for item in new:
            self._queue.remove(item)
        return new

    def _joining(self, waiting: list[Queued], now: float) -> list[Queued]:
        """Waiting requests that join a batch of cached rows now, the most urgent first."""
        inside = sum(group.rows + group.waiting for group in self._groups.values() if group.cached)
        asked = sum(item.request.sentences for item in waiting)
        here, late = inside + asked, {item for item in waiting if now - item.came >= MOMENT}
        room = max(FEW, round(WRITTEN * here)) - inside
        if not late and here > FEW and min(asked, room) < CROWD * here:
            return []
        new = []
        for item in sorted(waiting, key=lambda item: item.came - self._seconds * item.work.size.steps):
            if room > 0 or item in late:
                new.append(item)
                room -= item.request.sentences
        return new

    def _take_in(self, new: list[Queued]) -> None:
        self._items |= set(new)
        alike: dict[Hashable, list[Queued]] = {}
        for item in new:
            if not self._late(item):
                alike.setdefault(item.work.alike, []).append(item)
        for items in alike.values():
            self._prepare(items)

    def _prepare(self, items: list[Queued]) -> None:
        """Work with one key is prepared together; if that fails each alone, so that only its own fault counts."""
        first, *others = [item.work for item in items]
        try:
            first.prepare(others)
        except Exception as error:
            if not others:
                self._failed(items[0], error)
                return
            for item in items:
                item.work.clear()
                self._prepare([item])
            return
        for item in items:
            item.total = item.left = sum(map(len, item.work.rows)) + len(item.work.items)
            for rows in item.work.rows:
                rows.owner = item
                self._group(rows).wait(item, rows, self._seconds_of(item))
            if item.work.items:
                scoring = self._groups.setdefault(("passes", item.work.alike), Scoring(item.work.size.kind))
                assert isinstance(scoring, Scoring)
                scoring.wait(item)
            if not item.left:
                self._finish(item)

    def _seconds_of(self, item: Queued) -> float:
        """Seconds that each row takes."""
        return self.expected(item.work.size) / max(1, item.total)

    def _group(self, rows: Rows) -> Group:
        key = rows.key, rows.width * rows.beam > LARGE * self.budget
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(rows)
        assert isinstance(group, Group)
        return group

    def _look_around(self) -> None:
        """Work whose client has left, or that took too long, is over: its rows leave."""
        if any([self._late(item) for item in list(self._items)]):
            for group in self._groups.values():
                group.clear()
        self._sweep()

    def _late(self, item: Queued) -> bool:
        if item.request.gone:
            self._refuse(item, Refusal(499, "the client has gone"))
        elif time.monotonic() > item.request.deadline:
            self.meters.refuse("deadline")
            self._refuse(item, Refusal(504, f"not done within {self.limits.deadline:g} seconds", wait=5))
        return item.over

    def _sweep(self) -> None:
        for key in [key for key, group in self._groups.items() if group.empty]:
            del self._groups[key]

    def _step(self) -> None:
        """One batch's turn: rows join, all take a step, those that are done leave."""
        key, group = self._turns.next(self._groups)
        now = time.monotonic()
        try:
            for item in group.fill(self.budget):
                item.request.begun = item.request.begun or now
            rows, size, shares = group.rows, group.size, group.shares
            ended = group.step() if rows else []
        except Exception as error:
            self._broken(key, group, error)
            return
        took = time.monotonic() - now
        self._turns.spent(shares, took)
        self.made(group.kind, size, took)
        waiting = sum(group.waiting for group in self._groups.values())
        self.meters.stepped(rows, min(1.0, size / self.budget), took, waiting)
        for item in ended:
            self._ended(item)
        self._sweep()

    def _ended(self, item: Queued) -> None:
        """A row has ended."""
        item.left -= 1
        if not item.over:
            item.share = item.left / item.total
            if not item.left:
                self._finish(item)

    def _broken(self, key: Hashable, group: Group | Scoring, error: Exception) -> None:
        """A step failed: of which request? Each in the batch goes on alone, and the one that fails again fails."""
        inside = group.inside
        if len(inside) == 1:
            self._failed(inside[0], error)
            group.clear()
            self._sweep()
            return
        log.warning("a step failed: its rows begin anew, each request alone", exc_info=error)
        for item, alone in group.separated().items():
            self._groups[key, item.number] = alone

    def _finish(self, item: Queued) -> None:
        try:
            answer: Any = item.work.finish()
        except Exception as error:
            self._failed(item, error)
            return
        item.done.set_result(answer)
        self._items.discard(item)

    def _failed(self, item: Queued, error: Exception) -> None:
        why = refusal(error)
        if why is None:
            log.error("a request failed", exc_info=error)
        self._refuse(item, why or Refusal(500, INTERNAL))

    def _refuse(self, item: Queued, why: Refusal) -> None:
        if not item.over:
            item.done.set_exception(why)
        self._items.discard(item)
