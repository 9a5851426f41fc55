"""Energy over the steps of a generation (appendix): mean curves, and their difference from the uniform order's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from anyorder.experiments.generations import Watched

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOMENTS = 21  # of relative time, 0 … 1


def curve(energy: Sequence[float], moments: int = MOMENTS) -> NDArray[np.float64]:
    """The energy at evenly spaced moments of one generation; nothing is written at time 0, and that has energy 0."""
    known = np.concatenate([[0.0], np.asarray(energy, dtype=np.float64)])
    return np.asarray(np.interp(np.linspace(0, len(known) - 1, moments), np.arange(len(known)), known))


def mean_curve(generations: Sequence[Watched]) -> NDArray[np.float64]:
    """The average over generations."""
    return np.asarray(np.mean([curve(g.energy) for g in generations], axis=0))


def differences(curves: Mapping[str, NDArray[np.float64]], baseline: str = "uniform") -> dict[str, NDArray[np.float64]]:
    """Each curve minus that of the uniform order: below zero is likelier."""
    if baseline not in curves:
        return {}
    return {name: values - curves[baseline] for name, values in curves.items() if name != baseline}
