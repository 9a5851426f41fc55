"""Verdicts follow from the numbers; clusters and curves have the shapes they should."""

from __future__ import annotations

import numpy as np
import pytest

from anyorder.lab.figures import pareto
from anyorder.lab.findings import (
    BEYOND,
    FAILS,
    HOLDS,
    LESS,
    MORE,
    OPEN,
    UNCLEAR,
    alike,
    by_about,
    greater,
    within,
)
from anyorder.lab.generations import Watched, clusters, curve, describe, differences, monotone_share, vector
from anyorder.lab.metrics import Difference
from anyorder.lab.tune import START, neighbours, order_text
from anyorder.traces.trace import Trace, TraceStep

SURE, UNSURE = 0.001, 0.3


@pytest.mark.parametrize(
    ("delta", "p", "verdict"), [(2, SURE, HOLDS), (-2, SURE, FAILS), (2, UNSURE, UNCLEAR), (-2, UNSURE, UNCLEAR)]
)
def test_better_must_be_significant(delta: float, p: float, verdict: str) -> None:
    assert greater(Difference(delta, p, delta - 1, delta + 1)) == verdict


@pytest.mark.parametrize(
    ("low", "high", "no_worse", "same"),
    [
        (-0.5, 0.5, HOLDS, HOLDS),
        (2, 3, HOLDS, FAILS),  # far better is "not worse", but not "the same"
        (-3, -2, FAILS, FAILS),
        (-2, 2, BEYOND, BEYOND),
        (-0.5, 2, HOLDS, BEYOND),
    ],
)
def test_no_difference_is_judged_by_the_interval(low: float, high: float, no_worse: str, same: str) -> None:
    found = Difference((low + high) / 2, 0.5, low, high)
    assert within(1.0)(found) == no_worse
    assert alike(1.0)(found) == same


@pytest.mark.parametrize(
    ("low", "high", "p", "verdict"),
    [
        (0.5, 1.6, SURE, HOLDS),
        (0.1, 0.7, SURE, LESS),  # better, but not by about 1
        (1.3, 2.5, SURE, MORE),
        (0.1, 2.5, SURE, OPEN),
        (-0.4, 1.6, UNSURE, UNCLEAR),
        (-1.6, -0.5, SURE, FAILS),
    ],
)
def test_by_about_one_is_tested_as_such(low: float, high: float, p: float, verdict: str) -> None:
    assert by_about(1.0)(Difference((low + high) / 2, p, low, high)) == verdict


def test_evidence_is_what_was_tested() -> None:
    found = Difference(-2.17, 0.001, -3.29, -0.97)
    assert greater.evidence(found).endswith("p = 0.001")
    assert within(1.0)(found) == BEYOND  # whatever the p of no difference at all is
    assert within(1.0).evidence(found) == "mean Δ = -2.17 BLEU, 95 % interval -3.29 … -0.97, asked: above -1.00"


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
