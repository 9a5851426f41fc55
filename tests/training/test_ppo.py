"""Training a policy: the toy with a known best order, the rewards, the buffer, resuming."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from toys import MASK, PAD, RIGHT, ChainTask

from anyorder.core import Coordinates, Decoder, random, unroll
from anyorder.core.state import begin
from anyorder.models.policy import Policy
from anyorder.training.buffer import Buffer, Moments, stack
from anyorder.training.checkpoint import TrainingError, load_checkpoint, save_checkpoint
from anyorder.training.ppo import PolicyTrainer, Settings
from anyorder.training.rewards import (
    Reward,
    edit_distance,
    find_quality,
    gleu,
    log_probability,
    right_symbols,
    sentence_bleu,
)
from anyorder.training.rl import oracle, ranking_loss, right, writing_loss
from anyorder.training.rollout import Credit, Episodes, log_prob, rollout

QUICK = Settings(
    iterations=40, generations=16, buffer=600, update_batch=96, updates=6, hidden=32, learning_rate=1e-2,
    entropy=0.001, validate_every=10,
)  # fmt: skip
EDITS = Reward(edit_distance)


def new_policy(task: ChainTask, s: Settings) -> Policy:
    return s.policy(len(task.chain) + 1, {})


def episode(moments: list[Moments], row: int) -> Moments:
    """The time steps of one row, where all rows have as many."""
    return stack([m.take(slice(row, row + 1)) for m in moments])


@pytest.mark.parametrize("method", ["ppo", "reinforce", "imitation"])
def test_the_best_order_is_learned(method: str) -> None:
    task = ChainTask()
    s = replace(QUICK, method=method, iterations=120 if method == "reinforce" else 40)
    uniform = task.right(random, 256)
    assert uniform < 0.45  # the toy is hard for an order that knows nothing
    policy = PolicyTrainer(task, new_policy(task, s), s).run()
    assert task.right(policy, 1) == 1.0
    assert task.right(policy, 256, temperature=1.0) > 0.6  # and it is fairly sure of it


def test_history_tells_an_otherwise_blind_policy_where_it_is() -> None:
    task = ChainTask((0, 1, 2, 3))
    s = replace(QUICK, history=4, iterations=30)
    assert task.right(PolicyTrainer(task, new_policy(task, s), s).run(), 1) == 1.0


@pytest.mark.parametrize(("method", "value_weight"), [("ppo", 0.0), ("ppo", 0.5), ("reinforce", 0.0)])
def test_a_group_takes_the_place_of_the_value(method: str, value_weight: float) -> None:
    task = ChainTask()
    s = replace(QUICK, method=method, iterations=120 if method == "reinforce" else 60, group=8, buffer=0)
    trainer = PolicyTrainer(task, new_policy(task, s), replace(s, value_weight=value_weight))
    first = trainer.step()
    assert first["order share"] > 0.9  # every episode of the toy has the same input: the order is all there is
    assert ("explained variance" in first) == (value_weight > 0)
    assert task.right(trainer.run(), 1) == 1.0


def test_comparing_candidates_is_learned_too() -> None:
    task, s = ChainTask(), replace(QUICK, attention=32, group=8, value_weight=0.0)
    assert task.right(PolicyTrainer(task, new_policy(task, s), s).run(), 1) == 1.0


def test_a_pass_that_costs_more_than_it_earns_is_not_made() -> None:
    task, s = ChainTask(), replace(QUICK, several=True, group=8, value_weight=0.0, buffer=0, price=2.0, gamma=1.0)
    trainer = PolicyTrainer(task, new_policy(task, s), s)
    passes = [trainer.step()["passes"] for _ in range(40)]
    assert passes[0] > 2.5 and passes[-1] < 1.5


def test_positions_that_spoil_each_other_are_not_written_together() -> None:
    """Two lines of a chain in one step read nothing of each other: γ of neighbours is learned to keep them apart."""
    task = ChainTask()
    s = replace(QUICK, several=True, crowding=1, group=8, value_weight=0.0, buffer=0, price=0.2, gamma=1.0)
    trainer = PolicyTrainer(task, new_policy(task, s), s)
    for _ in range(40):
        trainer.step()
    left, _, right = trainer.policy.gamma(torch.tensor([-1, 0, 1])).tolist()
    assert left < -0.1 or right < -0.1


def test_rewards_add_up_to_the_final_quality() -> None:
    task, credit = ChainTask(), Credit(gamma=1.0, lam=1.0)
    episodes = task.draw(8, torch.Generator().manual_seed(3))
    policy = new_policy(task, QUICK)
    played = rollout(task, policy, episodes, EDITS, credit)
    late = rollout(task, policy, episodes, Reward(edit_distance, dense=False), credit)
    dear = rollout(task, policy, episodes, Reward(edit_distance, price=0.5), credit)
    assert [m.size for m in played.moments] == [8] * 6
    assert played.reward == pytest.approx(late.reward) == pytest.approx(dear.reward + 6 * 0.5)
    start = played.moments[0]
    assert start.returns.mean() == pytest.approx(played.reward)
    for m in played.moments:  # λ = γ = 1: the advantage is the return less the value
        torch.testing.assert_close(m.advantage, m.returns - m.value)
    torch.testing.assert_close(late.moments[0].returns, start.returns)
    assert played.entropy == pytest.approx(1.0, abs=0.01)  # an untrained policy is nearly uniform
    assert played.passes == 6


def test_judged_ahead_a_step_earns_what_it_changes_in_the_rest() -> None:
    task, credit = ChainTask(), Credit(gamma=1.0, critic=False)
    episodes = task.draw(8, torch.Generator().manual_seed(3))
    policy = new_policy(task, QUICK)
    plain = rollout(task, policy, episodes, EDITS, credit)
    ahead = rollout(task, policy, episodes, Reward(edit_distance, ahead=True), credit)
    # written at once, only the chain's first symbol would be right; so would it be wherever the order begins
    torch.testing.assert_close(ahead.moments[0].returns, plain.moments[0].returns - 1)
    assert (ahead.moments[-1].returns == 0).all()  # nothing is left that the last step could change


def test_a_group_is_compared_with_itself() -> None:
    task = ChainTask()
    policy = new_policy(task, QUICK)
    alone = task.draw(3, torch.Generator().manual_seed(3))
    together = alone.repeat(4)
    assert torch.equal(together.references, alone.references.repeat_interleave(4, 0))
    assert len(together.state.seed.unique()) == 12  # everyone draws for himself
    plain = rollout(task, policy, together, EDITS, Credit(gamma=1.0, critic=False))
    grouped = rollout(task, policy, together, EDITS, Credit(gamma=1.0, group=4, critic=False))
    for a, b in zip(plain.moments, grouped.moments, strict=True):
        g = a.returns.view(3, 4)
        torch.testing.assert_close(b.advantage.view(3, 4), g - (g.sum(1, keepdim=True) - g) / 3)


def test_rollouts_do_not_depend_on_the_batch() -> None:
    task, credit = ChainTask(), Credit()
    for several in (False, True):
        policy = new_policy(task, replace(QUICK, history=3, attention=16, several=several))
        context, state, references = task.draw(6, torch.Generator().manual_seed(0))
        together = rollout(task, policy, Episodes(context, state, references), EDITS, credit)
        for row in range(6):
            rows = torch.tensor([row])
            alone = rollout(task, policy, Episodes(context, state.take(rows), references[rows]), EDITS, credit)
            if several:  # rows leave at different steps: the totals say enough
                continue
            mine, its = episode(together.moments, row), stack(alone.moments)
            assert torch.equal(mine.chosen, its.chosen)
            torch.testing.assert_close(mine.logp, its.logp, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(mine.advantage, its.advantage, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("several", "crowding"), [(False, 0), (True, 0), (True, 2)])
def test_kept_inputs_give_back_the_log_probability_of_the_action(several: bool, crowding: int) -> None:
    task, features = ChainTask(), ("confidence", "leftmost")
    s = replace(QUICK, history=2, features=features, attention=16, several=several, crowding=crowding)
    policy = new_policy(task, s)
    torch.nn.init.normal_(policy.outer.weight)
    if policy.crowd is not None:
        torch.nn.init.normal_(policy.crowd.weight)
    buffer = Buffer(100)
    buffer.add(rollout(task, policy, task.draw(5, torch.Generator().manual_seed(1)), EDITS, Credit()).moments)
    batch = buffer.sample(99, torch.Generator().manual_seed(0))
    assert several or batch.size == 30
    logp = log_prob(policy, policy.scores(batch.inputs), batch.inputs, batch.chosen)
    torch.testing.assert_close(logp, batch.logp, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(policy.values(batch.inputs), batch.value, atol=1e-5, rtol=1e-5)


def test_the_buffer_forgets_the_oldest() -> None:
    task = ChainTask()
    moments = rollout(task, new_policy(task, QUICK), task.draw(2, torch.Generator()), EDITS, Credit()).moments
    buffer = Buffer(5)
    buffer.add(moments)
    kept = stack(list(buffer.parts))
    assert torch.equal(kept.logp, stack(moments).logp[-5:]) and len(buffer) == 5
    sampled = buffer.sample(5, torch.Generator().manual_seed(0))
    assert torch.equal(sampled.logp, kept.logp) and torch.equal(sampled.chosen, kept.chosen)
    fresh = Buffer(0)
    fresh.add(moments)
    fresh.add(moments[:1])
    assert len(fresh) == 2


def test_the_oracle_prefers_right_then_sure() -> None:
    task = ChainTask((1, 0, 2))
    context, state, references = task.start(1, 0)
    decoder = Decoder(Coordinates(random + 0.0 * Policy(4, features=("margin",), hidden=4)), task.symbols)
    first = next(iter(unroll(task.model, context, state, decoder)))
    assert oracle(first, references).tolist() == [[False, True, False]]  # only the chain's first position is right
    assert not oracle(first, torch.full_like(references, 9)).any()
    assert torch.equal(right(first, references), oracle(first, references))
    with pytest.raises(ValueError, match="reference's length"):
        oracle(first, references[:, :2])


def test_supervised_losses_by_hand() -> None:
    log_pi = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    none = torch.tensor([False, False])
    expected = -torch.tensor(0.75).log().item()
    assert ranking_loss(log_pi, torch.stack([torch.tensor([False, True]), none])) == pytest.approx(expected)
    assert ranking_loss(log_pi, torch.stack([none, none])) == 0
    scores = torch.tensor([[0.75, 0.25, 0.5]]).logit()
    candidates, wanted = torch.tensor([[True, True, False]]), torch.tensor([[True, False, True]])
    assert writing_loss(scores, candidates, wanted) == pytest.approx(expected)


def test_qualities_by_hand() -> None:
    tokens = torch.tensor([[5, MASK, 7, PAD], [5, 6, 7, 8]])
    state = begin(tokens, MASK, PAD, open=tokens != PAD)
    references = [[5, 6, 7], [6, 7, 8]]
    assert edit_distance(state, references).tolist() == [-1, -1]  # the mask is wrong; one symbol too many
    assert right_symbols(state, references).tolist() == [2, 0]
    bleu = sentence_bleu(state, [[5, 6, 7], [5, 6, 7, 8]]).tolist()
    assert bleu[1] == pytest.approx(100) and 0 < bleu[0] < 60
    assert gleu(state, [[5, 6, 7], [5, 6, 7, 8]]).tolist() == pytest.approx([100 * 2 / 6, 100])
    state = replace(state, logp=torch.tensor([[-1.0, 0, -2, 0], [-1, -1, -1, -1]]))
    assert log_probability(state, references).tolist() == [-3, -4]
    assert find_quality("anyorder.training.rewards:right_symbols") is right_symbols
    with pytest.raises(ValueError, match="edit-distance"):
        find_quality("edits")


def test_gleu_is_its_definition() -> None:
    g = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 9, (2, 60), generator=g)  # of texts and references
    rows = torch.randint(5, 8, (2, 60, 8), generator=g)  # three symbols: n-grams are repeated
    inside = torch.arange(8) < lengths[..., None]
    state = begin(rows[0].masked_fill(~inside[0], PAD), MASK, PAD, open=inside[0])
    references = [row[:n] for row, n in zip(rows[1].tolist(), lengths[1].tolist(), strict=True)]

    def grams(row: list[int]) -> Counter[tuple[int, ...]]:
        return Counter(tuple(row[i : i + n]) for n in range(1, 5) for i in range(len(row) - n + 1))

    expected = []
    for row, n, reference in zip(rows[0].tolist(), lengths[0].tolist(), references, strict=True):
        mine, theirs = grams(row[:n]), grams(reference)
        expected.append(100 * (mine & theirs).total() / max(mine.total(), theirs.total()))
    assert gleu(state, references).tolist() == pytest.approx(expected, abs=1e-4)


def test_an_iteration_may_be_played_in_parts() -> None:
    task, s = ChainTask(), replace(QUICK, generations=32, together=8, group=4, buffer=0, value_weight=0.0)
    trainer = PolicyTrainer(task, new_policy(task, s), s)
    drawn = []
    draw, task.draw = task.draw, lambda count, g: drawn.append(count) or draw(count, g)  # type: ignore[func-returns-value, method-assign]
    assert {"reward", "entropy", "order share"} <= trainer.step().keys()
    assert drawn == [2, 2, 2, 2] and len(trainer.buffer) == 32 * len(task.chain)
    for wrong in ({"together": 12}, {"together": 2}):
        with pytest.raises(ValueError, match="cannot be played"):
            replace(s, **wrong)


def test_resuming_continues_where_it_stopped(tmp_path: Path) -> None:
    task, s = ChainTask(), replace(QUICK, method="reinforce", iterations=12, validate_every=6)
    whole = PolicyTrainer(task, new_policy(task, s), s)
    whole.run()
    half = PolicyTrainer(task, new_policy(task, s), replace(s, iterations=6))
    file = tmp_path / "checkpoint.pt"
    half.run(checkpoint=lambda: save_checkpoint(file, half.state()))
    rest = PolicyTrainer(task, new_policy(task, s), s)
    state = load_checkpoint(file)
    assert state is not None
    rest.restore(state, file)
    assert rest.iteration == 6
    rest.run()
    assert rest.best == whole.best
    torch.testing.assert_close(rest.policy.state_dict(), whole.policy.state_dict())
    other = PolicyTrainer(task, new_policy(task, replace(s, hidden=8)), replace(s, hidden=8))
    with pytest.raises(TrainingError, match="hidden = 32"):
        other.restore(state, file)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ValueError, match="generation_batch"):
        Settings.of({"generation_batch": 4})
    with pytest.raises(ValueError, match="ppo, reinforce, imitation"):
        Settings.of({"method": "dqn"})
    with pytest.raises(ValueError, match="16 generations cannot be divided into groups of 5"):
        Settings.of({"group": 5})


def test_the_entropy_bonus_follows_its_schedule() -> None:
    s = replace(QUICK, iterations=5, entropy=0.4, entropy_end=0.0)
    assert [s.entropy_at(i) for i in range(5)] == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0])
    assert replace(s, entropy_end=None).entropy_at(4) == 0.4


def test_right_is_the_reference() -> None:  # guards the toy itself
    task = ChainTask()
    assert task.start(2, 0).references.unique().tolist() == [RIGHT]
