"""p(L|X): counted, given, or implied."""

from __future__ import annotations

import pytest
import torch

from anyorder.core import Coordinates, Counts, Decoder, Given, UntilEos, begin, leftmost

PAIRS = [(3, 3)] * 6 + [(3, 4)] * 3 + [(3, 2)] + [(5, 5)] * 4 + [(5, 6)] * 4 + [(9, 10)] * 2


def test_the_most_frequent_lengths_come_first_with_their_log_probabilities() -> None:
    lengths, logp = Counts.of(PAIRS).propose(torch.tensor([3, 5]), 3)
    assert lengths[0].tolist() == [3, 4, 2]
    # counts and one pseudo-count of the smooth estimate: a little less, or more, than the frequency
    torch.testing.assert_close(logp[0].exp(), torch.tensor([6.0, 3.0, 1.0]) / 10, atol=0.06, rtol=0)
    assert set(lengths[1, :2].tolist()) == {5, 6} and float(logp[1, :2].exp().sum()) > 0.85


def test_it_is_a_distribution() -> None:
    model = Counts.of(PAIRS)
    for source in (1, 3, 5, 7, 30):
        _, logp = model.propose(torch.tensor([source]), 60)
        assert float(logp.exp().sum()) == pytest.approx(1.0, abs=1e-4)
        assert logp[0].tolist() == sorted(logp[0].tolist(), reverse=True)


def test_a_length_never_seen_follows_the_line() -> None:
    pairs = [(s, 2 * s + 1) for s in range(1, 20) for _ in range(3)]
    lengths, logp = Counts.of([p for p in pairs if p[0] != 10]).propose(torch.tensor([10, 40]), 3)
    assert lengths[:, 0].tolist() == [21, 81]
    assert torch.isfinite(logp).all() and (lengths >= 1).all()


def test_one_source_length_and_short_ones_still_give_lengths_of_at_least_one() -> None:
    lengths, logp = Counts.of([(4, 1)] * 3).propose(torch.tensor([4, 1, 0]), 5)
    assert (lengths >= 1).all() and lengths[0, 0] == 1
    assert all(len(set(row)) == 5 for row in lengths.tolist())
    assert (logp <= 0).all()


def test_proposals_do_not_depend_on_the_batch() -> None:
    model = Counts.of(PAIRS)
    sources = torch.tensor([3, 90, 12, 7])
    together = model.propose(sources, 4)
    for r in range(4):
        for whole, one in zip(together, model.propose(sources[r : r + 1], 4), strict=True):
            assert torch.equal(whole[r], one[0])


def test_given_lengths_and_until_eos() -> None:
    sources = torch.tensor([2, 3])
    assert [x.tolist() for x in Given(7).propose(sources, 4)] == [[[7], [7]], [[0.0], [0.0]]]
    assert Given(torch.tensor([4, 6])).propose(sources, 1)[0].tolist() == [[4], [6]]
    rule = UntilEos(5, eos_id=0)
    assert rule.propose(sources, 3)[0].tolist() == [[5], [5]]
    mask, pad = 8, 9
    tokens = torch.tensor([[0, 1, 0, mask, mask], [1, 1, mask, mask, mask]])
    open_ = torch.tensor([[False, True, True, True, True], [True] * 5])  # the first <eos> is part of a prompt
    done = rule.finish(begin(tokens, mask, pad, open=open_))
    assert done.tokens.tolist() == [[0, 1, 0, pad, pad], tokens[1].tolist()]
    assert done.open[0].tolist() == [False, True, True, False, False] and done.open[1].all()


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="no training pairs"):
        Counts.of([])
    with pytest.raises(ValueError, match="of at least 1, got 0"):
        Counts.of(PAIRS).propose(torch.tensor([3]), 0)
    with pytest.raises(ValueError, match="no length model"):
        Decoder(Coordinates(leftmost)).length.propose(torch.tensor([3]), 1)
