"""The any-order bound: on the exact table it converges to log p; its masks are stratified, its draws antithetic."""

from __future__ import annotations

import torch

from anyorder.core import any_order_bound, begin, marginal, pll
from anyorder.models.table import Table
from anyorder.recipes import left2right, uniform


def test_it_bounds_and_converges_on_the_table() -> None:
    """The table's conditionals are of one joint, so each order's chain rule is log p: estimators meet there."""
    model = Table(5, 3)
    tokens = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 0, 1, 1], [1, 0, 0, 2, 2]])
    state = begin(tokens, model.mask_id, model.pad_id, open=tokens >= 0, dtype=torch.float64)
    context = model.encode(None)
    exact = marginal(model, context, state, left2right, 1)
    torch.testing.assert_close(marginal(model, context, state, uniform, 8), exact)
    for samples in (64, 4096):
        mean, error = any_order_bound(model, context, state, samples)
        assert bool(((mean - exact).abs() < 4 * error).all()), "within four standard errors"
    assert bool((error < 0.3).all())
    assert not torch.allclose(pll(model, context, state), exact), "pseudo log-likelihood is another number"


def test_rows_do_not_mix_and_the_given_is_not_counted() -> None:
    model = Table(5, 3)
    tokens = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 0, 1, 1]])
    open_ = torch.tensor([[False, True, True, True, True], [True] * 5])
    state = begin(tokens, model.mask_id, model.pad_id, open=open_, dtype=torch.float64)
    mean, _ = any_order_bound(model, model.encode(None), state, 256)
    alone, _ = any_order_bound(model, model.encode(None), state.take(torch.tensor([0])), 256)
    torch.testing.assert_close(mean[:1], alone)
    exact = marginal(model, model.encode(None), state, left2right, 1)
    assert float((mean - exact).abs().max()) < 0.3


def test_antithetic_pairs_of_strata_have_less_noise_than_they_would_apart() -> None:
    """The error that is said is that of the estimates: their spread over seeds is no larger."""
    model = Table(6, 3)
    tokens = torch.tensor([[0, 1, 2, 1, 0, 2]])
    states = [begin(tokens, model.mask_id, model.pad_id, open=tokens >= 0, seed=s) for s in range(60)]
    every = [any_order_bound(model, model.encode(None), state, 32) for state in states]
    means, errors = (torch.stack([e[k] for e in every]) for k in (0, 1))
    assert float(means.std()) <= 1.3 * float(errors.mean())
