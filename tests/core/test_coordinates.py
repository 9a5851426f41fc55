"""State, regions and the distribution of coordinates."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import MASK, PAD, ROWS, blank, masks, tidy

from anyorder.core import (
    Coordinates,
    Feature,
    Region,
    State,
    View,
    begin,
    block,
    canvas,
    chance,
    dilated,
    everywhere,
    fixed,
    leftmost,
    masked,
    position,
    random,
    revisit,
    rightmost,
)
from anyorder.core.coordinates import last_slot
from anyorder.core.state import merge
from anyorder.models.table import Table

N = 40_000


def view(state: State) -> View:
    return View(state.tokens, state.logp)


def phi(*values: float) -> Feature:
    return Feature("phi", lambda s, v: torch.tensor(values).expand(s.tokens.shape))


def fill(state: State, region: Region) -> list[list[int]]:
    """The positions of one row that a region offers, until nothing is masked."""
    out = []
    while state.masked.any():
        here = region.candidates(state)
        assert here.any() and not (here & ~state.masked).any()
        assert not (here & ~region.extent(state)).any()
        out.append(here[0].nonzero()[:, 0].tolist())
        state = replace(state, tokens=torch.where(here, 1, state.tokens))
    return out


def test_regions_by_hand() -> None:
    assert fill(blank("_____"), masked) == [[0, 1, 2, 3, 4]]
    assert fill(blank("_____"), block(2)) == [[0, 1], [2, 3], [4]]
    assert fill(blank("._.__._"), block(2)) == [[1, 3], [4, 6]]  # blocks are of open positions
    assert fill(blank("_" * 8), dilated(8)) == [[0, 4], [2, 6], [1, 3, 5, 7]]
    assert fill(blank("_" * 6), dilated(4)) == [[0, 2], [1, 3], [4], [5]]
    assert fill(blank("_" * 3), dilated(1)) == [[0], [1], [2]]
    assert fill(blank("_" * 6), dilated(6)) == [[0, 3], [1, 2, 4, 5]]
    state = blank("_x.x ")
    assert everywhere.candidates(state).int().tolist() == [[1, 1, 0, 1, 0]]
    assert revisit.candidates(state).int().tolist() == [[1, 0, 0, 0, 0]]
    assert revisit.candidates(blank("xx.x ")).int().tolist() == [[1, 1, 0, 1, 0]]
    assert last_slot.candidates(blank("xxx  ", "x.   ")).int().tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]
    assert block(2).extent(blank("x_x_")).int().tolist() == [[1, 1, 0, 0]]
    for bad in (block, dilated):
        with pytest.raises(ValueError, match="at least 1, got 0"):
            bad(0)


@given(ROWS, st.integers(1, 6))
def test_regions_offer_every_mask_once(rows: list[str], size: int) -> None:
    for row in tidy(rows):
        state = blank(row)
        for region in (masked, block(size), dilated(size), revisit):
            offered = [i for group in fill(state, region) for i in group]
            assert sorted(offered) == state.masked[0].nonzero()[:, 0].tolist()


@given(ROWS)
def test_a_state_s_rows_stand_for_themselves(rows: list[str]) -> None:
    state = blank(*tidy(rows))
    assert torch.equal(state.length, state.open.sum(-1))
    for r in range(len(rows)):
        one = state.take(torch.tensor([r])).trim()
        width = one.tokens.shape[1]
        assert torch.equal(one.tokens[0], state.tokens[r, :width]) and (state.tokens[r, width:] == PAD).all()
        assert width == 1 or one.tokens[0, -1] != PAD
        assert one.place[one.open].tolist() == list(range(int(one.length)))
        assert int(one.row) == r and int(one.seed) == int(state.seed[r])
    again = state.take(torch.arange(len(rows))).trim()
    assert torch.equal(again.tokens, state.trim().tokens)


def test_trim_keeps_what_is_remembered_of_positions_and_of_rows() -> None:
    state = blank("__  ", "_   ")
    view_ = View(state.tokens, state.logp, entropy=torch.ones(2, 4), hidden=torch.ones(2, 4, 3))
    state = replace(state, memory={"position:a": torch.ones(2, 4, 5), "b": torch.ones(2, 7)}, view=view_).trim()
    assert state.memory["position:a"].shape == (2, 2, 5) and state.memory["b"].shape == (2, 7)
    assert state.view is not None and state.view.hidden is not None and state.view.hidden.shape == (2, 2, 3)


def test_merge_takes_each_position_from_one_view() -> None:
    a = View(torch.tensor([[1, 2]]), torch.tensor([[-1.0, -2.0]]), full=torch.ones(1, 2, 3))
    b = View(torch.tensor([[3, 4]]), torch.tensor([[-3.0, -4.0]]), entropy=torch.ones(1, 2), full=torch.zeros(1, 2, 3))
    m = merge(torch.tensor([[True, False]]), a, b)
    assert m.token.tolist() == [[1, 4]] and m.entropy is None
    assert m.full is not None and m.full[:, :, 0].tolist() == [[1, 0]]


def test_canvases_and_their_seeds() -> None:
    tokens = canvas(torch.tensor([2, 3]), MASK, PAD)
    assert tokens.tolist() == [[MASK, MASK, PAD], [MASK] * 3]
    assert canvas(torch.tensor([1]), MASK, PAD, width=3).tolist() == [[MASK, PAD, PAD]]
    a, b = begin(tokens, MASK, PAD, seed=1), begin(tokens, MASK, PAD, seed=2)
    assert len({*a.seed.tolist(), *b.seed.tolist()}) == 4


# ---------------------------------------------------------------- p(z)


def test_a_set_has_the_probability_of_all_the_orders_it_can_be_drawn_in() -> None:
    values = (0.3, -1.0, 1.2, 0.0)
    state = begin(torch.full((N, 4), MASK), MASK, PAD, dtype=torch.float64)
    c = Coordinates(phi(*values), fixed(2), temperature=0.7)
    z, logz = c.choose(state, view(state))
    w = [torch.tensor(v / 0.7).double().exp() for v in values]

    def p(i: int, j: int) -> float:
        return float(w[i] / sum(w) * w[j] / (sum(w) - w[i]))

    assert sum(p(i, j) for i, j in itertools.permutations(range(4), 2)) == pytest.approx(1.0)
    for i, j in itertools.combinations(range(4), 2):
        here = (z[:, i] & z[:, j]).nonzero()[:, 0]
        expected = p(i, j) + p(j, i)
        assert abs(len(here) / N - expected) < 5 * (expected / N) ** 0.5
        torch.testing.assert_close(logz[here].exp(), torch.full_like(logz[here], expected), atol=1e-6, rtol=0)
    assert (z.sum(-1) == 2).all()


def test_the_best_are_certain_and_ties_go_left() -> None:
    state = blank("____ ", "_.___")
    for order, expected in (
        (phi(1.0, 3.0, 3.0, 0.0, 9.0), [[0, 1, 1, 0, 0], [0, 0, 1, 0, 1]]),
        (phi(0.0, 0.0, 0.0, 0.0, 0.0), [[1, 1, 0, 0, 0], [1, 0, 1, 0, 0]]),
        (leftmost, [[1, 1, 0, 0, 0], [1, 0, 1, 0, 0]]),
        (rightmost, [[0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]),
    ):
        z, logz = Coordinates(order, fixed(2)).choose(state, view(state))
        assert z.int().tolist() == expected and (logz == 0).all()


def test_random_alone_is_uniform_and_noise_with_a_weight_is_a_temperature() -> None:
    state = begin(torch.full((N, 3), MASK), MASK, PAD)
    z, logz = Coordinates(random).choose(state, view(state))
    assert (z.float().mean(0) - 1 / 3).abs().max() < 0.012
    torch.testing.assert_close(logz, torch.full((N,), 3.0).log().neg())
    f = phi(0.0, 1.0, 2.0)
    a, b = Coordinates(f + 0.5 * random), Coordinates(f, temperature=0.5)
    for x, y in zip(a.choose(state, view(state)), b.choose(state, view(state)), strict=True):
        assert torch.equal(x, y)
    with pytest.raises(ValueError, match="give one of the two"):
        Coordinates(f + random, temperature=1.0)
    with pytest.raises(ValueError, match="must be a number of at least 0"):
        Coordinates(f, temperature=-0.1)


def test_a_row_without_a_region_chooses_nothing_at_no_cost() -> None:
    state = begin(torch.tensor([[1, 1], [MASK, 1]]), MASK, PAD, open=torch.ones(2, 2, dtype=torch.bool))
    z, logz = Coordinates(phi(0.0, 1.0), temperature=1.0).choose(state, view(state))
    assert z.int().tolist() == [[0, 0], [1, 0]] and logz.tolist() == [0, 0]


def test_independent_chances_have_a_binomial_probability() -> None:
    state = begin(torch.full((50, 3), MASK), MASK, PAD, dtype=torch.float64)
    z, logz = Coordinates(random, chance("some", lambda s: 0.3)).choose(state, view(state))
    k = z.sum(-1)
    assert len(set(k.tolist())) > 1
    torch.testing.assert_close(logz.exp(), 0.3 ** k.double() * 0.7 ** (3 - k).double())
    certain = Coordinates(random, chance("all", lambda s: 1.0)).choose(state, view(state))
    assert (certain.logz == 0).all()


def test_phi_pos_prefers_the_step_s_own_position() -> None:
    state = replace(blank("____", "._._"), step=1)
    score = position(state, view(state))
    torch.testing.assert_close(score[0], -(torch.tensor([1.0, 0.0, 1.0, 2.0]) + 1e-6).log())
    assert score[1, 3] > score[1, 1]  # position 3 is the second open one
    assert torch.equal(position(replace(state, step=5), view(state))[0], score[0])  # T = 2L: over it again


def test_masks_helper_is_what_it_says() -> None:
    assert masks(Table(3, 2), 3, 1).length.tolist() == [3, 1]
