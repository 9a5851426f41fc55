"""Canvases of slots against brute force: every alignment of a text written out."""

from __future__ import annotations

import itertools

import pytest
import torch

from anyorder.core import slots as S
from anyorder.core.prefix_beam import prefix_beam

V, BLANK, PAD = 4, 0, 9
TEXTS, SLOTS = [[1, 1, 2], [3], [1, 2], [2, 2], [1, 2, 1], []], [6, 4, 5, 4, 3, 2]


def collapsed(canvas: tuple[int, ...]) -> list[int]:
    """The text of a canvas, by the definition."""
    return [x for x, before in zip(canvas, (BLANK, *canvas), strict=False) if x not in (before, BLANK)]


def problem(seed: int) -> tuple[torch.Tensor, S.States, torch.Tensor]:
    """log p (N, S, V) of random logits, the states of TEXTS, and their slots."""
    g = torch.Generator().manual_seed(seed)
    logp = torch.randn(len(TEXTS), max(SLOTS), V, generator=g, dtype=torch.float64).log_softmax(-1)
    texts = torch.tensor([t + [PAD] * (3 - len(t)) for t in TEXTS])
    return logp, S.states(texts, torch.tensor([len(t) for t in TEXTS]), BLANK), torch.tensor(SLOTS)


def emissions(logp: torch.Tensor, s: S.States, held: torch.Tensor | None = None) -> torch.Tensor:
    """Those of the columns alone."""
    return S.emissions(logp.gather(2, s.columns[:, None].expand(-1, logp.shape[1], -1)), s, held)


def alignments(n: int) -> list[tuple[int, ...]]:
    """Every canvas that reads as text n."""
    return [c for c in itertools.product(range(V), repeat=SLOTS[n]) if collapsed(c) == TEXTS[n]]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sums_and_gradients_are_those_of_all_alignments(seed: int) -> None:
    logp, s, slots = problem(seed)
    logp.requires_grad_()
    found = S.log_sum(emissions(logp, s), s, slots)
    (mine,) = torch.autograd.grad(found.sum(), logp)
    sums = []
    for n in range(len(TEXTS)):
        each = [sum(logp[n, t, x] for t, x in enumerate(c)) for c in alignments(n)]
        sums.append(torch.logsumexp(torch.stack(each), 0))
    (theirs,) = torch.autograd.grad(torch.stack(sums).sum(), logp)
    torch.testing.assert_close(found, torch.stack(sums))
    torch.testing.assert_close(mine, theirs)
    with torch.no_grad():
        torch.testing.assert_close(S.log_sum(emissions(logp, s), s, slots), found.detach())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_alignment_is_the_best(seed: int) -> None:
    logp, s, slots = problem(seed)
    path = S.best_alignment(emissions(logp, s), s, slots)
    for n, text in enumerate(TEXTS):
        canvas = s.symbols[n][path[n]][: SLOTS[n]].tolist()
        assert canvas == list(max(alignments(n), key=lambda c: sum(float(logp[n, t, x]) for t, x in enumerate(c))))
        assert collapsed(tuple(canvas)) == text


def test_held_states_leave_the_alignments_that_go_through_them() -> None:
    logp, s, slots = problem(3)
    path = S.best_alignment(emissions(logp, s), s, slots)
    held = torch.where(torch.rand(path.shape, generator=torch.Generator().manual_seed(0)) < 0.4, path, -1)
    found = S.log_sum(emissions(logp, s, held), s, slots)
    for n, text in enumerate(TEXTS):
        states, total = 2 * len(text) + 1, []
        for walk in itertools.product(range(states), repeat=SLOTS[n]):
            steps = [b - a for a, b in itertools.pairwise(walk)]
            legal = walk[0] <= 1 and walk[-1] >= states - 2
            legal &= all(d in (0, 1) or (d == 2 and s.skip[n, b] == 0) for d, b in zip(steps, walk[1:], strict=True))
            if legal and all(held[n, t] in (-1, j) for t, j in enumerate(walk)):
                free = [logp[n, t, s.symbols[n, j]] for t, j in enumerate(walk) if held[n, t] < 0]
                total.append(sum(free, torch.zeros((), dtype=torch.float64)))
        torch.testing.assert_close(found[n], torch.logsumexp(torch.stack(total), 0))


