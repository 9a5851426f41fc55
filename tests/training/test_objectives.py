"""Batches, masks, objectives and optimizers: exact where they can be, statistical where they are random."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.data.ragged import Ragged
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.cmlm import ConditionalMasked
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source, SpecialIds
from anyorder.training.cross_entropy import output_loss
from anyorder.training.masking import Corruption, canvas, choose, epochs, one_epoch
from anyorder.training.objectives import (
    AutoregressiveObjective,
    ConditionalMaskedObjective,
    Corpus,
    MaskedTranslationObjective,
)
from anyorder.training.optimizer import Average, Muon, learning_rate, optimizers, orthogonalised

S = SpecialIds()


def gen(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def corpus(n: int = 30, seed: int = 0) -> Corpus:
    g = gen(seed)
    rows = [[torch.randint(5, 40, (int(k),), generator=g).tolist() for k in torch.randint(1, 9, (n,), generator=g)]
            for _ in range(2)]  # fmt: skip
    return Corpus(Ragged.of(rows[0]), Ragged.of(rows[1]))


def model(kind: type):
    torch.manual_seed(0)
    return kind(Architecture(40, 16, 1, 2, 32, positions=16), S, ("de", "en"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=80), st.integers(30, 200), st.integers(0, 5))
def test_an_epoch_has_every_example_once_within_the_budget(sizes: list[int], budget: int, seed: int) -> None:
    t = torch.tensor(sizes)
    cuts = one_epoch(t, t, budget, gen(seed))
    assert sorted(i for cut in cuts for i in cut.tolist()) == list(range(len(sizes)))
    for cut in cuts:
        assert len(cut) * int(t[cut].max()) <= budget


def test_batches_hardly_pad_and_respect_the_sentence_limit() -> None:
    t = torch.randint(5, 40, (5000,), generator=gen())
    cuts = one_epoch(t, t, 2048, gen(1))
    padded = sum(len(c) * int(t[c].max()) for c in cuts)
    assert padded / int(t.sum()) < 1.02
    assert max(len(c) for c in one_epoch(t, t, 2048, gen(1), sentences=8)) == 8


def test_epochs_resume_anywhere() -> None:
    t = torch.randint(5, 40, (200,), generator=gen())
    whole = [next_ for _, next_ in zip(range(40), epochs(t, t, 256, seed=3), strict=False)]
    epoch, i, _ = whole[25]
    resumed = [next_ for _, next_ in zip(range(15), epochs(t, t, 256, seed=3, start=(epoch, i)), strict=False)]
    for (e1, i1, r1), (e2, i2, r2) in zip(whole[25:], resumed, strict=True):
        assert (e1, i1) == (e2, i2) and torch.equal(r1, r2)
    assert not torch.equal(whole[0][2], next(iter(epochs(t, t, 256, seed=4)))[2])


def test_the_canvas_of_two_sides() -> None:
    a, b = Ragged.of([[10, 11], [12]]), Ragged.of([[20], [21, 22, 23]])
    c = canvas([(a, torch.tensor([0, 1]), 0), (b, torch.tensor([0, 1]), 1)], S)
    assert c.tokens.tolist() == [[1, 10, 11, 1, 1, 20, 1, 2], [1, 12, 1, 1, 21, 22, 23, 1]]
    assert c.positions.tolist() == [[0, 1, 2, 3, 0, 1, 2, 0], [0, 1, 2, 0, 1, 2, 3, 4]]
    assert c.languages[1].tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert c.sides[0].tolist() == [-1, 0, 0, -1, -1, 1, -1, -1]
    assert c.visible is not None and c.visible[0, 0, 0].tolist() == [True] * 7 + [False]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 1))
def test_so_many_as_asked_are_chosen_among_candidates(seed: int, ratio: float) -> None:
    candidates = torch.rand(6, 12, generator=gen(seed)) < 0.6
    candidates[:, 0] = True
    chosen = choose(candidates, torch.full((6,), ratio), gen(seed + 1))
    assert not (chosen & ~candidates).any()
    for row, of in zip(chosen.sum(1).tolist(), candidates.sum(1).tolist(), strict=True):
        assert row == max(1, math.ceil(torch.tensor(ratio).mul(of).item()))


def test_mask_ratios_are_uniform_a_sentence_and_one_a_batch_as_the_authors_do() -> None:
    tokens = torch.full((20000, 10), 7)
    everywhere = torch.ones_like(tokens, dtype=torch.bool)
    new, chosen = Corruption()(tokens, everywhere, S, 40, gen())
    counts = torch.bincount(chosen.sum(1), minlength=11)[1:].float()
    chi2 = float(((counts - 2000) ** 2 / 2000).sum())
    assert chi2 < 27.9  # 9 degrees of freedom, p = 0.001
    assert torch.equal(new == S.mask, chosen)
    _, together = Corruption(per_batch=True)(tokens, everywhere, S, 40, gen())
    assert together.sum(1).unique().numel() == 1
    _, low = Corruption(0.2, 0.4)(tokens, everywhere, S, 40, gen())
    assert int(low.sum(1).min()) >= 2 and int(low.sum(1).max()) <= 4


def test_bert_corruption_is_80_10_10() -> None:
    tokens = torch.full((2000, 50), 7)
    new, chosen = Corruption(1.0, 1.0, bert=True)(tokens, torch.ones_like(tokens, dtype=torch.bool), S, 1000, gen())
    share = lambda x: float(x.float().mean())  # noqa: E731
    assert chosen.all()
    assert abs(share(new == S.mask) - 0.8) < 0.005 and abs(share(new == 7) - 0.1) < 0.005
    assert int(new[new != 7].min()) == S.mask  # random symbols are never special


def test_masked_translation_masks_one_side_only() -> None:
    objective = MaskedTranslationObjective(model(MaskedTranslation), corpus(), 0.0, Corruption())
    batch = objective.batch(objective.corpus, torch.arange(30), gen())
    sides = canvas(
        [(objective.corpus.first, torch.arange(30), 0), (objective.corpus.second, torch.arange(30), 1)], S
    ).sides
    seen = set()
    for row in range(30):
        masked = set(sides[row][batch["chosen"][row]].tolist())
        assert len(masked) == 1 and -1 not in masked
        seen |= masked
    assert seen == {0, 1} and int(batch["count"]) == int(batch["chosen"].sum()) == len(batch["targets"])


def test_the_last_layer_at_the_chosen_columns_is_the_whole_model_there() -> None:
    pairs, joint = corpus(), model(MaskedTranslation)
    objective = MaskedTranslationObjective(joint, pairs, 0.1, Corruption())
    b = objective.batch(pairs, torch.arange(8), gen(2))
    states = joint.transformer(b["tokens"], b["positions"], b["languages"], b.get("visible"))
    whole = F.cross_entropy(joint.logits(states[b["chosen"]]), b["targets"], label_smoothing=0.1, reduction="sum")
    gradients = [torch.autograd.grad(loss, list(joint.parameters())) for loss in (objective(**b), whole)]
    torch.testing.assert_close(objective(**b), whole)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_distilled_pairs_are_predicted_on_their_written_side_only() -> None:
    base = corpus()
    target = torch.arange(30) % 2
    distilled = Corpus(base.first, base.second, target=target)
    objective = MaskedTranslationObjective(model(MaskedTranslation), distilled, 0.0, Corruption())
    batch = objective.batch(distilled, torch.arange(30), gen())
    sides = canvas([(base.first, torch.arange(30), 0), (base.second, torch.arange(30), 1)], S).sides
    assert all(set(sides[r][batch["chosen"][r]].tolist()) == {int(target[r])} for r in range(30))
    directed = AutoregressiveObjective(model(Autoregressive), distilled, 0.0, Corruption())
    assert len(directed.sizes) == 30
    source, written, _, _ = directed.sides(distilled, torch.tensor([0, 1]))
    assert written[0][written[0] != 2].tolist() == base.first.row(0) and source[1][
        source[1] != 2
    ].tolist() == base.first.row(1)


def test_autoregressive_loss_is_the_log_likelihood() -> None:
    c = corpus(4)
    objective = AutoregressiveObjective(model(Autoregressive).eval(), c, 0.0, Corruption()).eval()
    rows = torch.tensor([0, 2, 5, 7])  # pairs 0 and 2 forwards, 1 and 3 backwards
    batch = objective.batch(c, rows, gen())
    count = batch.pop("count")
    expected = 0.0
    for e in rows.tolist():
        a, b = c.first.row(e % 4), c.second.row(e % 4)
        source, target, s, t = (a, b, 0, 1) if e < 4 else (b, a, 1, 0)
        target = [*target, S.eos]
        context = objective.model.encode(Source(torch.tensor([source]), s, t))
        logp = objective.model.logits(objective.model.hidden(context, torch.tensor([target]))[0]).log_softmax(-1)
        expected -= float(logp[torch.arange(len(target)), torch.tensor(target)].sum().detach())
    assert float(objective(**batch).detach()) == pytest.approx(expected, rel=1e-4)
    assert int(count) == sum(len((c.second if e < 4 else c.first).row(e % 4)) + 1 for e in rows.tolist())


@pytest.mark.parametrize(
    ("objective", "kind"),
    [
        (MaskedTranslationObjective, MaskedTranslation),
        (AutoregressiveObjective, Autoregressive),
        (ConditionalMaskedObjective, ConditionalMasked),
    ],
)
def test_the_gradient_of_a_batch_is_the_sum_of_its_parts(objective: type, kind: type) -> None:
    """Padding and bucketing change nothing: a batch's loss is the sum of its sentences' losses."""
    c = corpus(6)
    o = objective(model(kind), c, 0.1, Corruption(1.0, 1.0))  # everything masked: nothing random but the side
    whole = Corpus(c.first, c.second, target=torch.ones(6, dtype=torch.int64))
    rows = torch.arange(6)

    def loss(rows: torch.Tensor) -> float:
        batch = o.batch(whole, rows, gen())
        batch.pop("count")
        return float(o(**batch).detach())

    assert loss(rows) == pytest.approx(sum(loss(rows[i : i + 1]) for i in range(6)), rel=1e-4)


def test_learning_rate_shape() -> None:
    rate = lambda step, schedule="inverse-sqrt", cooldown=0: learning_rate(step, 1.0, 100, 1000, cooldown, schedule)  # noqa: E731
    assert rate(0) == 0.01 and rate(99) == 1.0
    assert rate(399) == pytest.approx(0.5) and rate(899) == pytest.approx(1 / 3)
    assert rate(500, "constant") == 1.0 and rate(999, "constant", 100) == pytest.approx(0.01)
    assert learning_rate(0, 1.0, 0, 10, 0, "constant") == 1.0


def test_orthogonalised_matrices_have_singular_values_near_one() -> None:
    g = torch.randn(3, 16, 40, generator=gen())
    values = torch.linalg.svdvals(orthogonalised(g))
    assert float(values.min()) > 0.5 and float(values.max()) < 1.4
    u, _, v = torch.linalg.svd(g, full_matrices=False)
    assert float((orthogonalised(g) * (u @ v)).sum((1, 2)).min()) > 0.9 * 0.7 * 16


def test_muon_takes_all_and_only_linear_weights_and_descends() -> None:
    m = model(Autoregressive)
    adam, muon = optimizers(m, "muon", (0.9, 0.98), 0.0)
    assert isinstance(muon, Muon)
    ours = {id(p) for g in muon.param_groups for p in g["params"]}
    assert ours == {id(x.weight) for x in m.modules() if isinstance(x, torch.nn.Linear)}
    rest = {id(p) for g in adam.param_groups for p in g["params"]}
    assert ours | rest == {id(p) for p in m.parameters()} and not ours & rest
    x, w = torch.randn(64, 8, generator=gen()), torch.randn(4, 8, generator=gen(1))
    lin = torch.nn.Linear(8, 4, bias=False)
    step = Muon([lin.weight], lr=0.1)
    losses = []
    for _ in range(120):
        loss = (lin(x) - x @ w.T).pow(2).mean()
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.02 * losses[0]


def test_average_follows_its_formula() -> None:
    m = torch.nn.Linear(1, 1, bias=False)
    average = Average(m, 0.5)
    value = float(m.weight.detach())
    for n, new in enumerate([3.0, -1.0, 2.0, 5.0, 8.0, 0.0, 1.0, 1.0, 1.0, 4.0]):
        m.weight.data.fill_(new)
        average.update(m)
        keep = min(0.5, (1 + n) / (10 + n))
        value = keep * value + (1 - keep) * new
    assert float(average.weights["weight"]) == pytest.approx(value, rel=1e-5)


def test_the_loss_with_its_gradients_found_on_the_way_is_the_plain_one() -> None:
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(1100, 6), torch.randn(40, 6), torch.randn(40)
    targets = torch.randint(0, 40, (1100,))
    given = [x.requires_grad_() for x in (hidden, weight, bias)]
    for smoothing in (0.0, 0.1):
        plain = F.cross_entropy(F.linear(*given), targets, label_smoothing=smoothing, reduction="sum")
        ours, best = output_loss(*given, targets, smoothing)
        assert torch.equal(best, F.linear(*given).argmax(1))
        torch.testing.assert_close(ours, plain)
        both = (torch.autograd.grad(loss / 7, given) for loss in (ours, plain))
        for a, b in zip(*both, strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_a_later_copy_shows_the_models_own_symbols_where_the_one_before_was_masked() -> None:
    pairs, m = corpus(), model(ConditionalMasked)
    objective = ConditionalMaskedObjective(m, pairs, 0.0, Corruption(copies=2, own=1.0)).train()
    batch = objective.batch(pairs, torch.arange(12), gen())
    seen: list[torch.Tensor] = []
    hidden_at = m.hidden_at
    m.hidden_at = lambda context, tokens, n, i: seen.append(tokens) or hidden_at(context, tokens, n, i)
    objective(**{k: v for k, v in batch.items() if k != "count"})
    first, second = batch["tokens"]
    torch.testing.assert_close(seen[0], first)
    masked_then, visible_now = first.eq(S.mask), second.ne(S.mask)
    changed = seen[1].ne(second)
    assert changed.any() and not (changed & ~(masked_then & visible_now)).any()
    objective.eval()(**{k: v for k, v in batch.items() if k != "count"})
    torch.testing.assert_close(seen[3], second)  # validation shows the references


def test_sentences_that_are_learned_forwards_add_their_log_likelihood() -> None:
    pairs, rows = corpus(6), torch.arange(12)
    sizes = Architecture(40, 16, 2, 2, 32, positions=24, forwards=True)
    torch.manual_seed(0)
    m = ConditionalMasked(sizes, S, ("de", "en"))
    losses, counts = [], []
    for share in (0.0, 1.0):
        objective = ConditionalMaskedObjective(m, pairs, 0.0, Corruption(forwards=share)).eval()
        batch = objective.batch(pairs, rows, gen())
        counts.append(int(batch.pop("count")))
        losses.append(float(objective(**batch).detach()))
    causal = AutoregressiveObjective(m.forwards, pairs, 0.0, Corruption()).eval()
    batch = causal.batch(pairs, rows, gen())
    assert counts[1] - counts[0] == int(batch.pop("count"))
    assert losses[1] - losses[0] == pytest.approx(float(causal(**batch).detach()), rel=1e-4)
