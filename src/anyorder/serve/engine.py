"""The engine: one thread that owns the models. Each turn new jobs are prepared and one lane takes one step.

Lanes (rows with equal decoders) take turns, the one that waited longest first; at most `LANES` at a time, those with
the oldest requests. Nobody else ever waits for a step to end: jobs are handed over and answered through a future.

A batch that keeps keys and values is a crowd: to join it costs much the same for one as for several, and every row of
it makes a step longer for all. So newcomers wait until some can join at once, and not all who are here are written at a
time: of those who wait, the one that has to begin first so as to be done as soon as the others comes first. Who has
little to write waits longer than who has much, and the longest are done earlier than if all were written at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Hashable
from typing import Any

import torch

from anyorder.machine import Freed
from anyorder.serve.admission import Admission
from anyorder.serve.job import Ended, Job, Part
from anyorder.serve.lane import Lane, Owner
from anyorder.serve.limits import Limits
from anyorder.serve.metrics import Meters
from anyorder.serve.refusal import INTERNAL, Refusal, refusal

LANES = 8  # lanes that take turns; rows of further ones wait until one is empty
PREPARED = 16  # jobs prepared in one turn, so that rows being written do not wait for a crowd at the door
WRITTEN = 0.8  # of the texts here that keep keys and values: so many are written at a time, …
FEW = 8  # … or this many, where that is more
CROWD = 0.15  # of them: so many newcomers join at once, …
MOMENT = 0.2  # … or those that have waited for this many seconds
LATELY = 0.9  # of what a turn is said to take, what it took before
IDLE = 0.5  # seconds after which an idle engine looks around

log = logging.getLogger("anyorder.serve")


class Engine(Admission):
    """Lets requests in, and does their jobs."""

    def __init__(self, limits: Limits, meters: Meters, budget: int) -> None:
        super().__init__(limits, meters)
        self.budget = budget
        self._inbox: deque[Job] = deque()
        self._jobs: set[Job] = set()
        self._lanes: dict[Hashable, Lane] = {}
        self._turn = 0
        self._seconds = 0.01  # that a turn takes, lately
        self._thread = threading.Thread(target=self.run, name="model", daemon=True)

    def start(self) -> None:
        """Begin to work through what comes in."""
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

    def _hand(self, job: Job) -> None:
        with self._door:
            self._inbox.append(job)
            self._door.notify()

    # ------------------------------------------------------------------ on the model's thread

    def run(self) -> None:
        """Work until it is stopped."""
        freed = Freed()
        with torch.inference_mode():
            while not self._stopping:
                self._listen()
                with self._door:
                    new = self._newcomers(time.monotonic())
                if not new and not self._lanes:
                    freed.rest()
                    continue
                begun = time.monotonic()
                self._take_in(new)
                self._look_around()
                passes = sum(job.share for job in new if not job.task.parts)  # of those that no rows are written for
                passes += self._step() if self._lanes else 0
                took = time.monotonic() - begun
                self._seconds = LATELY * self._seconds + (1 - LATELY) * took
                self._pace.made(passes, took)
                freed.used()
                self._report()
        for job in [*self._jobs, *self._inbox]:
            self._refuse(job, Refusal(503, "the server has stopped", code="stopping", wait=5))
        self._report()

    def _listen(self) -> None:
        """Wait where there is nothing to do."""
        with self._door:
            if not self._inbox and not self._lanes:
                self._door.wait(IDLE)

    def _report(self) -> None:
        """After every turn; whoever is in this process knows already."""

    def _newcomers(self, now: float) -> list[Job]:
        """Those in the inbox whose turn it is."""
        waiting = [job for job in self._inbox if job.task.cached]
        new = [job for job in self._inbox if not job.task.cached] + self._invited(waiting, now)
        new = new[:PREPARED]
        for job in new:
            self._inbox.remove(job)
        return new

    def _invited(self, waiting: list[Job], now: float) -> list[Job]:
        """Those who join a crowd now, the most urgent first."""
        inside = sum(lane.rows + lane.waiting for lane in self._lanes.values() if lane.cached)
        asked = sum(job.ticket.sentences for job in waiting)
        here, late = inside + asked, {job for job in waiting if now - job.came >= MOMENT}
        room = max(FEW, round(WRITTEN * here)) - inside
        if not late and here > FEW and min(asked, room) < CROWD * here:
            return []
        new = []
        for job in sorted(waiting, key=lambda job: job.came - self._seconds * job.due / job.ticket.sentences):
            if room > 0 or job in late:
                new.append(job)
                room -= job.ticket.sentences
        return new

    def _take_in(self, new: list[Job]) -> None:
        self._jobs |= set(new)
        alike: dict[Hashable, list[Job]] = {}
        for job in new:
            if not self._late(job):
                alike.setdefault(job.task.alike, []).append(job)
        for jobs in alike.values():
            self._prepare(jobs)

    def _prepare(self, jobs: list[Job]) -> None:
        """Jobs that are alike are prepared together; if that fails each is alone, so that only its own fault counts."""
        first, *others = [job.task for job in jobs]
        try:
            first.prepare(others)
        except Exception as error:
            if not others:
                self._failed(jobs[0], error)
                return
            for job in jobs:
                job.task.parts.clear()
                self._prepare([job])
            return
        for job in jobs:
            job.left = sum(map(len, job.task.parts))
            job.share = job.due / max(1, job.left)
            for part in job.task.parts:
                self._lane(part).wait(job, part)
            if not job.left:
                self._finish(job)

    def _lane(self, part: Part) -> Lane:
        if part.key not in self._lanes:
            self._lanes[part.key] = Lane(part)
        return self._lanes[part.key]

    def _look_around(self) -> None:
        """Jobs that nobody waits for, or that took too long, are over: their rows leave."""
        if any([self._late(job) for job in list(self._jobs)]):
            for lane in self._lanes.values():
                lane.clear()
        self._sweep()

    def _late(self, job: Job) -> bool:
        if job.ticket.gone:
            self._refuse(job, Refusal(499, "the client has gone"))
        elif time.monotonic() > job.ticket.deadline:
            self.meters.refuse("deadline")
            self._refuse(job, Refusal(504, f"not done within {self.limits.deadline:g} seconds", wait=5))
        return job.over

    def _sweep(self) -> None:
        for key in [key for key, lane in self._lanes.items() if lane.empty]:
            del self._lanes[key]

    def _step(self) -> int:
        """One lane's turn: rows join, all take a step, those that are done leave. Returns how many hypotheses did."""
        eldest = sorted(self._lanes.items(), key=lambda item: item[1].oldest)[:LANES]
        key, lane = min(eldest, key=lambda item: item[1].turn)
        self._turn += 1
        lane.turn = self._turn
        now = time.monotonic()
        try:
            for job in lane.fill(self.budget):
                job.ticket.begun = job.ticket.begun or now
            rows, share = lane.rows, lane.batch.size / self.budget
            ended = lane.step() if rows else []
        except Exception as error:
            self._broken(key, lane, error)
            return 0
        waiting = sum(lane.waiting for lane in self._lanes.values())
        self.meters.stepped(rows, share, time.monotonic() - now, waiting)
        self._collect(ended)
        return rows * lane.part.beam

    def _collect(self, ended: list[tuple[Owner, Ended]]) -> None:
        for (job, part, place), where in ended:
            part.ended[place] = where
            job.left -= 1
            if not job.over:
                self._pace.due(-job.share)
                job.due -= job.share
                if not job.left:
                    self._finish(job)
        self._sweep()

    def _broken(self, key: Hashable, lane: Lane, error: Exception) -> None:
        """A step failed: whose fault is it? Each job in the batch goes on alone, and the one that fails again fails."""
        inside = lane.inside
        if len(inside) == 1:
            self._failed(inside[0], error)
            lane.clear()
            return
        log.warning("a step failed: its rows begin anew, each request alone", exc_info=error)
        for job, alone in lane.apart().items():
            self._lanes[key, job.number] = alone

    def _finish(self, job: Job) -> None:
        try:
            answer: Any = job.task.finish()
        except Exception as error:
            self._failed(job, error)
            return
        self._pace.due(-job.due)
        job.done.set_result(answer)
        self._jobs.discard(job)

    def _failed(self, job: Job, error: Exception) -> None:
        why = refusal(error)
        if why is None:
            log.error("a job failed", exc_info=error)
        self._refuse(job, why or Refusal(500, INTERNAL))

    def _refuse(self, job: Job, why: Refusal) -> None:
        if not job.over:
            self._pace.due(-job.due)
            job.done.set_exception(why)
        self._jobs.discard(job)
