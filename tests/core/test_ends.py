"""Generations end, and end written: orders that prefer nothing, numbers that are none, endgames, models' odd heads."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from support import Hashed, masks, sentences, written
from torch import Tensor

from anyorder import recipes
from anyorder.core import (
    Coordinates,
    Decoder,
    Feature,
    NoContext,
    Order,
    State,
    Symbols,
    Times,
    View,
    anneal,
    beam,
    begin,
    block,
    chains,
    chance,
    constant,
    decode,
    dilated,
    even,
    everywhere,
    fixed,
    leftmost,
    negent,
    random,
    sampler,
    unroll,
)
from anyorder.models.table import Table

never = Feature("never", lambda s, v: torch.full_like(s.logp, -torch.inf))
always = Feature("always", lambda s, v: torch.full_like(s.logp, torch.inf))
few = Feature("few", lambda s, v: torch.where(s.place < 2, 0.0, -torch.inf))


@pytest.mark.parametrize("order", [never, always, few, negent + few], ids=str)
@pytest.mark.parametrize("temperature", [0.0, 1e-40, 1e-320, 1.0])
def test_candidates_come_first_whatever_the_order_says(order: Order, temperature: float) -> None:
    model = Hashed()
    context, state = sentences(model, [5, 3])
    for count in (fixed(1), fixed(2), even(2)):
        decoder = Decoder(Coordinates(order, count, temperature=temperature))
        result = decode(model, context, state, decoder)
        assert not (result.tokens == model.mask_id).any() and torch.isfinite(result.score).all()
    found = beam(model, context, state, Decoder(Coordinates(order, temperature=temperature)), 3)
    assert not (found.tokens == model.mask_id).any() and torch.isfinite(found.score[:, 0]).all()


def test_a_tiny_temperature_is_the_best_position() -> None:
    model = Hashed()
    context, state = sentences(model, [6, 4])
    cold, best = (decode(model, context, state, Decoder(Coordinates(negent, temperature=t))) for t in (1e-40, 0.0))
    assert torch.equal(cold.tokens, best.tokens) and torch.allclose(cold.score, best.score)


def test_an_order_that_is_no_number_names_row_position_and_feature() -> None:
    model = Hashed()
    context, state = sentences(model, [4, 4])
    hole = Feature("hole", lambda s, v: torch.where((s.place == 2) & (s.row[:, None] == 1), torch.nan, 0.0))
    for decoder in (Decoder(Coordinates(negent + hole)), Decoder(Coordinates(hole, temperature=1.0))):
        for run in (decode, lambda *a: beam(*a, K=2)):
            with pytest.raises(ValueError, match=r"row 1, position 2, step 0: the order's hole is not a number"):
                run(model, context, state, decoder)
    with pytest.raises(ValueError, match=r"the order's always - always is not a number"):
        decode(model, context, state, Decoder(Coordinates(always - always)))


def test_a_step_that_changes_nothing_and_spends_nothing_is_an_error() -> None:
    model = Hashed()
    context, state = sentences(model, [4, 4])
    idle = Decoder(Coordinates(random, chance("never", lambda s: 0.0)))
    with pytest.raises(ValueError, match=r"row 0, step 0: the step changed nothing.*give it `steps`"):
        decode(model, context, state, idle)
    assert not (decode(model, context, state, replace(idle, steps=3)).tokens == model.mask_id).any()


def settings() -> Iterator[tuple[str, Callable[[Any], Decoder], set[Any]]]:
    """Everything that takes a number: its name, how a decoder is made of it, and the odd ones it may have."""
    counts = {"fixed": fixed, "constant": constant, "even": even, "anneal": anneal}
    for name, count in counts.items():
        yield name, lambda v, count=count: Decoder(Coordinates(leftmost, count(v), everywhere), steps=3), set()
    for name, region in {"block": block, "dilated": dilated}.items():
        yield name, lambda v, region=region: Decoder(Coordinates(leftmost, among=region(v))), set()
    given = {"T": 3, "k": 2, "p": 0.5, "f": 1.0, "gamma": 0.1, "epsilon": 0.1, "eta": 0.5, "draft": 0.5, "keep": 0.9}
    fractions = {"p", "f", "gamma", "epsilon", "eta", "draft", "keep", "temperature"}
    for name, family in recipes.FAMILIES.items():
        parameters = [p.name for p in inspect.signature(family).parameters.values() if p.name in {*given, *fractions}]
        needed = [p.name for p in inspect.signature(family).parameters.values() if p.default is p.empty]
        for one in [*parameters, *({"size", "history"} & {*inspect.signature(family).parameters})]:
            rest = {n: given[n] for n in needed if n != one}
            odd: set[Any] = {0, 1.5, 2.5, 1e-320} if one in fractions else {None}
            odd |= {-1, -0.5} if one in ("f", "gamma") else set()
            yield f"{name}'s {one}", lambda v, f=family, one=one, rest=rest: f(**rest, **{one: v}), odd
    yield "steps", lambda v: Decoder(Coordinates(leftmost), steps=v), {None}
    yield "Times", lambda v: Decoder(Coordinates(leftmost), steps=Times(v)), set()
    warm = {0, 1.5, 2.5, 1e-320}
    yield "τ", lambda v: Decoder(Coordinates(leftmost, temperature=v)), warm
    yield "noise", lambda v: Decoder(Coordinates(leftmost + v * random)), {*warm, -1, -0.5, True}
    yield "temperature", lambda v: Decoder(Coordinates(leftmost), Symbols(v)), warm
    yield "top_k", lambda v: Decoder(Coordinates(leftmost), Symbols(1.0, top_k=v)), {None}
    yield "top_p", lambda v: Decoder(Coordinates(leftmost), Symbols(1.0, top_p=v)), {None, 1e-320}


ODD = (0, 0.0, -0.0, -1, -0.5, 1.5, 2.5, 1e-320, math.nan, math.inf, -math.inf, True, None, "3")


@pytest.mark.parametrize(("name", "make", "may"), list(settings()), ids=lambda x: x if isinstance(x, str) else "")
def test_a_setting_that_is_no_proper_number_is_refused_and_any_other_leaves_no_mask(
    name: str, make: Callable[[Any], Decoder], may: set[Any]
) -> None:
    model = Hashed()
    context, state = sentences(model, [5, 3])
    for value in ODD:
        try:
            decoder = make(value)
        except (ValueError, TypeError) as error:
            assert isinstance(error, ValueError) or name == "noise", (value, error)
            continue
        assert value in may and (value is not True or name == "noise"), f"{name} took {value!r}"
        end = decode(model, context, state, decoder)
        assert not (end.tokens == model.mask_id).any() and not end.score.isnan().any(), value
    assert not (decode(model, context, state, make(1)).tokens == model.mask_id).any()


def test_chains_from_a_blank_canvas_are_written() -> None:
    table = Table(4, 3, seed=1)
    found = chains(table, NoContext(), masks(table, *[4] * 16), sampler(), samples=2)
    assert not (found.tokens == table.mask_id).any()
    assert found.cost.forwards == 4 + 2
    mixed = begin(
        torch.tensor([[table.mask_id] * 4, [0, 1, 2, 0]]), table.mask_id, table.pad_id, open=torch.ones(2, 4) > 0
    )
    both = chains(table, NoContext(), mixed, sampler(), samples=3).tokens
    alone = chains(table, NoContext(), mixed.take(torch.tensor([1])), sampler(), samples=3).tokens
    assert torch.equal(both[:, 1], alone[:, 0])


# ---------------------------------------------------------------- one endgame


@pytest.mark.parametrize("T", [6, 7, 9, 14])
def test_greedy_and_a_beam_of_one_end_alike(T: int) -> None:
    """Among all positions with a number of steps: once every step left is needed for a mask, masks come first."""
    model = Hashed()
    context, state = sentences(model, [6, 4, 1])
    for order in (negent, leftmost, random):
        decoder = Decoder(Coordinates(order, among=everywhere), steps=T)
        greedy, search = decode(model, context, state, decoder), beam(model, context, state, decoder, 1, merge=False)
        assert torch.equal(greedy.tokens, search.tokens[:, 0])
        torch.testing.assert_close(greedy.score, search.score[:, 0])
        for s in unroll(model, context, state, decoder):
            assert (s.z.sum(-1) == 1).all()  # none is left to be written with others at the end


def test_what_has_to_be_written_is_certain() -> None:
    model = Hashed()
    context, state = sentences(model, [7, 2])
    for among in (Coordinates(random), Coordinates(random, among=everywhere)):
        *_, last = unroll(model, context, state, Decoder(among, steps=3))
        assert last.z[0].sum() == 5 and float(last.logz[0]) == 0.0


def test_an_empty_batch() -> None:
    model = Hashed()
    context, state = sentences(model, [4])
    none = torch.zeros(0, dtype=torch.int64)
    for steps in (None, 6):
        decoder = Decoder(Coordinates(negent), steps=steps)
        assert decode(model, context.take(none), state.take(none), decoder).tokens.shape == (0, 4)
        found = beam(model, context.take(none), state.take(none), decoder, 3)
        assert found.tokens.shape == (0, 3, 4) and found.path.shape == (0, 3, 0)


# ---------------------------------------------------------------- odd heads


class Headless(Hashed):
    """A head without <mask>, as some models have it."""

    def logits(self, hidden: Tensor) -> Tensor:
        return super().logits(hidden)[:, : self.vocabulary]


def test_a_head_that_leaves_the_mask_out() -> None:
    plain, headless = Hashed(), Headless()
    for name in ("easy-first", "least2most", "hard-first"):
        result = decode(headless, NoContext(), masks(headless, 5, 3), recipes.STRATEGIES[name])
        assert (result.tokens[result.tokens != plain.pad_id] < plain.vocabulary).all()
    same = decode(plain, NoContext(), masks(plain, 5, 3), recipes.easy_first)
    assert not torch.isnan(same.score).any()


# ---------------------------------------------------------------- memory


class Turns(Order):
    """Remembers a number of its own, and adds to it what it is told."""

    def __init__(self, more: float) -> None:
        self.more = more

    def __call__(self, state: State, view: View) -> Tensor:
        return state.recall("turns", torch.zeros_like(state.score))[:, None] * state.place

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        return {"turns": state.recall("turns", torch.zeros_like(state.score)) + self.more}


def test_terms_that_remember_have_drawers_of_their_own() -> None:
    model = Hashed()
    a, b = Turns(1.0), Turns(-3.0)
    *_, last = unroll(model, NoContext(), masks(model, 4), Decoder(Coordinates(leftmost + a + b)))
    assert sorted(float(v) for v in last.state.memory.values()) == [-12.0, 4.0]
    once = [s.z.tolist() for s in unroll(model, NoContext(), masks(model, 5), Decoder(Coordinates(a + leftmost + b)))]
    assert once == [
        s.z.tolist() for s in unroll(model, NoContext(), masks(model, 5), Decoder(Coordinates(b + leftmost + a)))
    ]


def test_a_score_counts_what_was_written() -> None:
    """A rejected proposal adds nothing."""
    table = Table(3, 3, seed=1)
    state = written(table, table.sequences)
    total, rejected = torch.zeros_like(state.score), 0
    for s in unroll(table, NoContext(), state, recipes.adaptive_gibbs(6, negent, temperature=0.2)):
        total += s.logz + torch.where(s.written, s.view.logp, 0.0).sum(-1)
        stayed = (s.before.tokens == s.state.tokens).all(-1) & (s.z & (s.view.token != s.before.tokens)).any(-1)
        assert not (s.written & stayed[:, None]).any()
        rejected += int(stayed.sum())
        torch.testing.assert_close(s.state.score, total)
    assert rejected > 10
