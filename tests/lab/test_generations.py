"""Clusters, curves and coefficients have the shapes they should."""

from __future__ import annotations

import numpy as np
import pytest

from anyorder.lab.figures import pareto
from anyorder.lab.generations import Watched, clusters, curve, describe, differences, monotone_share, vector
from anyorder.lab.tune import START, neighbours, order_text
from anyorder.traces.trace import Trace, TraceStep


def generation(order: list[int]) -> Watched:
    tokens = [f"▁w{i}" for i in range(len(order))]
    steps = [TraceStep(t, [i], [tokens[i]], [i], [-0.1]) for t, i in enumerate(order)]
    trace = Trace("test", [None] * len(order), steps, list(tokens), 0.0, 1, 1)
    return Watched(trace, "reference", [-1.0 * t for t in range(len(order))])


FORWARD, BACKWARD, OUTSIDE = list(range(12)), list(range(11, -1, -1)), [0, 11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6]


def test_an_order_is_a_vector_of_relative_positions() -> None:
    assert vector(FORWARD, 12) == pytest.approx(np.linspace(0, 1, 10))
    assert vector([2, 1, 0], 3, 5) == pytest.approx([1, 0.75, 0.5, 0.25, 0])


def test_clusters_find_the_kinds_of_orders_and_an_example_of_each() -> None:
    generations = [generation(FORWARD)] * 6 + [generation(BACKWARD)] * 3 + [generation([0])]
    found = clusters(generations, k=2)
    assert [c.name for c in found] == ["left-to-right", "right-to-left"]
    assert [c.share for c in found] == pytest.approx([6 / 9, 3 / 9])  # the one of a single position says nothing
    assert [c.example.order for c in found] == [FORWARD, BACKWARD]
    assert clusters([generation([0])]) == []


def test_shapes_have_names() -> None:
    inwards = np.array([0, 0.1, 0.95, 0.2, 0.85, 0.3, 0.7, 0.4, 0.6, 0.5])
    assert describe(inwards) == "outside-in"
    assert describe(inwards[::-1].copy()) == "inside-out"
    assert describe(np.full(10, 0.5)) == "mixed"


def test_monotone_share() -> None:
    assert monotone_share([generation(FORWARD)]) == 1
    assert monotone_share([generation(BACKWARD)]) == 0


def test_energy_is_compared_with_uniform_at_equal_moments() -> None:
    assert curve([2.0, 4.0], moments=5) == pytest.approx([0, 1, 2, 3, 4])
    apart = differences({"uniform": np.array([1.0, 2.0]), "easy-first": np.array([0.5, 3.0])})
    assert list(apart) == ["easy-first"] and apart["easy-first"] == pytest.approx([-0.5, 1.0])
    assert differences({"easy-first": np.zeros(2)}) == {}


def test_the_frontier_is_what_nothing_cheaper_beats() -> None:
    points = {"a": (1.0, 20.0), "b": (2.0, 19.0), "c": (3.0, 25.0), "d": (3.0, 24.0), "e": (9.0, 25.0)}
    assert pareto(points) == ["a", "c"]


def test_coefficients_as_text() -> None:
    assert order_text(START) == "negent + logp"
    assert order_text((1.0, 0.9, 0.0)) == "negent + 0.9*logp"
    assert all(any(alpha) for alpha in neighbours((1.0, 0.0, 0.0), 0))
