"""Gibbs chains on a known joint: what is stationary, what is not, and what the Metropolis correction repairs."""

from __future__ import annotations

import pytest
import torch
from support import histogram, masks, p_value, written
from torch import Tensor

from anyorder.core import (
    Coordinates,
    Decoder,
    Metropolis,
    NoContext,
    Order,
    State,
    Symbols,
    View,
    begin,
    chains,
    confidence,
    everywhere,
    fixed,
    leftmost,
    logp,
    margin,
    negent,
    position,
    sampler,
    stale,
)
from anyorder.models.policy import Policy
from anyorder.models.table import Table

N = 20_000


def stationary(table: Table, decoder: Decoder, steps: int = 12, seed: int = 0) -> float:
    """Chains that start at p: are they still at p after some steps?"""
    generator = torch.Generator().manual_seed(seed)
    start = table.sequences[torch.multinomial(table.p, N, replacement=True, generator=generator)]
    state = written(table, start, seed=seed + 1)
    tokens = chains(table, NoContext(), state, decoder, burn_in=steps - 1).tokens[0]
    assert not torch.equal(tokens, start)
    return p_value(histogram(table, tokens), table.p)


def test_uniform_coordinates_are_stationary_from_p_and_reach_it_from_nothing() -> None:
    table = Table(3, 3, seed=1, sharpness=1.0)
    assert stationary(table, sampler()) > 1e-4
    found = chains(table, NoContext(), masks(table, *[3] * N), sampler(), burn_in=49)
    assert p_value(histogram(table, found.tokens[0]), table.p) > 1e-4
    assert (found.acceptance == 1).all()


@pytest.mark.parametrize("order", [leftmost, position], ids=str)
def test_coordinates_that_do_not_look_need_no_correction(order: Order) -> None:
    assert stationary(Table(3, 3, seed=2), sampler(order, temperature=1.0)) > 1e-4


def test_a_prompt_stays_and_the_rest_is_its_conditional() -> None:
    table = Table(3, 3, seed=6, sharpness=1.0)
    canvas = torch.full((N, 3), table.mask_id)
    canvas[:, 1] = 2
    state = begin(canvas, table.mask_id, table.pad_id)
    tokens = chains(table, NoContext(), state, sampler(negent + logp, 1.0), burn_in=29).tokens[0]
    conditional = torch.where(table.sequences[:, 1] == 2, table.p, 0.0)
    assert p_value(histogram(table, tokens), conditional / conditional.sum()) > 1e-4


ADAPTIVE = [  # joints, orders and temperatures at which the uncorrected chain is visibly off
    (Table(3, 2, seed=1), negent, 0.3),
    (Table(3, 3, seed=2), logp, 1.0),
    (Table(2, 3, seed=3), negent + logp, 0.5),
    (Table(3, 3, seed=4), -negent - logp + 0.05 * position, 1.0),
    (Table(3, 2, seed=5), margin, 0.2),
]


@pytest.mark.parametrize(
    ("table", "order", "temperature"), ADAPTIVE, ids=lambda x: str(x) if isinstance(x, Order) else ""
)
def test_adaptive_coordinates_need_the_correction(table: Table, order: Order, temperature: float) -> None:
    assert stationary(table, sampler(order, temperature, correct=False)) < 1e-9
    assert stationary(table, sampler(order, temperature)) > 1e-4


def test_the_correction_holds_with_masked_conditionals_too() -> None:
    """A view kept from the step before must not bring its draws along."""
    table = Table(2, 3, seed=3)
    c = Coordinates(negent + logp, among=everywhere, temperature=0.5, conditionals="masked")
    draw = Symbols(temperature=1.0)
    assert stationary(table, Decoder(c, draw)) < 1e-9
    assert stationary(table, Decoder(c, draw, edit=Metropolis(c))) > 1e-4


