"""Batches: every row once, under the budget, and as much for each core."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anyorder.text.batching import FEW, WINDOW, evenly, windows

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=300)


@given(SIZES, st.integers(60, 2000))
def test_large_batches_come_in_even_parts(sizes: list[int], budget: int) -> None:
    parts = evenly(sizes, budget)
    assert sorted(i for part in parts for i in part) == list(range(len(sizes)))
    assert all(len(part) == 1 or len(part) * max(sizes[i] for i in part) <= budget for part in parts)


def test_what_one_core_would_do_alone_is_divided() -> None:
    assert [len(part) for part in evenly([10] * 100, 10 * 70)] == [50, 50]
    assert [len(part) for part in evenly([10] * 100, 10 * 40)] == [25] * 4
    assert [len(part) for part in evenly([10] * FEW, 10 * 70)] == [FEW]


@given(st.lists(st.integers(1, 60), max_size=3 * WINDOW))
def test_windows_are_of_one_size(sizes: list[int]) -> None:
    found = [sum(map(len, window)) for window in windows(sizes)]
    assert sum(found) == len(sizes)
    assert all(n <= WINDOW for n in found)
    assert not found or max(found[:-1], default=found[0]) - found[0] == 0
