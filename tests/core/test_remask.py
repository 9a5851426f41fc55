"""Edits that take symbols back, each against ten independent lines."""

from __future__ import annotations

import math

import pytest
import torch
from support import Hashed, histogram, masks, p_value

from anyorder.core import NoContext, decode, unroll
from anyorder.core.noise import AMOUNT, SYMBOL, TAKE_BACK, uniform
from anyorder.core.remask import ReMDM
from anyorder.models.table import Table
from anyorder.recipes import annealed, path_planning, remdm, wino


@pytest.mark.parametrize("eta", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("length", "T"), [(7, 3), (5, 5), (4, 9)])
def test_p2(eta: float, length: int, T: int) -> None:
    model = Hashed()
    y = [model.mask_id] * length
    for t in range(T):
        p = [model.log_p(y, i) for i in range(length)]
        new = [int(p[i].argmax()) if v == model.mask_id else v for i, v in enumerate(y)]
        whole = [
            model.logits(model.hidden(NoContext(), torch.tensor([y]))[0, i : i + 1])[0].double() for i in range(length)
        ]
        score = [
            float(p[i].max()) if y[i] == model.mask_id else eta * float(whole[i].log_softmax(-1)[y[i]])
            for i in range(length)
        ]
        drop = math.floor(length * (1 - (t + 1) / T) + 1e-9)
        for i in sorted(range(length), key=lambda i: score[i])[:drop]:
            new[i] = model.mask_id
        y = new
    result = decode(model, NoContext(), masks(model, length, dtype=torch.float64), path_planning(T, eta))
    assert result.tokens[0].tolist() == y and result.cost.forwards == T


@pytest.mark.parametrize("eta", [0.0, 0.1, 1.0])
def test_remdm(eta: float) -> None:
    model, T, length = Hashed(), 6, 5
    state = masks(model, length, seed=torch.tensor([77]), dtype=torch.float64)
    seed, y = state.seed, [model.mask_id] * length
    for t in range(T):
        a_t, a_s = t / T, (t + 1) / T
        sigma = min(eta, (1 - a_s) / a_t) if t else 0.0
        chance = (a_s - (1 - sigma) * a_t) / (1 - a_t)
        draw = {
            k: [float(uniform(seed, t, torch.tensor([i]), k)) for i in range(length)]
            for k in (AMOUNT, SYMBOL, TAKE_BACK)
        }
        new = list(y)
        hidden = [v if v != model.mask_id else model.mask_id for v in y]
        for i in range(length):
            if y[i] == model.mask_id and (draw[AMOUNT][i] < chance or t == T - 1):
                cdf = model.log_p(hidden, i).exp().cumsum(0)
                new[i] = int((cdf <= draw[SYMBOL][i]).sum())
            elif y[i] != model.mask_id and draw[TAKE_BACK][i] < sigma:
                new[i] = model.mask_id
        y = new
    assert decode(model, NoContext(), state, remdm(T, eta)).tokens[0].tolist() == y


def test_remdm_keeps_the_share_of_masks_that_diffusion_has() -> None:
    """α_t of the symbols are written after t steps, whatever is taken back on the way."""
    table, T = Table(3, 2, seed=1), 8
    for eta in (0.0, 0.3, 1.0):
        state = masks(table, *[3] * 4000)
        for t, step in enumerate(unroll(table, NoContext(), state, remdm(T, eta)), 1):
            share = float((~step.state.masked).float().mean())
            assert abs(share - t / T) < 5 * (0.25 / 12000) ** 0.5
    sigma = ReMDM(T, 1.0).sigma(torch.arange(T)).tolist()
    assert sigma[0] == sigma[T - 1] == 0.0 and sigma[1] == 1.0
    assert sigma[T // 2] == pytest.approx((1 - 5 / 8) / 0.5)


def test_remdm_in_many_steps_nears_the_joint_and_in_few_does_not() -> None:
    table = Table(3, 2, seed=2)
    few, many = (
        p_value(histogram(table, decode(table, NoContext(), masks(table, *[3] * 4000), remdm(T, 0.0)).tokens), table.p)
        for T in (1, 200)
    )
    assert few < 1e-9 and many > 1e-3


@pytest.mark.parametrize(("draft", "keep"), [(0.3, 0.5), (0.1, 0.9), (0.6, 0.9)])
def test_wino(draft: float, keep: float) -> None:
    for seed in range(6):
        model, length = Hashed(5, sharpness=1.0, seed=seed), 8
        y, steps = [model.mask_id] * length, 0
        while model.mask_id in y:
            p = {i: model.log_p(y, i) for i, v in enumerate(y) if v == model.mask_id}
            sure = [i for i in p if float(p[i].max().exp()) >= draft] or [max(p, key=lambda i: float(p[i].max()))]
            y = [int(p[i].argmax()) if i in sure else v for i, v in enumerate(y)]
            alone = {}
            for i, v in enumerate(y):
                if v != model.mask_id:
                    rest = [model.mask_id if j == i else x for j, x in enumerate(y)]
                    x = model.logits(model.hidden(NoContext(), torch.tensor([rest]))[0, i : i + 1])[0].double()
                    alone[i] = float(x.log_softmax(-1)[v].exp())
            doubtful = sorted((i for i in alone if alone[i] < keep), key=lambda i: alone[i])
            for i in doubtful[: len(sure) - 1]:
                y[i] = model.mask_id
            steps += 1
        result = decode(model, NoContext(), masks(model, length, dtype=torch.float64), wino(draft, keep))
        assert result.tokens[0].tolist() == y and int(result.steps) == steps <= length
        assert result.cost.forwards == 2 * steps


@pytest.mark.parametrize("T", [1, 2, 4, 7])
def test_annealed_judges_by_the_pass_before(T: int) -> None:
    """Predict all; then re-mask the ⌊L(T−t)/T⌋ symbols that were least probable in the last pass, and predict them."""
    model, length = Hashed(), 6
    y = [model.mask_id] * length
    last = [math.nan] * length  # log p of each symbol in place, by the last pass
    for t in range(T):
        k = max(1, length * (T - t) // T)
        z = list(range(length)) if t == 0 else sorted(range(length), key=lambda i: last[i])[:k]
        canvas = [model.mask_id if i in z else v for i, v in enumerate(y)]
        states = model.hidden(NoContext(), torch.tensor([canvas]))[0]
        for i in range(length):
            if i in z:
                p = model.log_p(canvas, i)
                y[i], last[i] = int(p.argmax()), float(p.max())
            else:
                last[i] = float(model.logits(states[i : i + 1])[0].double().log_softmax(-1)[y[i]])
    result = decode(model, NoContext(), masks(model, length, dtype=torch.float64), annealed(T))
    assert result.tokens[0].tolist() == y and result.cost.forwards == T
