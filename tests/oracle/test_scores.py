"""Scores against their definitions on a known joint."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from support import Hashed, masks, written

from anyorder import recipes
from anyorder.core import (
    Coordinates,
    Cost,
    Decoder,
    Feature,
    NoContext,
    Order,
    Symbols,
    Times,
    begin,
    best,
    confidence,
    constant,
    decode,
    leftmost,
    log_likelihood,
    marginal,
    negent,
    pll,
    random,
    revisit,
    unroll,
)
from anyorder.core import look as look_module
from anyorder.errors import PlanError
from anyorder.models.table import Table
from anyorder.text.plan import Plan


def test_pll_by_definition_and_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(4, 3, seed=1, dtype=torch.float64)
    state = written(table, table.sequences, dtype=torch.float64)
    joint = table.p.view(3, 3, 3, 3)
    expected = sum((joint / joint.sum(axis, keepdim=True)).log() for axis in range(4)).flatten()
    cost = Cost()
    found = pll(table, NoContext(), state, cost)
    torch.testing.assert_close(found, expected)
    assert (cost.forwards, cost.canvases, cost.head_rows) == (1, 81 * 4, 81 * 4)
    monkeypatch.setattr(look_module, "CHUNK_TOKENS", 28)
    monkeypatch.setattr(look_module, "CHUNK_LOGITS", 20)
    monkeypatch.setattr(look_module, "CHUNK_ROWS", 1)
    assert torch.equal(pll(table, NoContext(), state), found)


def test_only_open_positions_are_scored() -> None:
    table = Table(3, 2, seed=2, dtype=torch.float64)
    open_ = torch.tensor([[True, False, True]]).expand(8, 3)
    state = begin(table.sequences, table.mask_id, table.pad_id, open=open_, dtype=torch.float64)
    joint = table.p.view(2, 2, 2)
    expected = ((joint / joint.sum(0, keepdim=True)).log() + (joint / joint.sum(2, keepdim=True)).log()).flatten()
    torch.testing.assert_close(pll(table, NoContext(), state), expected)


def test_a_causal_model_s_log_likelihood_is_one_pass_of_the_chain_rule() -> None:
    model = Hashed(4, causal=True)
    rows = torch.tensor([[0, 3, 2], [1, 1, model.pad_id]])
    cost = Cost()
    found = log_likelihood(model, NoContext(), written(model, rows, dtype=torch.float64), cost)
    for r, length in ((0, 3), (1, 2)):
        row = rows[r].tolist()
        whole = [
            model.logits(model.hidden(NoContext(), rows[r : r + 1])[0, i : i + 1])[0].double() for i in range(length)
        ]
        assert float(found[r]) == pytest.approx(sum(float(x.log_softmax(-1)[row[i]]) for i, x in enumerate(whole)))
    assert (cost.forwards, cost.head_rows) == (1, 5)


def test_the_path_score_of_one_at_a_time_is_the_joint_and_log_p_z() -> None:
    table = Table(4, 2, seed=3, dtype=torch.float64)
    state = masks(table, *[4] * 50, dtype=torch.float64)
    start = torch.full_like(state.score, -1.5)  # log p(L|X)
    result = decode(table, NoContext(), replace(state, score=start), Decoder(Coordinates(random), Symbols(1.0)))
    orders = torch.tensor(24.0, dtype=torch.float64).log()
    torch.testing.assert_close(result.score, -1.5 + table.p[table.index(result.tokens)].log() - orders)


@pytest.mark.parametrize("order", [negent, random, leftmost], ids=str)
def test_monte_carlo_marginal_is_p_on_a_consistent_model(order: object) -> None:
    """One at a time every path has the joint's probability, so even one sample is exact."""
    table = Table(3, 3, seed=4, dtype=torch.float64)
    state = written(table, table.sequences, dtype=torch.float64)
    decoder = Decoder(Coordinates(order))  # type: ignore[arg-type]
    torch.testing.assert_close(marginal(table, NoContext(), state, decoder, 2), table.p.log())


def test_monte_carlo_marginal_converges_to_the_sum_over_orders() -> None:
    """On an inconsistent model: p(Y) = Σ_Z p(Z)·∏ p(y | …), summed by enumeration of the orders."""
    model, y = Hashed(3, sharpness=1.0), [2, 0, 1]

    def p(canvas: list[int]) -> float:
        left = [i for i, v in enumerate(canvas) if v == model.mask_id]
        total = 0.0
        for i in left:
            after = [y[i] if j == i else v for j, v in enumerate(canvas)]
            total += float(model.log_p(canvas, i)[y[i]].exp()) * p(after) / len(left)
        return total if left else 1.0

    exact, n = p([model.mask_id] * 3), 4000
    state = written(model, torch.tensor([y] * n), dtype=torch.float64)

    def off(order: Order) -> float:
        """How far the mean of n estimates by one path each is from the truth, in standard errors."""
        each = marginal(model, NoContext(), state, Decoder(Coordinates(order)), 1).exp()
        return float(abs(each.mean() - exact) / each.std().clamp_min(1e-12) * n**0.5)

    assert off(random) < 4 and off(leftmost + 0.1 * random) > 10  # another distribution of Z is another p(Y)
    few = state.take(torch.tensor([0, 1]))
    many = marginal(model, NoContext(), few, Decoder(Coordinates(random)), n)
    assert many.exp().tolist() == pytest.approx([exact] * 2, rel=0.1)
    one = marginal(model, NoContext(), few, Decoder(Coordinates(random)), 1)
    assert float(one[0]) != float(one[1])  # each row has paths of its own


