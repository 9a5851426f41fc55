"""Counts on arrays small enough to work out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import MASK, PAD, ROWS, blank, tidy
from torch import Tensor

from anyorder.core import (
    Count,
    State,
    View,
    anneal,
    begin,
    chance,
    constant,
    entropy_bound,
    even,
    factor,
    fixed,
    kl_stable,
    threshold,
    whole,
)
from anyorder.core.count import Ranked


def take(
    count: Count, state: State, *, p: list[list[float]] | None = None, h: list[list[float]] | None = None
) -> Tensor:
    """z, ranked by p (or by −h), among the masked positions."""
    value = torch.tensor(
        p if p is not None else h if h is not None else [[0.0] * state.tokens.shape[1]] * len(state.tokens)
    )
    view = View(state.tokens, value.log() if p is not None else state.logp, entropy=value if h is not None else None)
    key = (-value if h is not None else value).masked_fill(~state.masked, -torch.inf)
    rank = key.argsort(dim=-1, descending=True, stable=True)
    return count(state, view, Ranked(state.masked, rank, state.length)).int()


def test_threshold_takes_all_that_are_sure_and_the_best_where_none_is() -> None:
    state = blank("____", "____")
    p = [[0.95, 0.2, 0.9, 0.89], [0.1, 0.4, 0.3, 0.2]]
    assert take(threshold(0.9), state, p=p).tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]]
    assert take(threshold(0.0), state, p=p).sum() == 8


def test_factor() -> None:
    """Sorted confidences .95 .9 .8 .5: (n+1)(1−c) = .1 .3 .8 2.5."""
    p = [[0.8, 0.95, 0.5, 0.9]]
    for f, n in ((0.05, 1), (0.1, 1), (0.11, 1), (0.31, 2), (0.81, 3), (2.6, 4)):
        z = take(factor(f), blank("____"), p=p)
        assert int(z.sum()) == n and z[0, 1] == 1, f
    assert take(factor(1.0), blank("_x__"), p=p).tolist() == [[1, 0, 0, 1]]  # ranked: .9 .8 .5, n = 2


def test_entropy_bound() -> None:
    """Sorted entropies .1 .2 .4 1.0: ΣH − max = 0 .1 .3 .7."""
    h = [[0.4, 0.1, 1.0, 0.2]]
    for gamma, n in ((0.0, 1), (0.09, 1), (0.11, 2), (0.31, 3), (0.71, 4)):
        z = take(entropy_bound(gamma), blank("____"), h=h)
        assert int(z.sum()) == n and z[0, 1] == 1, gamma
    assert take(entropy_bound(0.61), blank("_.__"), h=h).tolist() == [[1, 0, 1, 1]]  # .2 .4 1.0: 0 .2 .6


def test_klass_waits_for_distributions_to_settle() -> None:
    state = blank("___")
    count = kl_stable(p=0.6, epsilon=0.01, history=2)

    def step(state: State, rows: list[list[float]]) -> tuple[State, list[int]]:
        full = torch.tensor([rows]).log()
        view = View(state.tokens, full.amax(-1), full=full)
        rank = view.logp.argsort(dim=-1, descending=True, stable=True)
        z = count(state, view, Ranked(state.masked, rank, state.length))
        return replace(state, memory=count.remember(state, view, z), step=state.step + 1), z[0].int().tolist()

    calm, moving, unsure = [0.7, 0.3], [0.9, 0.1], [0.5, 0.5]
    state, z = step(state, [calm, moving, unsure])
    assert z == [0, 1, 0]  # nothing to compare with: the surest
    state, z = step(state, [calm, [0.75, 0.25], unsure])
    assert z == [0, 1, 0]  # one comparison is not two
    state, z = step(state, [calm, [0.9, 0.1], unsure])
    assert z == [1, 0, 0]  # stable twice and sure enough; the surer one still moves, so it is not taken
    state, z = step(state, [[0.3, 0.7], [0.9, 0.1], unsure])
    assert z == [0, 1, 0]  # the first has moved, the second is calm only once: the surest


def test_klass_does_not_take_a_position_it_has_not_seen_for_a_stable_one() -> None:
    count = kl_stable(p=0.1, epsilon=0.5, history=1)
    full = torch.tensor([[[0.7, 0.3], [torch.nan, torch.nan]]]).log()
    state = blank("__")
    memory = count.remember(state, View(state.tokens, full.amax(-1), full=full), state.masked)
    seen = torch.tensor([[[0.7, 0.3], [0.2, 0.8]]]).log()
    view = View(state.tokens, seen.amax(-1), full=seen)
    z = count(
        replace(state, memory=memory, step=state.step + 1),
        view,
        Ranked(state.masked, torch.tensor([[1, 0]]), state.length),
    )
    assert z.int().tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("count", "length", "expected"),
    [
        (fixed(3), 7, [3, 3, 1]),
        (constant(3), 7, [3, 3, 1]),
        (constant(10), 4, [1, 1, 1, 1]),
        (constant(5), 6, [2, 2, 2]),  # ⌈6/5⌉ = 2
        (even(3), 7, [3, 2, 2]),
        (even(3), 8, [3, 3, 2]),
        (even(4), 3, [1, 1, 1]),
        (even(5), 6, [2, 1, 1, 1, 1]),
        (whole, 5, [5]),
    ],
    ids=lambda x: x.name if isinstance(x, Count) else None,
)
def test_how_many_step_by_step(count: Count, length: int, expected: list[int]) -> None:
    state, found = blank("_" * length), []
    while state.masked.any():
        z = take(count, state).bool()
        found.append(int(z.sum()))
        state = replace(state, tokens=torch.where(z, 1, state.tokens), step=state.step + 1)
    assert found == expected


def test_anneal_goes_from_all_to_one() -> None:
    state = blank("_" * 7)
    assert [int(take(anneal(4), replace(state, step=state.step + t)).sum()) for t in range(4)] == [7, 5, 3, 1]
    state = blank("_" * 3)
    assert [int(take(anneal(5), replace(state, step=state.step + t)).sum()) for t in range(5)] == [3, 2, 1, 1, 1]


def test_chance_may_take_none_and_takes_its_share() -> None:
    state = begin(torch.full((4000, 5), MASK), MASK, PAD)
    none, some = take(chance("never", lambda s: 0.0), state), take(chance("some", lambda s: 0.3), state)
    assert none.sum() == 0 and take(chance("all", lambda s: 1.0), state).all()
    assert abs(float(some.float().mean()) - 0.3) < 4 * (0.21 / 20000) ** 0.5


@pytest.mark.parametrize("make", [fixed, constant, even, anneal], ids=lambda f: f.__name__)
def test_a_number_below_one_is_refused(make: object) -> None:
    for bad in (0, -1):
        with pytest.raises(ValueError, match=f"at least 1, got {bad}"):
            make(bad)  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"a probability, must be a number from 0 to 1, got 1\.5"):
        threshold(1.5)
    with pytest.raises(ValueError, match="at least 1"):
        kl_stable(0.9, 0.1, 0)


@given(ROWS, st.integers(1, 12), st.integers(0, 5))
def test_every_count_stays_in_its_region_and_makes_progress(rows: list[str], k: int, step: int) -> None:
    state = replace(blank(*tidy(rows)), step=min(step, k - 1))
    p = torch.rand(state.tokens.shape, generator=torch.Generator().manual_seed(k)).clamp(0.01, 0.99).tolist()
    for count in (fixed(k), constant(k), even(k), anneal(k), whole, threshold(0.8), factor(1.0)):
        z = take(count, state, p=p).bool()
        assert not (z & ~state.masked).any()
        assert (z.sum(-1) >= 1).all()
        if count.name.startswith("fixed"):
            assert torch.equal(z.sum(-1), state.masked.sum(-1).clamp_max(k))
