"""Sweeps: exploration that is consistent within an episode."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from toys import MASK, PAD, RIGHT, ChainTask

from anyorder.core.state import State, begin, canvas
from anyorder.training.buffer import stack
from anyorder.training.ppo import PolicyTrainer, Settings
from anyorder.training.rewards import Reward, edit_distance
from anyorder.training.rollout import Credit, log_prob, rollout, sweep

S = Settings(
    iterations=40, generations=64, group=8, buffer=0, update_batch=512, updates=4, hidden=32, learning_rate=1e-2,
    entropy=0.0, value_weight=0.0, gamma=1.0, dense=False, validate_every=10,
)  # fmt: skip
ALL = ChainTask(tuple(range(8)))  # from left to right, or something comes out wrong


def blank(lengths: list[int], seed: int = 0) -> State:
    return begin(canvas(torch.tensor(lengths), MASK, PAD), MASK, PAD, seed=seed)


def all_or_nothing(state: State, references: list[list[int]]) -> torch.Tensor:
    """1 for a text without a mistake."""
    return (state.tokens == RIGHT).all(-1).float()


def test_a_sweep_is_an_episode_s_own_and_lasts() -> None:
    state = blank([9, 5, 9])
    now = sweep(state)
    later = state.but(step=state.step + 3, tokens=state.tokens.masked_fill(torch.arange(9) == 2, RIGHT))
    assert torch.equal(sweep(later), now)
    assert not torch.allclose(now[0], now[2])
    alone = sweep(state.take(torch.tensor([1])).trim())
    torch.testing.assert_close(alone[0, :5], now[1, :5])


def test_one_sweep_in_four_goes_each_way() -> None:
    x = sweep(blank([100] * 10_000)).diff()
    falls, rises = (x < 0).all(-1), (x > 0).all(-1)
    middle = (x[:, 0] > 0) & (x[:, -1] < 0)
    for kind in (falls, rises, middle, ~(falls | rises | middle)):
        assert kind.float().mean() == pytest.approx(0.25, abs=0.02)


def test_an_episode_follows_its_sweep_and_keeps_the_policy_s_own_probability() -> None:
    policy = S.policy(9, {})
    torch.nn.init.normal_(policy.outer.weight, std=0.1)
    episodes = ALL.draw(6, torch.Generator().manual_seed(1))
    played = rollout(ALL, policy, episodes, Reward(edit_distance), Credit(), explore=1e5)
    wanted = sweep(episodes.state).argsort(-1, descending=True)
    left = torch.ones(6, 8, dtype=torch.bool)
    for t, m in enumerate(played.moments):
        place = left.nonzero()[:, 1].view(6, 8 - t).gather(1, m.chosen.int().argmax(-1, keepdim=True))
        assert torch.equal(place[:, 0], wanted[:, t])
        left.scatter_(1, place, False)
    batch = stack(played.moments)  # π_θ(a|s) without the sweep: the ratio of the first update is 1
    logp = log_prob(policy, policy.scores(batch.inputs), batch.inputs, batch.chosen)
    torch.testing.assert_close(logp, batch.logp, atol=1e-5, rtol=1e-5)


def test_sweeps_fade_over_the_run() -> None:
    s = replace(S, iterations=5, explore=2.0)
    assert [s.explore_at(i) for i in range(6)] == pytest.approx([2.0, 1.5, 1.0, 0.5, 0.0, 0.0])
    assert S.explore_at(0) == 0


@pytest.mark.parametrize("wrong", [{"explore": -1.0}, {"explore": 2.0, "several": True}])
def test_what_cannot_sweep_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="sweeps are 0 or more"):
        replace(S, **wrong)  # type: ignore[arg-type]


def test_crowding_needs_several() -> None:
    with pytest.raises(ValueError, match="crowding = 2 is for policies that write several positions a step"):
        replace(S, crowding=2)


def test_what_pays_only_as_a_whole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.training.ppo.find_quality", lambda name: all_or_nothing)
    for explore, found in ((0.0, False), (2.0, True)):  # noise at each step tries it once in 8! episodes
        s = replace(S, explore=explore)
        policy = PolicyTrainer(ALL, s.policy(9, {}), s).run()
        assert (ALL.right(policy, 1) == 1.0) == found