def test_a_canvas_too_short_has_no_alignment() -> None:
    texts, lengths = torch.tensor([[1, 1, PAD], [1, 2, 3]]), torch.tensor([2, 3])
    assert S.needed(texts, lengths).tolist() == [3, 3]
    logp = torch.zeros(2, 2, V).log_softmax(-1)
    s = S.states(texts, lengths, BLANK)
    assert S.log_sum(emissions(logp, s), s, torch.tensor([2, 2])).tolist() == [-torch.inf, -torch.inf]


def test_what_stands_on_a_canvas() -> None:
    canvas = torch.tensor([[0, 1, 1, 0, 1, 2, 2, PAD], [3, 3, 3, 0, 0, PAD, PAD, PAD]])
    kept = S.stands(canvas, BLANK, PAD)
    assert [row[k].tolist() for row, k in zip(canvas, kept, strict=True)] == [[1, 1, 2], [3]]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_wide_prefix_beam_finds_every_text_with_the_mass_of_its_alignments(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    logp = (2 * torch.randn(3, 5, V, generator=g, dtype=torch.float64)).log_softmax(-1)
    slots = torch.tensor([5, 3, 4])
    symbols = torch.arange(V).expand(3, 5, V)
    found = prefix_beam(symbols, logp, slots, BLANK, PAD, 200)
    for n, size in enumerate(slots.tolist()):
        mass: dict[tuple[int, ...], float] = {}
        for c in itertools.product(range(V), repeat=size):
            text = tuple(collapsed(c))
            mass[text] = mass.get(text, 0.0) + float(sum(logp[n, t, x] for t, x in enumerate(c)).exp())
        best = sorted(mass, key=lambda text: -mass[text])
        mine = [tuple(x for x in row if x != PAD) for row in found.tokens[n].tolist()]
        kept = [k for k, s in enumerate(found.score[n].tolist()) if s > -torch.inf]
        assert [mine[k] for k in kept] == best[: len(kept)] and len(kept) == min(len(best), 200)
        torch.testing.assert_close(
            found.score[n, kept].exp(), torch.tensor([mass[t] for t in best], dtype=torch.float64)
        )


def test_a_narrow_prefix_beam_does_not_depend_on_the_batch() -> None:
    logp, _, slots = problem(0)
    symbols = torch.arange(V).expand(*logp.shape[:2], V)
    together = prefix_beam(symbols, logp, slots, BLANK, PAD, 3)
    for n in range(len(slots)):
        alone = prefix_beam(
            symbols[n : n + 1, : slots[n]], logp[n : n + 1, : slots[n]], slots[n : n + 1], BLANK, PAD, 3
        )
        width = alone.tokens.shape[2]
        assert torch.equal(together.tokens[n, :, :width], alone.tokens[0])
        torch.testing.assert_close(together.score[n], alone.score[0])


def test_the_chain_rule_symbol_by_symbol() -> None:
    logp, s, slots = problem(1)
    found = S.chain(emissions(logp, s), s, slots)
    for n, text in enumerate(TEXTS):
        mass = [0.0] * (len(text) + 2)  # of canvases that begin with the first i symbols; of those that are the text
        for c in itertools.product(range(V), repeat=SLOTS[n]):
            p, said = float(sum(logp[n, t, x] for t, x in enumerate(c)).exp()), collapsed(c)
            for i in range(len(text) + 1):
                mass[i] += p * (said[:i] == text[:i])
            mass[-1] += p * (said == text)
        wanted = [torch.tensor(b / a).log() for a, b in itertools.pairwise(mass)]
        torch.testing.assert_close(found[n, : len(text) + 1], torch.stack(wanted).double(), rtol=1e-5, atol=1e-5)
        assert not found[n, len(text) + 1 :].any()
