"""Beam search against brute force, and at width one against greedy decoding."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from support import Hashed, masks, sentences

from anyorder.core import (
    Coordinates,
    Decoder,
    NoContext,
    Symbols,
    Times,
    UntilEos,
    beam,
    begin,
    block,
    constant,
    decode,
    everywhere,
    fixed,
    leftmost,
    log_likelihood,
    negent,
    position,
    random,
)
from anyorder.models.table import Table
from anyorder.recipes import STRATEGIES, autoregressive, two_pass


def optimum(model: Hashed, length: int, with_z: bool, tau: float) -> dict[tuple[int, ...], float]:
    """max over Z of log p(G) (Eq. 6) for every Y, order φ = negent + position, by enumeration of all paths."""
    best: dict[tuple[int, ...], float] = {}

    def go(canvas: list[int], t: int, score: float) -> None:
        left = [i for i, v in enumerate(canvas) if v == model.mask_id]
        if not left:
            best[tuple(canvas)] = max(score, best.get(tuple(canvas), -1e9))
            return
        p = {i: model.log_p(canvas, i) for i in left}
        phi = torch.tensor(
            [float((p[i].exp() * p[i]).sum()) - float(torch.tensor(abs(t - i) + 1e-6).log()) for i in left]
        )
        logz = (phi.double() / tau).log_softmax(-1)
        for k, i in enumerate(left):
            for v in range(model.vocabulary):
                after = [v if j == i else x for j, x in enumerate(canvas)]
                go(after, t + 1, score + (float(logz[k]) if with_z else 0.0) + float(p[i][v]))

    go([model.mask_id] * length, 0, 0.0)
    return best


@pytest.mark.parametrize("with_z", [True, False])
@pytest.mark.parametrize("tau", [1.0, 3.0])
def test_wide_beam_is_brute_force_on_the_optimistic_objective(with_z: bool, tau: float) -> None:
    model, length = Hashed(3, sharpness=1.0), 3
    exact = optimum(model, length, with_z, tau)
    decoder = Decoder(Coordinates(negent + position, temperature=tau))
    state = masks(model, length, dtype=torch.float64)
    state = replace(state, score=state.score - 0.7)  # log p(L|X)
    found = beam(model, NoContext(), state, decoder, K=40, K1=3, K2=3, coordinate_score=with_z)
    tokens = [tuple(y) for y in found.tokens[0].tolist()]
    assert sorted(tokens[:27]) == sorted(exact)  # every Y once: duplicates are merged
    assert (found.score[0, 27:] == -torch.inf).all()  # and there is no other
    torch.testing.assert_close(found.score[0, :27] + 0.7, torch.tensor([exact[y] for y in tokens[:27]]).double())
    assert found.score[0].tolist() == sorted(found.score[0].tolist(), reverse=True)
    narrow = beam(model, NoContext(), state, decoder, K=1, K1=1, K2=1, coordinate_score=with_z)
    assert float(narrow.score) <= float(found.score[0, 0])


def test_one_position_a_step_keeps_only_symbols_apart() -> None:
    """K′ = 1 searches over symbols at the order's own positions: brute force over a fixed order."""
    model = Hashed(3, sharpness=1.0)
    found = beam(model, NoContext(), masks(model, 3, dtype=torch.float64), Decoder(Coordinates(leftmost)), K=27, K2=3)
    scores = {}
    for y in itertools.product(range(3), repeat=3):
        canvases = [[*y[:i], *[model.mask_id] * (3 - i)] for i in range(3)]
        scores[y] = sum(float(model.log_p(c, i)[y[i]]) for i, c in enumerate(canvases))
    expected = sorted(scores, key=lambda y: -scores[y])
    assert [tuple(y) for y in found.tokens[0].tolist()] == expected


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("twice", [False, True])
def test_width_one_is_greedy(name: str, twice: bool) -> None:
    decoder = two_pass(STRATEGIES[name]) if twice else STRATEGIES[name]
    for conditionals in ("visible", "masked"):
        d = replace(decoder, coordinates=replace(decoder.coordinates, conditionals=conditionals))
        model = Hashed()
        context, state = sentences(model, [5, 1, 8, 3])
        greedy, found = decode(model, context, state, d), beam(model, context, state, d, 1, 1, 1)
        assert torch.equal(found.tokens[:, 0], greedy.tokens)
        torch.testing.assert_close(found.score[:, 0], greedy.score)
        torch.testing.assert_close(found.logp[:, 0], greedy.logp)


