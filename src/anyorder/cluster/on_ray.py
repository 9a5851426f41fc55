"""A crew of Ray's actors, on as many machines as the cluster has; what vanishes with one is done by the others."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from anyorder.cluster.crew import Event, Failed, Lost, Ready, Work, attempt
from anyorder.errors import AnyorderError, extra, first_line

LOCAL = "local"
TOKEN = " (where one is, it may ask for a token, as Ray's do since 2.59: set RAY_AUTH_MODE=token here, as on its nodes)"


class RayError(AnyorderError):
    """A cluster that can not be used; says why."""


class _Actor:
    """A worker: loads what it needs when it is asked whether it is ready."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.do: Callable[[Any], Any] | None = None

    def ready(self) -> Ready | Failed:
        import ray

        opened = attempt(self.work.open)
        if isinstance(opened, Failed):
            return opened
        self.do = opened.result
        return Ready(str(ray.get_runtime_context().get_node_id()))

    def run(self, part: Any) -> Event:
        assert self.do is not None
        return attempt(partial(self.do, part))


class Actors:
    """As many actors as asked for; else one a GPU, or where there are none one a CPU, of the cluster as it is now."""

    def __init__(self, work: Work, count: int | None = None) -> None:
        self.ray, self.count = _ray(), count
        ray = self.ray
        self.gpus = 1 if ray.cluster_resources().get("GPU", 0) >= 1 else 0
        self._actor = ray.remote(num_cpus=0 if self.gpus else 1, num_gpus=self.gpus, max_restarts=0)(_Actor)
        self._work = ray.put(work)
        self._asked: dict[Any, Any] = {}  # what an actor was asked → the actor

    def size(self) -> int:
        """Machines come and go: the actors follow."""
        resources = self.ray.cluster_resources()
        return self.count or max(1, int(resources.get("GPU" if self.gpus else "CPU", 1)))

    def hire(self) -> Any:
        """A new worker."""
        actor = self._actor.remote(self._work)
        self._asked[actor.ready.remote()] = actor
        return actor

    def give(self, worker: Any, part: Any) -> None:
        """Let a worker do a part."""
        self._asked[worker.run.remote(part)] = worker

    def wait(self, seconds: float) -> list[tuple[Any, Event]]:
        """What has happened within some seconds: (worker, event)."""
        if not self._asked:
            time.sleep(seconds)
            return []
        found, _ = self.ray.wait(list(self._asked), num_returns=1, timeout=seconds)
        out: list[tuple[Any, Event]] = []
        for asked in found:
            actor = self._asked.pop(asked)
            try:
                event = self.ray.get(asked)
            except self.ray.exceptions.RayError as error:
                event = Lost(_gist(error))
            out.append((actor, event))
        return out

    def dismiss(self, worker: Any) -> None:
        """End a worker."""
        self._asked = {asked: actor for asked, actor in self._asked.items() if actor is not worker}
        with contextlib.suppress(Exception):  # it may be gone already
            self.ray.kill(worker)


def _ray() -> Any:
    with extra("cluster"):
        import ray

    return ray


def _gist(error: Exception) -> str:
    """What Ray has to say of a worker that is gone: the last line, which is the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no reason is known'}"


@contextmanager
def cluster(address: str) -> Iterator[None]:
    """A connection to a Ray cluster: `local` is one of this machine alone, which ends with us."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # keeps a cluster of one machine on loopback
    ray = _ray()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    try:
        if address == LOCAL:
            ray.init(address=LOCAL, include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        token = "" if address == LOCAL or os.environ.get("RAY_AUTH_MODE") else TOKEN
        raise RayError(f"there is no Ray cluster at {address}: {first_line(error)}{token}") from None
    try:
        yield
    finally:
        ray.shutdown()