def test_acceptance_counts_and_thinning() -> None:
    table = Table(3, 2, seed=1)
    state = written(table, table.sequences)
    one = chains(table, NoContext(), state, sampler(negent, 0.3), samples=3, burn_in=2, thin=2)
    every = chains(table, NoContext(), state, sampler(negent, 0.3), samples=8)
    assert torch.equal(one.tokens, every.tokens[[3, 5, 7]])
    assert (every.acceptance > 0).all() and (every.acceptance <= 1).all() and (every.acceptance < 1).any()
    # the first look, then a step is one pass to draw the symbol and one to judge the result
    assert (
        every.cost.forwards == 1 + 2 * 8 and chains(table, NoContext(), state, sampler(), samples=8).cost.forwards == 8
    )


class Peeking(Order):
    """Reads the symbols themselves, and does not say so."""

    def __call__(self, state: State, view: View) -> Tensor:
        return state.tokens.float()


def test_an_order_that_is_not_known_to_be_blind_is_corrected() -> None:
    table = Table(3, 3, seed=7)
    assert stationary(table, sampler(Peeking(), 1.0)) > 1e-4
    assert stationary(table, sampler(leftmost + 0.5 * Peeking(), 1.0)) > 1e-4
    assert stationary(table, sampler(Peeking(), 1.0, correct=False)) < 1e-9
    with pytest.raises(ValueError, match="temperature above 0"):
        sampler(Peeking())


class Looking(Order):
    """Remembers where it was, and stays near."""

    def __call__(self, state: State, view: View) -> Tensor:
        return -(state.place - state.recall("at", torch.zeros_like(state.score))[:, None]).abs()

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        return {"at": (state.place * z).sum(-1)}


def test_orders_that_remember_are_refused() -> None:
    for order in (Looking(), negent + Looking(), Policy(4, history=2), negent + Policy(4, history=2)):
        with pytest.raises(ValueError, match="depends on draws or on earlier steps"):
            sampler(order, 1.0)
        sampler(order, 1.0, correct=False)
    assert isinstance(sampler(Policy(4), 1.0).edit, Metropolis)
    with pytest.raises(ValueError, match=r"one coordinate a step, not fixed\(2\)"):
        Metropolis(Coordinates(negent, fixed(2), everywhere, temperature=1.0))


class Secretive(Order):
    """Reads something beside Y, and says nothing of it."""

    def __init__(self, what: str, reads: frozenset[str] = frozenset()) -> None:
        self.what, self.reads = what, reads

    def __call__(self, state: State, view: View) -> Tensor:
        values = {"past": state.logp, "score": state.score[:, None] * state.place, "draws": view.logp}
        return values[self.what] if self.what in values else view.token.float()


def test_orders_that_read_more_than_they_say_are_found_out() -> None:
    table = Table(3, 3, seed=7)
    state = masks(table, *[3] * 20)
    looks = frozenset({"entropy"})
    for order in (Secretive("past"), Secretive("score"), Secretive("draws", looks), Secretive("symbols", looks)):
        with pytest.raises(ValueError, match="reads draws or earlier steps without saying so"):
            chains(table, NoContext(), state, sampler(order, 1.0), samples=2)
        chains(table, NoContext(), state, sampler(order, 1.0, correct=False), samples=2)


def test_chains_from_nothing_are_at_p_from_their_first_sample() -> None:
    """A blank canvas is filled in any order, one symbol at a time: a draw from p, which the chain keeps."""
    table = Table(3, 3, seed=8)
    for decoder in (sampler(), sampler(negent + logp, 1.0)):
        tokens = chains(table, NoContext(), masks(table, *[3] * N), decoder).tokens[0]
        assert p_value(histogram(table, tokens), table.p) > 1e-4


def test_chains_that_cannot_be_exact_are_refused() -> None:
    with pytest.raises(ValueError, match="temperature above 0"):
        sampler(negent)
    for order in (confidence, negent + stale):
        with pytest.raises(ValueError, match="depends on draws"):
            sampler(order, 1.0)
    table = Table(2, 2)
    for bad in ({"samples": 0}, {"thin": 0}, {"burn_in": -1}):
        with pytest.raises(ValueError, match="of chains must be a whole number"):
            chains(table, NoContext(), masks(table, 2), sampler(), **bad)
