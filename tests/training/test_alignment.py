"""The objective of latent alignments: gradients by autograd, shown slots, left-out pairs, a start from a model."""

from __future__ import annotations

import torch

from anyorder.core import slots as S
from anyorder.data.ragged import Ragged
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.latent_alignment import LatentAlignment
from anyorder.models.translation import Source, SpecialIds
from anyorder.training.alignment import AlignmentObjective, alignment_loss, fitting
from anyorder.training.masking import Corruption
from anyorder.training.objectives import Corpus
from anyorder.training.run import begin_from

SPECIAL = SpecialIds()


def model() -> LatentAlignment:
    torch.manual_seed(0)
    return LatentAlignment(Architecture(40, 16, 1, 2, 32, positions=40, slots=[2, 2]), SPECIAL, ("de", "en"))


def corpus(n: int = 30) -> Corpus:
    g = torch.Generator().manual_seed(0)
    sizes = [torch.randint(1, 9, (n,), generator=g).tolist() for _ in range(2)]
    first, second = ([torch.randint(5, 40, (k,), generator=g).tolist() for k in side] for side in sizes)
    return Corpus(Ragged.of(first), Ragged.of(second))


def test_gradients_are_those_of_autograd() -> None:
    g = torch.Generator().manual_seed(0)
    texts, lengths, slots = torch.tensor([[1, 1, 2], [3, 2, 0]]), torch.tensor([3, 2]), torch.tensor([6, 4])
    real = torch.arange(6) < slots[:, None]
    parts = [torch.randn(*size, generator=g) for size in ((2, 6, 5), (7, 5), (7,))]
    s = S.states(texts, lengths, 0)
    for held in (None, torch.tensor([[0, -1, 1, -1, -1, -1], [-1, -1, 3, -1, -1, -1]])):
        free = real if held is None else real & (held < 0)
        n, i = free.nonzero(as_tuple=True)
        mine, theirs = ([p.clone().requires_grad_() for p in parts] for _ in range(2))
        loss, *_ = alignment_loss(mine[0][n, i], mine[1], mine[2], n, i, s, slots, held)
        loss.backward()
        logp = (theirs[0] @ theirs[1].mT + theirs[2]).log_softmax(-1)
        e = S.emissions(logp.gather(2, s.columns[:, None].expand(-1, 6, -1)), s, held)
        total = -S.log_sum(e, s, slots).sum()
        total.backward()
        torch.testing.assert_close(loss, total, rtol=1e-5, atol=1e-5)
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_pairs_that_do_not_fit_are_left_out() -> None:
    pairs = Corpus(Ragged.of([[7], [7, 8]]), Ragged.of([[5, 5, 5], [6]]))  # 4 slots, and 5 are needed
    kept, left = fitting(model(), pairs)
    assert (len(kept), left) == (3, 1)
    assert kept.target is not None
    assert [(kept.first.row(i), int(kept.target[i])) for i in range(3)] == [([7, 8], 1), ([7], 0), ([7, 8], 0)]


def test_it_counts_the_slots_that_are_predicted_and_learns() -> None:
    m = model()
    pairs, _ = fitting(m, corpus())
    objective = AlignmentObjective(m, pairs, 0.0, Corruption(own=0.3), [8, 4])
    rows = torch.arange(len(pairs))
    optimizer = torch.optim.Adam(m.parameters(), lr=3e-3)
    losses = []
    for step in range(60):
        torch.manual_seed(step)
        batch = objective.batch(pairs, rows, torch.Generator().manual_seed(step))
        count = batch.pop("count")
        slots = int(m.slots(torch.where(pairs.target == 1, pairs.first.lengths, pairs.second.lengths)).sum())
        assert slots < int(count) <= 2 * slots
        loss = objective(**batch) / count
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_a_whole_output_layer_is_what_evaluation_sees() -> None:
    m = model()
    pairs, _ = fitting(m, corpus(4))
    batch = AlignmentObjective(m, pairs, 0.0, Corruption(), []).batch(pairs, torch.arange(7), torch.Generator())
    batch.pop("count")
    few, all_ = (AlignmentObjective(m, pairs, 0.0, Corruption(), x).eval() for x in ([8, 4], []))
    with torch.no_grad():
        torch.testing.assert_close(few(**batch), all_(**batch))


def test_it_starts_from_an_autoregressive_model(tmp_path) -> None:
    from anyorder.models.folder import save_model

    torch.manual_seed(1)
    start = Autoregressive(Architecture(40, 16, 1, 2, 32, positions=16), SPECIAL, ("de", "en"))
    save_model(start, tmp_path / "start")
    m = model()
    begin_from(m, tmp_path / "start")
    torch.testing.assert_close(m.decoder.attentions[0].qkv_lin.weight, start.decoder.attentions[0].qkv_lin.weight)
    torch.testing.assert_close(m.decoder.embeddings.weight[SPECIAL.mask], start.decoder.embeddings.weight[SPECIAL.mask])
    place = m.decoder.position_embeddings.weight
    theirs = start.decoder.position_embeddings.weight
    torch.testing.assert_close(place[4] + place[5], theirs[2] + (theirs[2] + theirs[3]) / 2)
    context = m.encode(Source(torch.randint(5, 40, (8, 6)), 0, 1))
    canvas = torch.full((8, 14), SPECIAL.mask)
    blank = m.logits(m.hidden(context, canvas).flatten(0, 1)).softmax(1)[:, SPECIAL.blank].mean()
    assert 0.2 < blank < 0.6


def test_the_offset_is_chosen_once(tmp_path) -> None:
    from anyorder.models.folder import ModelFolder
    from anyorder.training.offset import choose_offset

    folder, m, asked = ModelFolder(tmp_path / "best"), model(), []
    folder.save(m, story={"run": "toy"})

    def validate(trial) -> dict[str, float]:
        asked.append(float((m.decoder.proj_bias - trial.decoder.proj_bias).detach()[0]))
        return {"de-en": -((asked[-1] - 1.2) ** 2)}

    assert choose_offset(folder, validate) == choose_offset(folder, validate) == 1.0
    assert len(asked) == 5 and (folder.story or {})["run"] == "toy"
    assert float(folder.model().decoder.proj_bias[0]) == float(m.decoder.proj_bias[0]) - 1
