"""Generation orders as 10-dimensional vectors, clustered by k-means (Figure 1), with an example of each cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from anyorder.errors import extra
from anyorder.experiments.generations import Watched

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIMENSIONS = 10
CLUSTERS = 5
SHORTEST = 3  # an order of one or two positions says nothing


@dataclass(frozen=True, eq=False)
class Cluster:
    """Generations that went about it alike."""

    centre: NDArray[np.float64]  # (10,) relative position at each tenth of the generation
    share: float
    example: Watched

    @property
    def name(self) -> str:
        """Its shape in words."""
        return describe(self.centre)


def vector(order: Sequence[int], length: int, dimensions: int = DIMENSIONS) -> NDArray[np.float64]:
    """The selected position at each of `dimensions` moments, normalised to 0 … 1, interpolated where needed."""
    relative = np.asarray(order, dtype=np.float64) / max(1, length - 1)
    moments = np.linspace(0, len(relative) - 1, dimensions)
    return np.asarray(np.interp(moments, np.arange(len(relative)), relative))


def clusters(generations: Sequence[Watched], k: int = CLUSTERS, seed: int = 0) -> list[Cluster]:
    """k-means of the orders, largest cluster first; the example is the generation nearest to the centre."""
    with extra("report"):
        from sklearn.cluster import KMeans

    usable = [g for g in generations if len(g.order) >= SHORTEST]
    if not usable:
        return []
    data = np.stack([vector(g.order, len(g.trace.canvas)) for g in usable])
    k = min(k, len(np.unique(data.round(9), axis=0)))
    fit = KMeans(k, n_init=10, random_state=seed).fit(data)
    out = []
    for c in range(k):
        members = np.flatnonzero(fit.labels_ == c)
        distance = ((data[members] - fit.cluster_centers_[c]) ** 2).sum(1)
        nearest = int(members[int(distance.argmin())])
        out.append(Cluster(fit.cluster_centers_[c], len(members) / len(usable), usable[nearest]))
    return sorted(out, key=lambda cluster: -cluster.share)


def describe(centre: NDArray[np.float64]) -> str:
    """left-to-right, right-to-left, outside-in, inside-out, or mixed: by correlations with time."""
    time = np.arange(len(centre), dtype=np.float64)
    forward = _correlation(centre, time)
    towards_edges = _correlation(np.abs(centre - 0.5), time)
    if forward > 0.8:
        return "left-to-right"
    if forward < -0.8:
        return "right-to-left"
    if towards_edges < -0.6:
        return "outside-in"
    if towards_edges > 0.6:
        return "inside-out"
    return "mostly left-to-right" if forward > 0.4 else "mostly right-to-left" if forward < -0.4 else "mixed"


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if np.ptp(a) < 1e-9 or np.ptp(b) < 1e-9:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def monotone_share(generations: Sequence[Watched]) -> float:
    """How many of the steps go to the position right of the last one written: 1 is strictly left to right."""
    steps = [(a, b) for g in generations for a, b in zip(g.order, g.order[1:], strict=False)]
    return sum(b == a + 1 for a, b in steps) / max(1, len(steps))
