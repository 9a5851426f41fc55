"""The policy-gradient formulas on arrays small enough to compute by hand, and gradients against finite differences."""

from __future__ import annotations

import math

import torch
from torch import tensor

from anyorder.training import rl

T, F = True, False
close = torch.testing.assert_close


def test_returns_by_hand_and_stop_at_the_episodes_end() -> None:
    rewards = tensor([[1.0, 2.0, 4.0], [1.0, 2.0, 99.0]])
    alive = tensor([[T, T, T], [T, T, F]])
    close(rl.discounted_returns(rewards, alive, 0.5), tensor([[3.0, 4.0, 4.0], [2.0, 2.0, 0.0]]))


def test_advantages_by_hand() -> None:
    rewards, values = tensor([[1.0, 0.0, 2.0]]), tensor([[0.5, 1.0, 1.5]])
    alive = torch.ones(1, 3, dtype=torch.bool)
    # δ = (1 + .5·1 − .5, 0 + .5·1.5 − 1, 2 − 1.5) = (1, −.25, .5); γλ = .25
    close(rl.advantages(rewards, values, alive, 0.5, 0.5), tensor([[1 + 0.25 * -0.125, -0.25 + 0.25 * 0.5, 0.5]]))
    close(rl.advantages(rewards, values, alive, 0.5, 0.0), tensor([[1.0, -0.25, 0.5]]))


def test_lambda_one_is_return_minus_value_whatever_lies_after_the_end() -> None:
    g = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(5, 7, generator=g), torch.randn(5, 7, generator=g)
    alive = torch.arange(7) < tensor([7, 3, 1, 5, 2])[:, None]
    expected = torch.where(alive, rl.discounted_returns(rewards, alive, 0.9) - values, 0.0)
    close(rl.advantages(rewards, values, alive, 0.9, 1.0), expected)
    junk_r, junk_v = rewards.masked_fill(~alive, 1e6), values.masked_fill(~alive, -1e6)
    close(rl.advantages(junk_r, junk_v, alive, 0.9, 1.0), expected)


def test_a_row_is_judged_against_the_others_of_its_group() -> None:
    rewards = tensor([[1.0, 0.0], [3.0, 2.0], [2.0, 4.0], [7.0, 7.0], [7.0, 7.0], [7.0, 7.0]])
    relative = rl.group_relative(rewards, 3)
    close(relative[:3], tensor([[1 - 2.5, -3.0], [3 - 1.5, 0.0], [2 - 2.0, 3.0]]))
    close(relative[3:], torch.zeros(3, 2))  # what the input decides is gone


def test_the_share_that_the_order_explains() -> None:
    g = torch.Generator().manual_seed(0)
    inputs = 3 * torch.randn(4000, 1, generator=g)
    orders = torch.randn(4000, 8, generator=g)
    close(rl.order_share((inputs + orders).flatten(), 8), tensor(0.1), atol=0.01, rtol=0)
    close(rl.order_share(torch.ones(8), 4), tensor(0.0))


def test_log_probabilities_of_written_sets_sum_to_one() -> None:
    scores, candidates = tensor([0.3, -1.0, 2.0, 9.0]), tensor([T, T, T, F])
    sets = [tensor([bool(k & 1), bool(k & 2), bool(k & 4), F]) for k in range(1, 8)]
    logp = rl.log_written(scores.expand(7, -1), candidates.expand(7, -1), torch.stack(sets))
    close(logp.exp().sum(), tensor(1.0))
    p = scores[:3].sigmoid()
    none = (1 - p).prod() * scores[:3].softmax(0)[1]
    close(logp[1].exp(), (1 - p[0]) * p[1] * (1 - p[2]) + none)  # {1}: drawn, or nothing was and 1 is the one
    close(rl.bernoulli_entropy(tensor([[0.0, 50.0]]), tensor([[T, F]])), tensor([math.log(2.0)]))


def test_rows_of_a_group_that_end_at_different_steps_are_compared_as_a_whole() -> None:
    rewards = tensor([[-1.0, 9.0, 70.0], [-1.0, -1.0, 6.0], [-1.0, 2.0, 70.0], [4.0, 70.0, 70.0]])
    alive = tensor([[T, T, F], [T, T, T], [T, T, F], [T, F, F]])
    found = rl.whole_relative(rewards, alive, 2)  # totals 8, 4 and 1, 4
    close(found, tensor([[0.0, 4.0, 0.0], [0.0, 0.0, -4.0], [0.0, -3.0, 0.0], [3.0, 0.0, 0.0]]))
    close(rl.discounted_returns(found, alive, 1.0)[1], tensor([-4.0, -4.0, -4.0]))