def test_the_path_tells_how_each_hypothesis_was_written() -> None:
    model = Hashed(3)
    state = masks(model, 4, 2, dtype=torch.float64)
    found = beam(model, NoContext(), state, STRATEGIES["easy-first"], K=3, K1=2)
    for n, k in itertools.product(range(2), range(3)):
        tokens, total = state.tokens[n].clone(), 0.0
        for i, v, gain in zip(*(x[n, k].tolist() for x in (found.path, found.symbol, found.gain)), strict=True):
            if i < 0:
                continue
            assert gain == pytest.approx(float(model.log_p(tokens.tolist(), i)[v]))
            tokens[i], total = v, total + gain
        assert torch.equal(tokens, found.tokens[n, k]) and total == pytest.approx(float(found.score[n, k]))


def test_rows_do_not_mix_and_hypotheses_of_the_best_survive() -> None:
    model = Hashed()
    lengths = [6, 2, 9, 1]
    for name in ("easy-first", "uniform", "left2right"):
        context, state = sentences(model, lengths)
        together = beam(model, context, state, STRATEGIES[name], K=4, K1=3, K2=3)
        for r, length in enumerate(lengths):
            row = torch.tensor([r])
            alone = beam(
                model, context.take(row), masks(model, length, seed=state.seed[row]), STRATEGIES[name], 4, 3, 3
            )
            alive = together.score[r] > -torch.inf
            assert torch.equal(alone.tokens[0, alive], together.tokens[r, alive, :length])
            assert torch.equal(alone.score[0], together.score[r]) and alive.sum() == (3 if length == 1 else 4)
            assert (together.tokens[r, :, length:] == model.pad_id).all()


def test_a_causal_model_s_beam_ends_hypotheses_at_eos() -> None:
    """All sequences up to the longest, by enumeration; a finished hypothesis competes with unfinished ones."""
    model, eos, longest = Hashed(3, causal=True, sharpness=1.0), 2, 3
    exact: dict[tuple[int, ...], float] = {}

    def go(prefix: tuple[int, ...], score: float) -> None:
        if len(prefix) == longest or eos in prefix:
            exact[prefix] = score
            return
        p = model.log_p([*prefix, *[model.mask_id] * (longest - len(prefix))], len(prefix))
        for v in range(3):
            go((*prefix, v), score + float(p[v]))

    go((), 0.0)
    found = beam(
        model, NoContext(), masks(model, longest, dtype=torch.float64), autoregressive(longest, eos), K=20, K2=3
    )
    alive = found.score[0] > -torch.inf
    tokens = [tuple(v for v in row if v != model.pad_id) for row in found.tokens[0][alive].tolist()]
    assert tokens == sorted(exact, key=lambda y: -exact[y])
    torch.testing.assert_close(found.score[0][alive], torch.tensor([exact[y] for y in tokens]).double())
    penalised = beam(
        model, NoContext(), masks(model, longest, dtype=torch.float64), autoregressive(longest, eos),
        K=20, K2=3, length_penalty=1.0,
    )  # fmt: skip
    first = tuple(v for v in penalised.tokens[0, 0].tolist() if v != model.pad_id)
    assert first == max(exact, key=lambda y: exact[y] / len(y))
    state = begin(found.tokens[0, :1], model.mask_id, model.pad_id, open=found.tokens[0, :1] != model.pad_id)
    assert torch.isfinite(log_likelihood(model, NoContext(), state)).all()


