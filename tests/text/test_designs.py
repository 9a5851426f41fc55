"""Designs: what is fixed stays, rules hold, results are reproducible and do not depend on the batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cli_support import build_esm
from test_effects import WILD, log_p

import anyorder
from anyorder.errors import AnyorderError
from anyorder.text.designs import Chain, longest_run, read_stretches


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return anyorder.load(build_esm(tmp_path_factory.mktemp("models") / "esm"))


def test_only_the_stretches_change_and_rules_hold(writer: Any) -> None:
    found = writer.design(WILD, "3-6,10", n=12, ban=["C", "10:AG"], allow="3-4:DEKR", seed=5)
    assert len({d.sequence for d in found}) == 12
    for d in found:
        s = d.sequence
        assert len(s) == len(WILD) and s[:2] == WILD[:2] and s[6:9] == WILD[6:9] and s[10:] == WILD[10:]
        assert set(s[2:4]) <= set("DEKR") and "C" not in s[2:6] and s[9] not in "CAG"
        assert d.identity == pytest.approx(sum(a == b for a, b in zip(s, WILD, strict=True)) / len(WILD))
        assert [p is not None for p in d.symbol_logp] == [2 <= i < 6 or i == 9 for i in range(len(WILD))]
        assert writer.score(s).total == pytest.approx(d.pll, abs=1e-3)
        assert anyorder.text.effects.variant(WILD, d.mutant).sequence == s


def test_designs_are_reproducible_and_free_of_the_batch(writer: Any) -> None:
    many = writer.design(WILD, "3-6", n=6, seed=2, pll=False)
    assert many == writer.design(WILD, "3-6", n=6, seed=2, pll=False)
    few = writer.design(WILD, "3-6", n=2, seed=2, pll=False)
    assert [d.sequence for d in many[:2]] == [d.sequence for d in few]
    assert many != writer.design(WILD, "3-6", n=6, seed=3, pll=False)


def test_the_joint_log_p_is_the_chain_rule_in_the_order_written(writer: Any) -> None:
    (d,) = writer.design(WILD, "4-6", order="left2right", temperature=0.0, pll=False)
    letters = list(WILD)
    letters[3:6] = ["", "", ""]
    total = 0.0
    for i in (3, 4, 5):
        some = {c: log_p(writer, letters, i, c) for c in "ACDEFGHIKLMNPQRSTVWY"}
        norm = float(torch.tensor(list(some.values())).logsumexp(0))
        total += some[d.sequence[i]] - norm
        letters[i] = d.sequence[i]
    assert d.logp == pytest.approx(total, abs=1e-3)


def test_lengths_may_vary(writer: Any) -> None:
    found = writer.design(WILD, "3-6:2-7", n=10, pll=False)
    sizes = {len(d.sequence) for d in found}
    assert len(sizes) > 2 and sizes <= set(range(len(WILD) - 2, len(WILD) + 4))
    for d in found:
        assert d.sequence.startswith(WILD[:2]) and d.sequence.endswith(WILD[6:])
        if len(d.sequence) != len(WILD):
            assert anyorder.text.effects.variant(WILD, d.mutant).sequence == d.sequence


def test_near_bounds_the_substitutions_and_runs_are_guarded(writer: Any) -> None:
    found = writer.design(WILD, "1-14", n=20, near=2, pll=False)
    assert all(sum(a != b for a, b in zip(d.sequence, WILD, strict=True)) <= 2 for d in found)
    assert all(longest_run(d.sequence) <= 2 for d in writer.design(WILD, "1-14", n=10, most_run=2, pll=False))


@pytest.mark.parametrize(
    "chain",
    [Chain(3, 2), Chain(4, 2, in_order=True, mask=False), Chain(4, top_k=3, burnin=2), Chain(2, leader_length=6)],
)
def test_chains_stay_in_the_stretches(writer: Any, chain: Chain) -> None:
    found = writer.design(WILD, "3-10", n=4, chain=chain, ban="C", pll=False)
    for d in found:
        assert d.sequence[:2] == WILD[:2] and d.sequence[10:] == WILD[10:] and "C" not in d.sequence[2:10]
        assert d.sequence[: chain.leader_length] == WILD[: chain.leader_length]
    assert found == writer.design(WILD, "3-10", n=4, chain=chain, ban="C", pll=False)


def test_a_chain_in_order_that_takes_the_best_is_a_plain_loop(writer: Any) -> None:
    """num_positions=1, in_order, top_k=1: each position in turn becomes the most probable letter."""
    (d,) = writer.design(WILD, "1-14", chain=Chain(num_iters=14, num_positions=1, in_order=True, top_k=1), pll=False)
    letters = list(WILD)
    for i in range(14):
        seen = [*letters[:i], "", *letters[i + 1 :]]
        letters[i] = max("ACDEFGHIKLMNPQRSTVWY", key=lambda c: log_p(writer, seen, i, c))
    assert d.sequence == "".join(letters)


@pytest.mark.parametrize(
    ("redesign", "options", "says"),
    [
        ("20-22", {}, "goes from 1 to 14"),
        ("3-6,5", {}, "overlap"),
        ("x", {}, "is no stretch"),
        ("3", {"n": 30}, "designs were found in"),
        ("3", {"ban": "U"}, "does not write U"),
        ("3", {"allow": "C", "ban": "C"}, "leave no symbol"),
        ("3:2-4", {"near": 1}, "keep their lengths"),
        ("3-5", {"chain": Chain(2), "order": "easy-first"}, "could have no effect"),
    ],
)
def test_what_cannot_be_designed_is_refused(writer: Any, redesign: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(AnyorderError, match=says):
        writer.design(WILD, redesign, pll=False, **options)


def test_stretches_are_read() -> None:
    assert [(s.start, s.stop, s.lengths) for s in read_stretches("30, 95-97:2-4", 120)] == [
        (29, 30, (1,)),
        (94, 97, (2, 3, 4)),
    ]