def test_log_policy_and_entropy_see_candidates_only() -> None:
    log_pi = rl.log_policy(tensor([[0.0, math.log(3.0), 50.0]]), tensor([[T, T, F]]))
    close(log_pi.exp(), tensor([[0.25, 0.75, 0.0]]))
    close(rl.entropy(log_pi), tensor([-(0.25 * math.log(0.25) + 0.75 * math.log(0.75))]))


def test_entropy_has_a_gradient_where_candidates_are_missing() -> None:
    scores = torch.randn(2, 4, requires_grad=True)
    rl.entropy(rl.log_policy(scores, tensor([[T, T, F, F], [F, T, T, T]]))).sum().backward()
    assert scores.grad is not None and scores.grad.isfinite().all()


def test_clipped_surrogate_by_hand() -> None:
    ratio, advantage = tensor([1.5, 1.5, 0.5, 0.5, 1.1]), tensor([1.0, -1.0, 1.0, -1.0, 2.0])
    # min(1.5, 1.2), min(−1.5, −1.2), min(.5, .8), min(−.5, −.8), 2.2
    close(rl.clipped_surrogate(ratio.log(), torch.zeros(5), advantage, 0.2), tensor((1.2 - 1.5 + 0.5 - 0.8 + 2.2) / 5))
    close(rl.clip_fraction(ratio.log(), torch.zeros(5), 0.2), tensor(0.8))


def test_gradients_match_finite_differences() -> None:
    g = torch.Generator().manual_seed(1)
    scores = torch.randn(6, 5, generator=g, dtype=torch.float64, requires_grad=True)
    candidates = torch.rand(6, 5, generator=g) < 0.7
    candidates[:, 2] = True
    action = torch.full((6, 1), 2)
    old = rl.log_policy(scores.detach() + 0.3 * torch.randn(6, 5, generator=g), candidates).gather(1, action)[:, 0]
    advantage = torch.randn(6, generator=g, dtype=torch.float64)

    def objective(x: torch.Tensor) -> torch.Tensor:
        log_pi = rl.log_policy(x, candidates)
        chosen = log_pi.gather(1, action)[:, 0]
        return (
            rl.clipped_surrogate(chosen, old, advantage, 0.2)
            + rl.reinforce_objective(chosen, advantage)
            + 0.1 * rl.entropy(log_pi).mean()
        )

    assert torch.autograd.gradcheck(objective, (scores,))


def test_a_clipped_step_has_no_gradient_and_the_first_step_is_reinforce() -> None:
    log_pi = tensor([math.log(2.0)], requires_grad=True)  # ρ = 2 with A > 0: already beyond the clip
    rl.clipped_surrogate(log_pi, torch.zeros(1), tensor([1.0]), 0.2).backward()
    assert log_pi.grad == 0
    here = torch.tensor([-1.0, -2.0], requires_grad=True)  # ρ = 1: the policy gradient itself
    rl.clipped_surrogate(here, here.detach().clone(), tensor([3.0, -1.0]), 0.2).backward()
    there = here.detach().clone().requires_grad_()
    rl.reinforce_objective(there, tensor([3.0, -1.0])).backward()
    close(here.grad, there.grad)


def test_explained_variance_and_friends() -> None:
    returns = tensor([1.0, 2.0, 3.0, 4.0])
    close(rl.explained_variance(returns + 7, returns), tensor(1.0))
    close(rl.explained_variance(torch.zeros(4), returns), tensor(0.0))
    close(rl.explained_variance(-returns, returns), tensor(-3.0))
    close(rl.explained_variance(returns, torch.ones(4)), tensor(0.0))
    close(rl.value_loss(tensor([1.0, 3.0]), tensor([0.0, 1.0])), tensor(1.25))
    close(rl.standardise(tensor([1.0, 3.0])), tensor([-1.0, 1.0]))
    close(rl.standardise(tensor([5.0])), tensor([0.0]))