def test_marginal_keeps_each_row_s_own_constraints_and_refuses_orders_that_peek() -> None:
    table = Table(2, 3, seed=5, dtype=torch.float64)
    allowed = torch.ones(2, 2, 5, dtype=torch.bool)
    allowed[1, :, 0] = False
    rows = torch.tensor([[1, 2], [1, 2]])
    found = marginal(
        table, NoContext(), written(table, rows, dtype=torch.float64),
        Decoder(Coordinates(leftmost), Symbols(allowed=allowed)), 3,
    )  # fmt: skip
    joint = table.p.view(3, 3)
    free = joint[1, 2].log()
    bound = (joint[1].sum() / joint[1:].sum()).log() + (joint[1, 2] / joint[1, 1:].sum()).log()
    torch.testing.assert_close(found, torch.stack([free, bound]))
    with pytest.raises(ValueError, match="chosen by Y"):
        marginal(table, NoContext(), written(table, rows), Decoder(Coordinates(confidence)), 3)
    peeking = Feature("peeking", lambda s, v: v.logp, frozenset({"entropy"}))  # the same, without saying so
    with pytest.raises(ValueError, match="the order peeking reads draws"):
        marginal(table, NoContext(), written(table, rows), Decoder(Coordinates(peeking)), 3)
    with pytest.raises(ValueError, match="samples of a Monte Carlo estimate"):
        marginal(table, NoContext(), written(table, rows), Decoder(Coordinates(leftmost)), 0)


def test_marginal_refuses_decoders_that_write_a_position_twice() -> None:
    table = Table(3, 2, seed=5, dtype=torch.float64)
    state = written(table, table.sequences[:2], dtype=torch.float64)
    twice = (
        recipes.two_pass(recipes.easy_first), recipes.gibbs(6), recipes.annealed(3), recipes.wino(), recipes.remdm(3),
        recipes.path_planning(3), Decoder(Coordinates(leftmost), Symbols(may_mask=True)),
    )  # fmt: skip
    for decoder in twice:
        with pytest.raises(ValueError, match="write every position once"):
            marginal(table, NoContext(), state, decoder, 2)
    for decoder in (recipes.easy_first, recipes.constant_time(2), recipes.uniform):
        assert torch.isfinite(marginal(table, NoContext(), state, decoder, 2)).all()


def test_best_names_its_normalisation() -> None:
    scores, lengths = torch.tensor([[-4.0, -6.0, -9.0]]), torch.tensor([[2, 4, 5]])
    assert best(scores, lengths, normalise="sum").tolist() == [0]
    assert best(scores, lengths).tolist() == [1]  # −2, −1.5, −1.8
    assert best(scores, lengths, penalty=0.5).tolist() == [0]  # −2.83, −3, −4.02
    assert best(scores, lengths, penalty=2.0).tolist() == [2]  # −1, −0.375, −0.36


def test_scores_of_several_steps_at_once_count_every_written_symbol() -> None:
    table = Table(4, 2, seed=6, dtype=torch.float64)
    state = masks(table, 4, dtype=torch.float64)
    for decoder in (
        Decoder(Coordinates(negent, constant(2))),
        Decoder(Coordinates(leftmost, among=revisit), steps=Times(2)),
    ):
        total, last = 0.0, None
        for last in unroll(table, NoContext(), state, decoder):
            total += float(last.view.logp[last.z].sum())
        assert last is not None and float(last.state.score) == pytest.approx(total)


@pytest.mark.parametrize("drawn", [True, False])
def test_a_path_score_is_a_probability_or_is_not_given(drawn: bool) -> None:
    """Σ exp(score) over all paths is 1 where positions do not look at draws; where they do, there is no score."""
    table = Table(3, 2)
    names = ["confidence"] if drawn else ["uniform", "left2right", "easy-first"]
    for name in names:
        decoder = replace(recipes.STRATEGIES[name], symbols=Symbols(temperature=1.0))
        state = masks(table, *[3] * 4000, seed=1)
        paths: dict[tuple[Any, ...], float] = {}
        ways: list[list[Any]] = [[] for _ in range(4000)]
        for step in unroll(table, NoContext(), state, decoder):
            for n, row in enumerate(step.rows.tolist()):
                i = int(step.z[n].nonzero()[0, 0])
                ways[row].append((i, int(step.state.tokens[n, i])))
            last = step.state
        for way, score in zip(ways, last.score.tolist(), strict=True):
            paths[tuple(way)] = score
        total = sum(map(math.exp, paths.values()))
        assert math.isnan(total) if drawn else total == pytest.approx(1, abs=0.01), name


@pytest.mark.parametrize(
    "decoder",
    [recipes.llada(2, 2), recipes.fast_dllm(0.6, 3), recipes.fast_dllm_factor(1.0, 3), recipes.klass(), recipes.wino()],
)
def test_no_score_where_drawn_symbols_choose_their_positions(decoder: Decoder) -> None:
    table = Table(3, 2)
    greedy = decode(table, NoContext(), masks(table, 3), decoder)
    assert greedy.score.isfinite().all()
    drawn = decode(table, NoContext(), masks(table, 3), replace(decoder, symbols=Symbols(temperature=0.7)))
    assert drawn.score.isnan().all() and drawn.logp.isfinite().all()


def test_paths_without_a_score_are_not_compared_by_it() -> None:
    with pytest.raises(PlanError, match="rescore 'path' compares log p of paths, which is not known"):
        Plan.of(order="confidence", temperature=1.0, rescore="path").decoder()
    assert Plan.of(order="easy-first", temperature=1.0, rescore="path").decoder().counts
