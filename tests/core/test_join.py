"""Rows that join a batch under way: the tokens and scores they have alone, to the last bit, with every recipe."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import Hashed, each_alone, joining, masks, sentences, written
from torch import Tensor

from anyorder.core import (
    Beam,
    Coordinates,
    Decoder,
    Insert,
    NoContext,
    Order,
    Searching,
    State,
    Symbols,
    View,
    beam,
    begin,
    decode,
    everywhere,
    fixed,
    last_slot,
    logp,
    negent,
    random,
    rightmost,
)
from anyorder.recipes import STRATEGIES, adaptive_gibbs, annealed, autoregressive, every, two_pass

LENGTHS = [6, 9, 1, 4, 12]
RECIPES = every(4, 3) | {
    "two passes": two_pass(STRATEGIES["easy-first"]),
    "two passes, any order": two_pass(STRATEGIES["uniform"]),
    "drawn, two at a time": Decoder(Coordinates(negent, fixed(2), temperature=0.7), Symbols(1.0)),
    "noise": Decoder(Coordinates(negent + 0.5 * random, fixed(2)), Symbols(1.0)),
    "masked conditionals": Decoder(Coordinates(negent + logp, fixed(2), everywhere, conditionals="masked"), steps=5),
    "adaptive Gibbs": adaptive_gibbs(9, temperature=0.5),
    "annealed, sampled": replace(annealed(5), symbols=Symbols(1.0)),
    "until the end": autoregressive(12, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("wait", [1, 3])
def test_a_row_that_joins_late_gives_what_it_gives_alone(name: str, wait: int) -> None:
    model, decoder = Hashed(causal=name == "until the end"), RECIPES[name]
    alone = list(each_alone(*sentences(model, LENGTHS)))
    late = joining(model, alone, decoder, wait)
    for (context, state), end in zip(alone, late, strict=True):
        one = decode(model, context, state, decoder)
        assert torch.equal(end.tokens[0, : one.tokens.shape[1]], one.tokens[0])
        assert (end.tokens[0, one.tokens.shape[1] :] == model.pad_id).all()
        assert torch.equal(end.score, one.score) and torch.equal(end.step, one.steps)


@pytest.mark.parametrize("name", ["annealed", "wino", "klass", "path-planning"])
def test_rows_may_begin_with_symbols_that_can_change(name: str) -> None:
    """A row whose canvas holds symbols already, beside rows with views and distributions kept from earlier steps."""
    model = Hashed()
    keys = torch.tensor([3, 4, 5])
    tokens = torch.tensor([[1, model.mask_id, 2, 3, 4, model.mask_id], [2, 2, 2, 2, 2, 2], [model.mask_id] * 6])
    alone = [
        (
            model.encode(keys[[r]]),
            begin(tokens[[r]], model.mask_id, model.pad_id, open=tokens[[r]] >= 0, seed=keys[[r]]),
        )
        for r in range(3)
    ]
    decoder = every(5, 2)[name]
    for (context, state), end in zip(alone, joining(model, alone, decoder), strict=True):
        one = decode(model, context, state, decoder)
        assert torch.equal(end.tokens, one.tokens) and torch.equal(end.score, one.score)


def test_insertions_of_different_ages() -> None:
    model = Hashed()
    tokens = torch.tensor([[0]])
    alone = [
        (model.encode(key[None]), begin(tokens, model.mask_id, model.pad_id, open=tokens >= 0, seed=key[None]))
        for key in torch.arange(11, 15)
    ]
    for c in (Coordinates(rightmost, among=last_slot), Coordinates(random, among=everywhere)):
        decoder = Decoder(c, edit=Insert(stop_id=6, longest=9))
        for (context, state), end in zip(alone, joining(model, alone, decoder), strict=True):
            one = decode(model, context, state, decoder)
            assert torch.equal(end.tokens[0, : one.tokens.shape[1]], one.tokens[0])
            assert torch.equal(end.score, one.score)


class Counting(Order):
    """Remembers how many positions a row has had, from 5 on, and goes right as long as that is even."""

    def __call__(self, state: State, view: View) -> Tensor:
        had = state.recall("had", torch.full_like(state.score, 5.0))
        return torch.where(had[:, None] % 2 == 0, 1.0, -1.0) * state.place

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        return {"had": state.recall("had", torch.full_like(state.score, 5.0)) + z.sum(-1)}


def test_a_row_remembers_from_its_own_first_step() -> None:
    model, decoder = Hashed(), Decoder(Coordinates(Counting()))
    alone = list(each_alone(*sentences(model, LENGTHS)))
    for (_, state), end in zip(alone, joining(model, alone, decoder), strict=True):
        assert float(end.memory["had"]) == 5 + state.tokens.shape[1]


def test_symbols_given_row_by_row_follow_their_rows() -> None:
    model = Hashed()
    alone = list(each_alone(*sentences(model, [4, 4, 4])))
    forced = torch.tensor([[0, 1, 2, 3], [4, 4, 4, 4], [6, 5, 4, 3]])
    ends = joining(model, alone, Decoder(Coordinates(negent), Symbols(forced=forced)))
    assert torch.equal(torch.cat([e.tokens for e in ends]), forced)


def test_a_joined_state_is_its_rows() -> None:
    model = Hashed()
    a, b = masks(model, 3, seed=1), written(model, torch.tensor([[1, 2, 3, 4, 5]] * 2), seed=2)
    both = a.join(b.but(step=b.step + 4))
    assert both.tokens.shape == (3, 5) and both.step.tolist() == [0, 4, 4]
    assert torch.equal(both.take(torch.tensor([0])).trim().tokens, a.tokens)
    assert torch.equal(both.take(torch.tensor([1, 2])).tokens, b.tokens) and torch.equal(both.seed[1:], b.seed)
    assert both.open.sum(-1).tolist() == [3, 5, 5] and NoContext().join(NoContext()) == NoContext()
    with pytest.raises(ValueError, match="cannot be joined"):
        a.join(b.but(budget=b.step + 1))


@pytest.mark.parametrize("K, K1", [(1, 2), (3, 1), (4, 2)])
@pytest.mark.parametrize("name", ["easy-first", "uniform", "two passes"])
def test_beams_that_join_late_find_what_they_find_alone(name: str, K: int, K1: int) -> None:
    model, decoder = Hashed(), RECIPES[name]
    alone = list(each_alone(*sentences(model, LENGTHS)))
    searching, queue, t = Searching(model, decoder, K, K1), list(enumerate(alone)), 0
    found: dict[int, Beam] = {}
    while queue or len(searching.rows):
        if queue and t % 2 == 0:
            row, (context, state) = queue.pop(0)
            searching.join(context, state, torch.tensor([row]))
        searching.step()
        ended, now = searching.done(), searching.found()
        for n in ended.nonzero()[:, 0].tolist():
            fields = (now.tokens, now.logp, now.score, now.path, now.symbol, now.gain)
            found[int(searching.rows[n])] = Beam(*(x[n : n + 1] for x in fields), now.cost)
        searching.only((~ended).nonzero()[:, 0])
        t += 1
    for row, (context, state) in enumerate(alone):
        one, late = beam(model, context, state, decoder, K, K1), found[row]
        width, steps = one.tokens.shape[-1], one.path.shape[-1]
        assert torch.equal(late.tokens[..., :width], one.tokens) and torch.equal(late.score, one.score)
        assert torch.equal(late.path[..., :steps], one.path) and (late.path[..., steps:] < 0).all()
        here = one.path >= 0
        assert torch.equal(late.symbol[..., :steps][here], one.symbol[here])
