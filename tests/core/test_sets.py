"""log p of a set drawn without replacement: against sums over all orders, at any size and any ratio of weights."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from support import MASK, PAD

from anyorder.core import Coordinates, Feature, View, begin, constant, entropy_bound, factor, fixed, random, threshold
from anyorder.core import sets as sets_module
from anyorder.core.sets import log_p_set


def by_enumeration(w: list[float], chosen: tuple[int, ...]) -> float:
    """Σ over the orders of `chosen` of ∏ w_i / (what is left)."""
    total = 0.0
    for order in itertools.permutations(chosen):
        left, p = math.fsum(w), 1.0
        for i in order:
            p *= w[i] / left
            left = math.fsum([left, -w[i]])
        total += p
    return math.log(total)


@pytest.mark.parametrize("spread", [0.0, 1.0, 6.0])
def test_all_subsets_by_enumeration_and_they_sum_to_one(spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x = spread * torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    w = x.exp().tolist()
    for k in range(1, 7):
        chosen = list(itertools.combinations(range(7), k))
        z = torch.tensor([[i in c for i in range(7)] for c in chosen])
        found = log_p_set(x.expand(len(z), 7), z)
        assert float(found.exp().sum()) == pytest.approx(1.0, abs=1e-6)
        expected = torch.tensor([by_enumeration(w, c) for c in chosen], dtype=torch.float64)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
        monkeypatch.setattr(sets_module, "CHUNK", 500)
        assert torch.equal(log_p_set(x.expand(len(z), 7), z), found)  # whatever the chunks
        monkeypatch.undo()


@pytest.mark.parametrize(("n", "k"), [(3, 2), (40, 7), (40, 39), (120, 60), (1000, 3), (500, 400)])
def test_uniform_sets_of_any_size(n: int, k: int) -> None:
    z = torch.arange(n)[None] < k
    expected = math.lgamma(k + 1) + math.lgamma(n - k + 1) - math.lgamma(n + 1)
    assert float(log_p_set(torch.zeros(1, n), z)) == pytest.approx(expected, abs=1e-6)


def test_weights_of_any_ratio_and_certain_sets() -> None:
    z = torch.tensor([[True, True, False, False]])
    for low in (-50.0, -1e4, -1e38):
        sure = torch.tensor([[0.0, 1.0, low, low]])
        assert float(log_p_set(sure, z)) == pytest.approx(0.0, abs=1e-6)
        least = torch.tensor([[low, low, 0.0, 0.0]])  # two of the rest would come first, almost surely
        found = float(log_p_set(least, z))
        assert found == pytest.approx(2 * low, rel=1e-2) and found > -torch.inf
    everything = torch.tensor([[1.0, 2.0, -torch.inf, -torch.inf]])
    assert float(log_p_set(everything, z)) == 0.0  # all there are
    assert float(log_p_set(everything, z & False)) == 0.0
    assert float(log_p_set(everything, torch.tensor([[True, False, False, False]]))) == pytest.approx(
        1 - math.log(math.e + math.e**2)
    )


def test_rows_of_different_sizes_at_once() -> None:
    x = torch.randn(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    z = torch.arange(9) < torch.tensor([[0], [1], [2], [5], [8], [9]])
    each = torch.cat([log_p_set(x[[r]], z[[r]]) for r in range(6)])
    torch.testing.assert_close(log_p_set(x, z), each, atol=1e-9, rtol=0)


def test_uniform_pairs_of_three_are_a_third_each() -> None:
    state = begin(torch.full((50, 3), MASK), MASK, PAD, dtype=torch.float64)
    z, logz = Coordinates(random, fixed(2)).choose(state, View(state.tokens, state.logp))
    assert len({tuple(row) for row in z.tolist()}) == 3
    torch.testing.assert_close(logz.exp(), torch.full_like(logz, 1 / 3))


def test_counts_whose_number_hangs_on_the_draw_are_refused_and_sets_that_do_not_are_certain() -> None:
    flat = Feature("flat", lambda s, v: torch.zeros_like(s.logp))
    for count in (entropy_bound(0.1), factor(1.0)):
        with pytest.raises(ValueError, match="by the order in which they are drawn"):
            Coordinates(flat, count, temperature=1.0)
        Coordinates(flat, count)
    state = begin(torch.full((2, 4), MASK), MASK, PAD)
    logp = torch.tensor([[0.9, 0.8, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1]]).log()
    z, logz = Coordinates(flat, threshold(0.5), temperature=1.0).choose(state, View(state.tokens, logp))
    assert z.sum(-1).tolist() == [2, 1] and logz.exp().tolist() == pytest.approx([1.0, 0.25])
    z, logz = Coordinates(flat, constant(1), temperature=1.0).choose(state, View(state.tokens, logp))
    assert z.all() and logz.tolist() == [0.0, 0.0]
