"""Sets, joined rows and both conditionals against exact probabilities."""

from __future__ import annotations

import itertools

import pytest
import torch
from support import Hashed, Key, histogram, masks, p_value

from anyorder.core import (
    Coordinates,
    Decoder,
    NoContext,
    Running,
    Symbols,
    View,
    begin,
    constant,
    decode,
    everywhere,
    fixed,
    logp,
    negent,
    unroll,
)
from anyorder.core.look import Conditionals
from anyorder.models.table import Table
from anyorder.recipes import uniform

N = 20_000
DRAW = Symbols(temperature=1.0)


@pytest.mark.parametrize("k", [2, 3])
def test_sets_come_as_often_as_log_p_says(k: int) -> None:
    """Every set of k of 5 positions, by its log p(z): chi-square, and a control that must be rejected."""
    model = Hashed(3)
    state = begin(torch.full((N, 5), model.mask_id), model.mask_id, model.pad_id, dtype=torch.float64)
    c = Coordinates(negent + 0.3 * logp, fixed(k), temperature=0.8)
    taken = next(unroll(model, model.encode(torch.zeros(N, dtype=torch.int64)), state, Decoder(c)))
    code = (taken.z.long() << torch.arange(5)).sum(-1)
    sets = [sum(1 << i for i in s) for s in itertools.combinations(range(5), k)]
    counts = torch.tensor([int((code == s).sum()) for s in sets])
    p = torch.stack([taken.logz[(code == s).nonzero()[0, 0]].exp() for s in sets])
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-6)
    assert p_value(counts, p) > 1e-4
    assert p_value(counts, torch.full_like(p, 1 / len(p))) < 1e-9


@pytest.mark.parametrize("conditionals", ["visible", "masked"])
def test_both_conditionals_choose_as_often_as_they_say(conditionals: Conditionals) -> None:
    """A written canvas: visible, a position sees its own symbol; masked, it does not. Each by its own softmax."""
    model, y = Hashed(3), [2, 0, 1, 1]
    state = begin(torch.tensor([y] * N), model.mask_id, model.pad_id, open=torch.ones(N, 4) > 0, dtype=torch.float64)
    c = Coordinates(negent, among=everywhere, temperature=0.5, conditionals=conditionals)
    taken = next(unroll(model, NoContext(), state, Decoder(c, steps=1)))
    expected = {}
    for kind in ("visible", "masked"):
        h = []
        for i in range(4):
            seen = [model.mask_id if kind == "masked" and j == i else v for j, v in enumerate(y)]
            p = model.log_p(seen, i)
            h.append(float(-(p.exp() * p).sum()))
        expected[kind] = (-torch.tensor(h, dtype=torch.float64) / 0.5).softmax(0)
    counts = taken.z.sum(0)
    other = "masked" if conditionals == "visible" else "visible"
    assert p_value(counts, expected[conditionals]) > 1e-4 and p_value(counts, expected[other]) < 1e-9


@pytest.mark.parametrize("conditionals", ["visible", "masked"])
def test_rows_that_join_are_samples_of_the_joint(conditionals: Conditionals) -> None:
    """Half of the rows join when the others are half done; both halves are exact, in one batch."""
    table = Table(4, 2, seed=2)
    c = Coordinates(negent, temperature=1.0, conditionals=conditionals)
    running = Running(table, Decoder(c, DRAW))
    tokens = torch.zeros(2 * N, 4, dtype=torch.int64)
    first, second = masks(table, *[4] * N, seed=1), masks(table, *[4] * N, seed=2)
    running.join(NoContext(), first, torch.arange(N))
    for t in range(6):
        if t == 2:
            running.join(NoContext(), second, torch.arange(N, 2 * N))
            assert len(running.rows) == 2 * N
        taken = running.step()
        tokens[taken.rows] = taken.state.tokens
        running.leave()
    assert not len(running.rows)
    assert p_value(histogram(table, tokens[:N]), table.p) > 1e-4
    assert p_value(histogram(table, tokens[N:]), table.p) > 1e-4
    assert p_value(histogram(table, tokens[N:]), torch.full_like(table.p, 1 / table.p.numel())) < 1e-9  # a control
    alone = decode(table, NoContext(), second, Decoder(c, DRAW)).tokens
    assert torch.equal(tokens[N:], alone)


def test_several_at_a_time_have_the_probability_of_their_sets_along_the_path() -> None:
    """E[1/p(G)] is the number of paths: 6 pairs, then the rest, and 2 symbols per position."""
    model = Hashed(2, sharpness=0.7)
    many = begin(torch.full((N, 4), model.mask_id), model.mask_id, model.pad_id, dtype=torch.float64)
    decoder = Decoder(Coordinates(negent, constant(2), temperature=0.6), DRAW)
    inverse = (-decode(model, Key(torch.zeros(N, dtype=torch.int64)), many, decoder).score).exp()
    assert abs(inverse.mean() - 6 * 2**4) < 4 * inverse.std() / N**0.5


def test_uniform_pairs() -> None:
    """Three sets of two, each a third."""
    state = begin(torch.full((N, 3), 9), 9, 10, dtype=torch.float64)
    z, logz = Coordinates(uniform.coordinates.order, fixed(2)).choose(state, View(state.tokens, state.logp))
    torch.testing.assert_close(logz.exp(), torch.full_like(logz, 1 / 3))
    counts = torch.tensor([int((~z[:, i]).sum()) for i in range(3)])
    assert p_value(counts, torch.full((3,), 1 / 3)) > 1e-4
