"""Parts of work on a crew of workers that may be slow to start, fail, or vanish: every part is done, or said why not.

A crew is local processes or Ray's actors; this is all that differs between them:

    hire()      a worker that begins to load what it needs
    give()      a part for a worker that is ready
    wait()      what has happened since
    dismiss()   a worker is not needed any more
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from anyorder.errors import AnyorderError, MissingError, ModelError, UsageError, first_line, no_memory

TRIES = 3  # of a part that fails
LOSSES = 5  # of a part whose worker vanishes: mostly that is not the part's fault
STRIKES = 5  # times that a place fails, one after the other, before it is left alone
WAIT = 1.0  # seconds


class Work(Protocol):
    """What a worker is told before it begins: `open` gives what does parts."""

    def open(self) -> Callable[[Any], Any]:
        """What does parts, made in the worker."""
        ...


@dataclass(frozen=True)
class Ready:
    """The worker has loaded what it needs."""

    place: str  # the machine it is on


@dataclass(frozen=True)
class Done:
    """A part is done."""

    result: Any


@dataclass(frozen=True)
class Failed:
    """A part was not done, or a worker could not start."""

    reason: str
    final: type[AnyorderError] | None = None  # wrong for every part: there is no use in going on
    place: bool = False  # not the part's fault, but the machine's: its disk is full, say


@dataclass(frozen=True)
class Lost:
    """The worker is gone."""

    reason: str


Event = Ready | Done | Failed | Lost


class CrewError(AnyorderError):
    """Nobody can work any more; says why."""


class Crew(Protocol):
    """Who works."""

    def size(self) -> int:
        """How many workers there should be now."""
        ...

    def hire(self) -> Any:
        """A new worker."""
        ...

    def give(self, worker: Any, part: Any) -> None:
        """Let a worker do a part."""
        ...

    def wait(self, seconds: float) -> list[tuple[Any, Event]]:
        """What has happened within some seconds: (worker, event)."""
        ...

    def dismiss(self, worker: Any) -> None:
        """End a worker."""
        ...


def attempt(do: Callable[[], Any]) -> Done | Failed:
    """What comes of doing something, as an event that can be sent; a user's mistake is final."""
    try:
        return Done(do())
    except (UsageError, ModelError, MissingError) as error:
        final = next(kind for kind in (UsageError, ModelError, MissingError) if isinstance(error, kind))
        return Failed(str(error), final)
    except AnyorderError as error:
        return Failed(str(error))
    except OSError as error:
        return Failed(f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}", place=True)
    except Exception as error:
        if no_memory(error):
            return Failed("there is not enough memory", place=True)
        return Failed(f"{type(error).__name__}: {first_line(error)}")


@dataclass
class _Part:
    part: Any
    failures: int = 0
    losses: int = 0
    avoid: set[str] = field(default_factory=set)  # places where it failed


@dataclass
class Shift:
    """One run of parts on a crew. `run` gives (part, Done or Failed) as they come."""

    crew: Crew
    queue: deque[_Part]
    starting: set[Any] = field(default_factory=set)
    places: dict[Any, str] = field(default_factory=dict)  # workers that are ready → where they are
    busy: dict[Any, _Part] = field(default_factory=dict)
    strikes: dict[str, int] = field(default_factory=dict)  # failures at a place since something was done there
    false_starts: int = 0  # since a worker was ready, or vanished
    last: str = ""  # why something failed last

    def run(self) -> Iterator[tuple[Any, Done | Failed]]:
        """Do all parts: each with what came of it, as they end."""
        try:
            while self.queue or self.busy:
                self._hire()
                for worker in [w for w in self.places if w not in self.busy]:
                    given = self._choose(self.places[worker])
                    if given is not None:
                        self.busy[worker] = given
                        self.crew.give(worker, given.part)
                self._someone_left()
                for worker, event in self.crew.wait(WAIT):
                    yield from self._heard(worker, event)
        finally:
            for worker in [*self.starting, *self.places]:
                self.crew.dismiss(worker)

    def _hire(self) -> None:
        wanted = min(self.crew.size(), len(self.queue) + len(self.busy))
        while len(self.starting) + len(self.places) < wanted and self.false_starts < STRIKES:
            self.starting.add(self.crew.hire())

    def _choose(self, place: str) -> _Part | None:
        """The first part for a worker there: one that failed at a place is first tried elsewhere."""
        if self._bad(place):
            return None
        others = set(self.places.values())
        for part in self.queue:
            if place not in part.avoid or not others - part.avoid:
                self.queue.remove(part)
                return part
        return None

    def _bad(self, place: str) -> bool:
        return self.strikes.get(place, 0) >= STRIKES

    def _someone_left(self) -> None:
        if (
            self.places
            and not self.busy
            and not self.starting
            and all(self._bad(place) for place in self.places.values())
        ):
            raise CrewError(f"nothing can be done any more: {self.last}")

    def _heard(self, worker: Any, event: Event) -> Iterator[tuple[Any, Done | Failed]]:
        if isinstance(event, Ready):
            self.starting.discard(worker)
            self.places[worker] = event.place
            self.false_starts = 0
            return
        part, place = self.busy.pop(worker, None), self.places.get(worker, "")
        if isinstance(event, Done):
            assert part is not None
            self.strikes[place] = 0
            yield part.part, event
            return
        self.last = event.reason
        if isinstance(event, Failed) and event.final is not None:
            raise event.final(event.reason)
        if part is None:
            self._false_start(worker, event.reason)
            return
        if isinstance(event, Lost):
            part.losses += 1
            del self.places[worker]
            self.crew.dismiss(worker)  # it may only be out of its mind, and hold on to its place
            self.false_starts = 0
        else:
            part.failures += 1
            part.avoid.add(place)
            self.strikes[place] = self.strikes.get(place, 0) + event.place
        if part.failures >= TRIES or part.losses >= LOSSES:
            yield part.part, Failed(event.reason)
        else:
            self.queue.append(part)

    def _false_start(self, worker: Any, reason: str) -> None:
        """A worker that did not get as far as work; too many in a row, and there is no use."""
        self.starting.discard(worker)
        self.places.pop(worker, None)
        self.crew.dismiss(worker)
        self.false_starts += 1
        if self.false_starts >= STRIKES and not self.places:
            raise CrewError(f"workers do not start: {reason}")


def run(crew: Crew, parts: Sequence[Any]) -> Iterator[tuple[Any, Done | Failed]]:
    """Every part with what came of it, as they come."""
    return Shift(crew, deque(map(_Part, parts))).run()
