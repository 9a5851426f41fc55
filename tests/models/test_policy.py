"""The policy as an Order: its formulas, its memory, its file, and every decoder it drops into."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toys import MASK, PAD, ChainModel, ChainTask

from anyorder.core import (
    Coordinates,
    Decoder,
    NoContext,
    beam,
    block,
    constant,
    decode,
    everywhere,
    leftmost,
    negent,
    threshold,
    unroll,
)
from anyorder.models.policy import CHOSEN, FILLED, Inputs, Policy, PolicyError, check_width, reciprocal_rank
from anyorder.training.rollout import log_prob

WIDTH = 7  # of the toy's hidden states


def some_policy(
    history: int = 3, features: tuple[str, ...] = ("confidence",), seed: int = 0, **more: int | bool
) -> Policy:
    torch.manual_seed(seed)
    policy = Policy(WIDTH, history, 8, features, {"model": "the toy"}, **more).eval()  # type: ignore[arg-type]
    for p in policy.parameters():
        nn.init.normal_(p)
    return policy


def final(order: Policy, rows: int = 4, **options: object) -> torch.Tensor:
    task = ChainTask()
    context, state, _ = task.start(rows, 0)
    return decode(task.model, context, state, Decoder(Coordinates(order, **options), task.symbols)).tokens  # type: ignore[arg-type]


def test_scores_and_values_are_the_formulas() -> None:
    policy = some_policy(history=2, features=())
    h, past = torch.randn(1, 3, WIDTH), torch.randn(1, WIDTH)
    x = Inputs(h, torch.zeros(1, 3, 0), torch.ones(1, 3) > 0, torch.arange(3)[None], h.mean(1), past, torch.tensor([1]))
    assert policy.slot is not None
    recalled = (past[0] + policy.slot.weight[0]) / 2  # k = 2, one of the two slots filled
    seen = torch.cat([h[0], recalled.expand(3, -1)], -1)
    hidden = (seen @ policy.inner.weight.T + policy.inner.bias).relu()
    torch.testing.assert_close(policy.scores(x)[0], hidden @ policy.outer.weight[0] + policy.outer.bias)
    torch.testing.assert_close(policy.values(x)[0], seen.mean(0) @ policy.critic.weight[0] + policy.critic.bias[0])


def test_attention_sees_candidates_and_nothing_else() -> None:
    policy = some_policy(history=0, features=(), attention=16)
    h, candidates = torch.randn(1, 4, WIDTH), torch.tensor([[True, True, False, True]])

    def inputs(h: torch.Tensor, candidates: torch.Tensor) -> Inputs:
        return Inputs(
            h,
            h.new_zeros(1, h.shape[1], 0),
            candidates,
            torch.zeros(h.shape[:2]).long(),
            h.mean(1),
            h.new_zeros(1, WIDTH),
            torch.zeros(1).long(),
        )

    scores = policy.scores(inputs(h, candidates))
    torch.testing.assert_close(scores[:, [0, 1, 3]], policy.scores(inputs(h[:, [0, 1, 3]], candidates[:, [0, 1, 3]])))
    changed = h.clone()
    changed[0, 3] += 1
    assert (policy.scores(inputs(changed, candidates))[0, 0] != scores[0, 0]).item()  # others matter: it compares
    assert policy.scores(inputs(h, candidates & False)).isfinite().all()


def test_distances_between_candidates_add_a_number_for_each_pair() -> None:
    policy, without = (some_policy(history=0, features=(), distances=d) for d in (2, 0))
    assert policy.before is not None and policy.apart is not None
    without.load_state_dict({k: v for k, v in policy.state_dict().items() if k in without.state_dict()})
    h, places = torch.randn(1, 4, WIDTH), [0, 1, 3, 7]
    candidates, nobody = torch.tensor([[True, True, False, True]]), torch.zeros(1).long()
    empty, past = torch.zeros(1, 4, 0), torch.zeros(1, WIDTH)
    x = Inputs(h, empty, candidates, torch.tensor([places]), h.mean(1), past, nobody)
    beta = {d: float(b.detach()) for d, b in zip(range(-2, 3), policy.before(policy.apart.weight), strict=True)}
    each = [sum(beta[min(2, max(-2, places[j] - i))] for j in (0, 1, 3)) for i in places]
    torch.testing.assert_close(policy.scores(x) - without.scores(x), torch.tensor([each]))


def test_distances_can_be_left2right_whatever_the_hidden_states() -> None:
    policy = some_policy(history=0, features=(), distances=1)
    assert policy.before is not None and policy.apart is not None
    nn.init.ones_(policy.before.weight)
    policy.apart.weight.data[:] = torch.tensor(
        [[-1e4], [0.0], [1e4]]
    )  # a mask on the left: later; on the right: sooner
    task = ChainTask()
    context, state, _ = task.start(3, 0)
    for taken in unroll(task.model, context, state, Decoder(Coordinates(policy), task.symbols)):
        assert torch.equal(taken.z.int().argmax(-1), taken.before.masked.int().argmax(-1))


def test_negative_distances_are_refused() -> None:
    with pytest.raises(PolicyError, match="0 or more"):
        Policy(WIDTH, distances=-1)


def test_symbols_are_read_only_where_they_are_written() -> None:
    from anyorder.core import margin

    task, policy = ChainTask(), some_policy(0, ())
    context, state, _ = task.start(3, 0)
    few = decode(task.model, context, state, Decoder(Coordinates(policy, constant(3)), task.symbols))
    assert few.cost.head_rows == 3 * 6 and few.cost.forwards == 3
    looking = Decoder(Coordinates(policy + 0.0 * margin, constant(3)), task.symbols)
    many = decode(task.model, context, state, looking)
    assert many.cost.head_rows == 3 * (6 + 4 + 2)
    assert torch.equal(few.tokens, many.tokens)
    torch.testing.assert_close(few.logp, many.logp)


def test_a_policy_may_say_how_many() -> None:
    task, policy = ChainTask(), some_policy(0, (), several=True)
    context, state, _ = task.start(2, 0)
    for taken in unroll(task.model, context, state, Decoder(Coordinates(policy, policy.count), task.symbols)):
        assert taken.judged is not None
        with torch.no_grad():
            scores = policy(taken.before, taken.judged).masked_fill(~taken.before.masked, -torch.inf)
        best = torch.zeros_like(taken.z).scatter(1, scores.argmax(-1, keepdim=True), True)
        assert torch.equal(taken.z, (scores > 0) | best)
    first = [next(unroll(task.model, context, state, Decoder(Coordinates(p, p.count), task.symbols))).z
             for p in (policy.above(-1e6), policy, policy.above(1e6))]  # fmt: skip
    assert first[0].equal(state.masked) and first[2].sum(-1).tolist() == [1, 1]
    assert (first[2] <= first[1]).all() and (first[1] <= first[0]).all()


def test_features_come_with_their_reciprocal_ranks() -> None:
    phi, candidates = torch.tensor([[3.0, -1.0, 9.0, 5.0]]), torch.tensor([[True, True, False, True]])
    torch.testing.assert_close(reciprocal_rank(phi, candidates), torch.tensor([[1 / 2, 1 / 3, 0.0, 1.0]]))
    task = ChainTask()
    context, state, _ = task.start(1, 0)
    first = next(unroll(task.model, context, state, Decoder(Coordinates(some_policy(0, ("leftmost",))), task.symbols)))
    assert first.judged is not None
    x = some_policy(0, ("leftmost",)).inputs(first.state, first.judged)
    left = first.state.masked[0].nonzero()[:, 0]
    assert x.features[0, left, 0].tolist() == (-left).tolist()
    torch.testing.assert_close(x.features[0, left, 1], 1 / torch.arange(1.0, 6))


class HalfChain(ChainModel):
    """The toy in half precision."""

    half = torch.bfloat16

    def hidden(self, context: NoContext, tokens: Tensor) -> Tensor:
        return super().hidden(context, tokens).to(self.half)

    def logits(self, hidden: Tensor) -> Tensor:
        return super().logits(hidden.float()).to(self.half)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision(half: torch.dtype) -> None:
    task = ChainTask()
    model = HalfChain(task.chain)
    model.half = half
    context, state, _ = task.start(3, 0)
    for policy in (some_policy(3), some_policy(0, ("negent", "margin"))):
        for order in (policy, negent + policy):
            result = decode(model, context, state, Decoder(Coordinates(order), task.symbols))
            assert not (result.tokens == MASK).any() and result.score.dtype == torch.float32


def test_two_policies_in_one_order_remember_apart() -> None:
    task = ChainTask()
    context, state, _ = task.start(2, 0)
    a, b = some_policy(2, seed=1), some_policy(2, seed=2)
    *_, last = unroll(task.model, context, state, Decoder(Coordinates(a + 0.5 * b), task.symbols))
    assert sum(v.shape[1] for k, v in last.state.memory.items() if k.startswith(CHOSEN)) == 4


def test_it_remembers_the_last_k_chosen_vectors_oldest_first() -> None:
    task = ChainTask()
    context, state, _ = task.start(2, 0)
    chosen = []
    for taken in unroll(task.model, context, state, Decoder(Coordinates(some_policy(2)), task.symbols)):
        assert taken.judged is not None and taken.judged.hidden is not None
        chosen.append(taken.judged.hidden[taken.z])  # (2, D): one position a row
        memory = taken.state.memory
        filled = min(2, len(chosen))
        assert memory[FILLED].sum(-1).tolist() == [filled, filled]
        for j in range(filled):
            torch.testing.assert_close(memory[CHOSEN][:, -1 - j], chosen[-1 - j])


def test_a_crowded_policy_decides_one_position_after_the_other() -> None:
    """By hand, row by row; and drawn, as often as its log-probability says (which sums to 1 over all sets)."""
    torch.manual_seed(1)
    policy = some_policy(0, (), several=True, crowding=2)
    n, width = 4000, 5
    scores, candidates = torch.randn(width), torch.tensor([True, True, False, True, True])
    rows, there = scores.expand(n, -1), candidates.expand(n, -1)
    bars = torch.rand(n, width).logit()
    with torch.no_grad():
        found = policy.decide(rows, there, bars)
        gamma = policy.gamma(torch.arange(-4, 5)).tolist()
        for row in range(50):
            z: list[int] = []
            for i in sorted((i for i in range(width) if candidates[i]), key=lambda i: -scores[i]):
                z += [i] * (float(scores[i]) + sum(gamma[i - j + 4] for j in z) > float(bars[row, i]))
            assert found[row].nonzero()[:, 0].tolist() == sorted(z)
        assert torch.equal(
            policy.decide(rows[:1], there[:1]), policy.decide(rows[:1], there[:1], torch.zeros(1, width))
        )
        sets = [torch.tensor([bool(k & 1), bool(k & 2), False, bool(k & 4), bool(k & 8)]) for k in range(1, 16)]
        x = inputs_of(rows[:15], there[:15])
        logp = log_prob(policy, rows[:15], x, torch.stack(sets))
        torch.testing.assert_close(logp.exp().sum(), torch.tensor(1.0))
        for chosen, p in zip(sets, logp.exp().tolist(), strict=True):
            if chosen.sum() > 1:  # of one, there is the fallback beside it
                assert (found == chosen).all(-1).float().mean().item() == pytest.approx(p, abs=0.03)


def inputs_of(scores: torch.Tensor, candidates: torch.Tensor) -> Inputs:
    """What a policy would have seen; only the candidates and their places matter here."""
    n, width = scores.shape
    nothing = torch.zeros(n, width, 0)
    place = torch.arange(width).expand(n, -1)
    return Inputs(nothing, nothing, candidates, place, nothing[:, 0], nothing[:, 0], torch.zeros(n, dtype=torch.int64))


def test_crowding_needs_several() -> None:
    with pytest.raises(PolicyError, match="several positions a step"):
        some_policy(0, (), crowding=2)


def test_several_positions_a_step_enter_the_history_left_to_right() -> None:
    task = ChainTask()
    context, state, _ = task.start(1, 0)
    taken = next(unroll(task.model, context, state, Decoder(Coordinates(some_policy(4), constant(2)), task.symbols)))
    assert taken.z.sum() == 3 and taken.judged is not None and taken.judged.hidden is not None
    torch.testing.assert_close(taken.state.memory[CHOSEN][0, -3:], taken.judged.hidden[0, taken.z[0]])
    assert taken.state.memory[FILLED].tolist() == [[False, True, True, True]]


def test_it_drops_into_counts_regions_sums_and_beams() -> None:
    policy = some_policy()
    for options in ({"count": constant(3)}, {"among": block(2)}, {"count": threshold(0.9)}, {"temperature": 1.0}):
        assert not (final(policy, **options) == MASK).any()
    assert not (final(policy + 0.1 * leftmost) == MASK).any()  # type: ignore[arg-type]
    task = ChainTask()
    context, state, _ = task.start(2, 0)
    again = Decoder(Coordinates(policy, among=everywhere), task.symbols, steps=8)
    assert not (decode(task.model, context, state, again).tokens == MASK).any()
    found = beam(task.model, context, state, Decoder(Coordinates(policy, temperature=1.0), task.symbols), 3)
    assert not (found.tokens == MASK).any()


def test_sampling_adds_log_pi_to_the_score_and_greedy_does_not() -> None:
    task, policy = ChainTask(), some_policy(0, ())
    context, state, _ = task.start(3, 5)
    steps = list(unroll(task.model, context, state, Decoder(Coordinates(policy, temperature=1.0), task.symbols)))
    total = torch.zeros(3)
    for taken in steps:
        assert taken.judged is not None
        with torch.no_grad():
            scores = policy(taken.before, taken.judged).masked_fill(~taken.before.masked, -torch.inf)
        total += scores.log_softmax(-1)[taken.z] + taken.view.logp[taken.z]
    torch.testing.assert_close(steps[-1].state.score, total)
    context, state, _ = task.start(3, 5)
    greedy = decode(task.model, context, state, Decoder(Coordinates(policy), task.symbols))
    torch.testing.assert_close(greedy.score, greedy.logp.sum(-1))


def test_saved_and_loaded_it_orders_the_same(tmp_path: Path) -> None:
    policy, file = some_policy(attention=16, distances=2), tmp_path / "deep" / "policy.safetensors"
    policy.save(file)
    loaded = Policy.load(file)
    assert loaded.about == {"model": "the toy"} and loaded.features == ("confidence",) and loaded.history == 3
    task = ChainTask()
    runs = []
    for order in (policy, loaded):
        context, state, _ = task.start(8, 3)
        runs.append([s.z for s in unroll(task.model, context, state, Decoder(Coordinates(order, temperature=1.0)))])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(runs[0], _orders(some_policy(seed=1)), strict=True))


def _orders(policy: Policy) -> list[torch.Tensor]:
    task = ChainTask()
    context, state, _ = task.start(8, 3)
    return [s.z for s in unroll(task.model, context, state, Decoder(Coordinates(policy, temperature=1.0)))]


def test_wrong_files_and_models_are_refused_with_reasons(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    with pytest.raises(PolicyError, match="no policy file"):
        Policy.load(tmp_path / "none.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(PolicyError, match="not a safetensors file"):
        Policy.load(tmp_path / "text.safetensors")
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(PolicyError, match="holds no policy"):
        Policy.load(tmp_path / "other.safetensors")
    with pytest.raises(PolicyError, match="no feature 'height'"):
        Policy(4, features=("height",))
    narrow = Policy(WIDTH - 1, 0, 4, (), {"model": "small"})
    with pytest.raises(PolicyError, match=r"width 6.*gives 7.*small"):
        final(narrow)
    with pytest.raises(PolicyError, match="width 6"):
        check_width(narrow, WIDTH)


def test_orders_do_not_depend_on_padding_or_company() -> None:
    task, policy = ChainTask((0, 1, 2, 3, 4, 5)), some_policy()
    from anyorder.core import NoContext, begin, canvas

    lengths = torch.tensor([6, 3, 1])
    seeds = torch.tensor([11, 12, 13])
    blank = canvas(lengths, MASK, PAD)
    decoder = Decoder(Coordinates(policy, temperature=1.0), task.symbols)
    together = decode(task.model, NoContext(), begin(blank, MASK, PAD, seed=seeds), decoder)
    for row, length in enumerate(lengths.tolist()):
        state = begin(blank[row : row + 1, :length], MASK, PAD, seed=seeds[row : row + 1])
        alone = decode(task.model, NoContext(), state, decoder)
        assert torch.equal(alone.tokens[0], together.tokens[row, :length])
        torch.testing.assert_close(alone.score[0], together.score[row])