def test_bans_allowed_sets_and_forced_symbols_bind_every_hypothesis() -> None:
    model = Hashed(5)
    context, state = sentences(model, [4, 4])
    allowed = torch.ones(2, 4, 6, dtype=torch.bool)
    allowed[0, 2] = torch.tensor([True, True, False, False, False, False])
    forced = torch.full((2, 4), -1)
    forced[1, 0], forced[1, 3] = 4, 0
    decoder = replace(STRATEGIES["easy-first"], symbols=Symbols(ban=(3,), allowed=allowed, forced=forced))
    found = beam(model, context, state, decoder, K=5, K1=2, K2=3)
    assert (found.score > -torch.inf).all()
    assert not (found.tokens == 3).any()
    assert (found.tokens[0, :, 2] <= 1).all() and (found.tokens[0, :, 2] != found.tokens[0, 0, 2]).any()
    assert (found.tokens[1, :, 0] == 4).all() and (found.tokens[1, :, 3] == 0).all()
    one = beam(model, context, state, decoder, 1, 1, 1)
    assert torch.equal(one.tokens[:, 0], decode(model, context, state, decoder).tokens)


def test_no_mask_is_left_where_the_region_may_write_again() -> None:
    model = Hashed()
    context, state = sentences(model, [6, 3])
    for d in (
        Decoder(Coordinates(random, among=everywhere), steps=Times(1)),
        Decoder(Coordinates(negent, among=everywhere), steps=9),
        Decoder(Coordinates(negent, among=block(2)), steps=9),
        Decoder(Coordinates(random, among=everywhere)),
    ):
        found = beam(model, context, state, d, K=3, K1=2)
        assert not (found.tokens[found.score > -torch.inf] == model.mask_id).any()
        assert (found.score[:, 0] > -torch.inf).all()
    with pytest.raises(ValueError, match="row 0: 6 masks, one written a step, do not fit into 4 steps"):
        beam(model, context, state, Decoder(Coordinates(leftmost), steps=4), K=2)


def test_more_hypotheses_than_exist_and_a_vocabulary_too_small() -> None:
    table = Table(2, 2, seed=1)
    found = beam(table, NoContext(), masks(table, 2), Decoder(Coordinates(leftmost)), K=6, K2=4)
    assert (found.score[0] > -torch.inf).sum() == 4  # <mask> and <pad> are no symbols
    with pytest.raises(ValueError, match="the 5 best symbols of a vocabulary of 4"):
        beam(table, NoContext(), masks(table, 2), Decoder(Coordinates(leftmost)), K=5, K2=5)
    found = beam(table, NoContext(), masks(table, 2), Decoder(Coordinates(leftmost)), K=5)  # by default all there are
    assert (found.score[0] > -torch.inf).sum() == 4
    for bad in ({"K": 0}, {"K": 2, "K1": 0}, {"K": 2, "K2": 0}):
        with pytest.raises(ValueError, match=r"K[12]? of a beam search must be"):
            beam(table, NoContext(), masks(table, 2), Decoder(Coordinates(leftmost)), **bad)
    for count in (fixed(2), constant(2)):
        with pytest.raises(ValueError, match="one position a step"):
            beam(table, NoContext(), masks(table, 2), Decoder(Coordinates(leftmost, count)), K=1)
    with pytest.raises(ValueError, match="by their scores"):
        beam(table, NoContext(), masks(table, 2), Decoder(Coordinates(leftmost), scored=False), K=2)


def test_merging_can_be_left_out() -> None:
    model = Hashed(2, sharpness=0.5)
    decoder = Decoder(Coordinates(negent, temperature=1.0))
    state = masks(model, 2, dtype=torch.float64)
    kept = beam(model, NoContext(), state, decoder, K=8, K1=2, K2=2, merge=False)
    assert sorted(map(tuple, kept.tokens[0].tolist())) == sorted([*itertools.product(range(2), repeat=2)] * 2)
    assert UntilEos(3, 1).propose(torch.tensor([5]), 2)[0].tolist() == [[3]]
