"""Training a policy: the toy with a known best order, the rewards, the buffer, resuming."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from toys import MASK, PAD, RIGHT, ChainTask

from anyorder.core import Coordinates, Decoder, random, unroll
from anyorder.core.state import begin
from anyorder.models.policy import Policy
from anyorder.training.checkpoint import TrainingError, load_checkpoint, save_checkpoint
from anyorder.training.imitation import oracle, ranking_loss
from anyorder.training.ppo import PolicyTrainer, Settings
from anyorder.training.rewards import Reward, edit_distance, find_reward, log_probability, right_symbols, sentence_bleu
from anyorder.training.rollout import Buffer, rollout

QUICK = Settings(
    iterations=40, generations=16, buffer=600, update_batch=96, updates=6, hidden=32, learning_rate=1e-2,
    entropy=0.001, validate_every=10,
)  # fmt: skip
EDITS = Reward(edit_distance)


def new_policy(task: ChainTask, s: Settings) -> Policy:
    torch.manual_seed(0)
    return Policy(len(task.chain) + 1, s.history, s.hidden, s.features)


@pytest.mark.parametrize("method", ["ppo", "reinforce", "imitation"])
def test_the_best_order_is_learned(method: str) -> None:
    task = ChainTask()
    s = replace(QUICK, method=method, iterations=120 if method == "reinforce" else 40)
    uniform = task.right(random, 256)
    assert uniform < 0.45  # the toy is hard for an order that knows nothing
    policy = PolicyTrainer(task, new_policy(task, s), s).run()
    assert task.right(policy, 1) == 1.0
    assert task.right(policy, 256, temperature=1.0) > 0.6  # and it is fairly sure of it


def test_imitation_hands_over_to_reinforcement() -> None:
    task = ChainTask()
    s = replace(QUICK, imitate=2, iterations=3)
    trainer = PolicyTrainer(task, new_policy(task, s), s)
    reports = [trainer.step() for _ in range(3)]
    assert ["agreement" in r for r in reports] == [True, True, False]
    assert len(trainer.buffer) == 16 * 6  # nothing of what imitation saw is left


def test_history_tells_an_otherwise_blind_policy_where_it_is() -> None:
    task = ChainTask((0, 1, 2, 3))
    s = replace(QUICK, history=4, iterations=30)
    assert task.right(PolicyTrainer(task, new_policy(task, s), s).run(), 1) == 1.0


def test_rewards_add_up_to_the_final_quality() -> None:
    task = ChainTask()
    episodes = task.draw(8, torch.Generator().manual_seed(3))
    policy = new_policy(task, QUICK)
    played = rollout(task, policy, episodes, EDITS, gamma=1.0, lam=1.0)
    late = rollout(task, policy, episodes, Reward(edit_distance, dense=False), gamma=1.0, lam=1.0)
    assert len(played.moments) == 8 * 6
    assert played.reward == pytest.approx(late.reward)
    starts = [m for m in played.moments if len(m.hidden) == 6]
    assert sum(m.returns for m in starts) / 8 == pytest.approx(played.reward)
    for m in starts:  # λ = γ = 1: the advantage is the return less the value
        assert m.advantage == pytest.approx(m.returns - m.value, abs=1e-5)
    assert {m.returns for m in late.moments if len(m.hidden) == 6} == {m.returns for m in starts}
    assert played.entropy == pytest.approx(1.0, abs=0.01)  # an untrained policy is nearly uniform


def test_rollouts_do_not_depend_on_the_batch() -> None:
    task = ChainTask()
    policy = new_policy(task, replace(QUICK, history=3))
    context, state, references = task.draw(6, torch.Generator().manual_seed(0))
    together = rollout(task, policy, (context, state, references), EDITS, 0.9, 0.95)  # type: ignore[arg-type]
    for row in range(6):
        rows = torch.tensor([row])
        alone = rollout(task, policy, (context, state.take(rows), references[rows]), EDITS, 0.9, 0.95)  # type: ignore[arg-type]
        mine = together.moments[row::6]
        assert [m.action for m in alone.moments] == [m.action for m in mine]
        assert [m.logp for m in alone.moments] == pytest.approx([m.logp for m in mine], abs=1e-5)
        assert [m.advantage for m in alone.moments] == pytest.approx([m.advantage for m in mine], abs=1e-4)


def test_kept_inputs_give_back_the_log_probability_of_the_action() -> None:
    task = ChainTask()
    policy = new_policy(task, replace(QUICK, history=2, features=("confidence", "leftmost")))
    torch.nn.init.normal_(policy.outer.weight)
    buffer = Buffer(100)
    buffer.add(rollout(task, policy, task.draw(5, torch.Generator().manual_seed(1)), EDITS, 0.9, 0.95).moments)
    batch = buffer.sample(99, torch.Generator().manual_seed(0))
    assert len(batch.action) == 30
    scores = policy.scores(batch.inputs).masked_fill(~batch.inputs.candidates, -torch.inf).log_softmax(-1)
    torch.testing.assert_close(scores.gather(1, batch.action[:, None])[:, 0], batch.logp, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(policy.values(batch.inputs), batch.value, atol=1e-5, rtol=1e-5)


def test_the_buffer_forgets_the_oldest() -> None:
    task = ChainTask()
    moments = rollout(task, new_policy(task, QUICK), task.draw(2, torch.Generator()), EDITS, 0.9, 0.95).moments
    buffer = Buffer(5)
    buffer.add(moments)
    assert list(buffer.moments) == moments[-5:]


def test_the_oracle_prefers_right_then_sure() -> None:
    task = ChainTask((1, 0, 2))
    context, state, references = task.start(1, 0)
    decoder = Decoder(Coordinates(random + 0.0 * Policy(4, features=("margin",), hidden=4)), task.symbols)
    first = next(iter(unroll(task.model, context, state, decoder)))
    assert oracle(first, references).tolist() == [1]  # only the chain's first position is right
    assert oracle(first, torch.full_like(references, 9)).tolist() == [-1]
    with pytest.raises(ValueError, match="reference's length"):
        oracle(first, references[:, :2])


def test_ranking_loss_by_hand() -> None:
    log_pi = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    assert ranking_loss(log_pi, torch.tensor([1, -1])) == pytest.approx(-torch.tensor(0.75).log().item())
    assert ranking_loss(log_pi, torch.tensor([-1, -1])) == 0


def test_qualities_by_hand() -> None:
    tokens = torch.tensor([[5, MASK, 7, PAD], [5, 6, 7, 8]])
    state = begin(tokens, MASK, PAD, open=tokens != PAD)
    references = [[5, 6, 7], [6, 7, 8]]
    assert edit_distance(state, references).tolist() == [-1, -1]  # the mask is wrong; one symbol too many
    assert right_symbols(state, references).tolist() == [2, 0]
    bleu = sentence_bleu(state, [[5, 6, 7], [5, 6, 7, 8]]).tolist()
    assert bleu[1] == pytest.approx(100) and 0 < bleu[0] < 60
    state = replace(state, logp=torch.tensor([[-1.0, 0, -2, 0], [-1, -1, -1, -1]]))
    assert log_probability(state, references).tolist() == [-3, -4]
    assert find_reward("anyorder.training.rewards:right_symbols").quality is right_symbols
    with pytest.raises(ValueError, match="edit-distance"):
        find_reward("edits")


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


def test_right_is_the_reference() -> None:  # guards the toy itself
    task = ChainTask()
    assert task.start(2, 0).references.unique().tolist() == [RIGHT]
