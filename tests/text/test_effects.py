"""Effects of mutations: every convention equals its definition, computed by plain passes; notation and refusals."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import pytest
import torch
from cli_support import build_esm
from scipy import stats

import anyorder
from anyorder.errors import AnyorderError
from anyorder.text.effects import CONVENTIONS, Scorer, from_sequence, single_substitutions, spearman, stretches, variant

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
WILD = "MKTAYIAKQRQISF"
MUTANTS = ["A4G", "A4G:K8R", "K2R:T3S:Q11E", "A4A", "M1V:F14Y"]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return anyorder.load(build_esm(tmp_path_factory.mktemp("models") / "esm"))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return anyorder.load(build_esm(tmp_path_factory.mktemp("models") / "narrow", 10))


def log_p(writer: Any, letters: list[str], position: int, letter: str) -> float:
    """log p(letter at position | letters, "" where masked), by one plain pass."""
    ids = [writer.tokenizer.convert_tokens_to_ids(c) if c else writer.model.mask_id for c in letters]
    with torch.no_grad():
        logits = writer.model.model(input_ids=torch.tensor([[0, *ids, 2]])).logits[0, position + 1]
    return float(logits.log_softmax(-1)[writer.tokenizer.convert_tokens_to_ids(letter)])


def hidden(letters: str, *masked: int) -> list[str]:
    return ["" if i in masked else c for i, c in enumerate(letters)]


def brute(writer: Any, by: str, wild: str, mutant: str) -> float:
    """The definitions, term by term."""
    v = variant(wild, mutant)
    where, new = [i for i, _ in v.changes], v.sequence

    def p(letters: list[str], i: int, sequence: str) -> float:
        return log_p(writer, letters, i, sequence[i])

    def both(letters: Any) -> float:
        return sum(p(letters(i), i, new) - p(letters(i), i, wild) for i in where)

    def chain(order: Any, sequence: str) -> float:
        return sum(p(hidden(sequence, *order[k:]), i, sequence) for k, i in enumerate(order))

    def pll(sequence: str, at: Any) -> float:
        return sum(p(hidden(sequence, i), i, sequence) for i in at)

    orders = list(itertools.permutations(where))
    return {
        "wt-marginals": lambda: both(lambda i: list(wild)),
        "mt-marginals": lambda: both(lambda i: list(new)),
        "masked-marginals": lambda: both(lambda i: hidden(wild, i)),
        "joint-masked": lambda: both(lambda i: hidden(wild, *where)),
        "mutant-marginals": lambda: both(lambda i: hidden(new, i)),
        "own-context": lambda: pll(new, where) - pll(wild, where),
        "pll": lambda: pll(new, range(len(new))) - pll(wild, range(len(wild))),
        "any-order": lambda: sum(chain(o, new) - chain(o, wild) for o in orders) / len(orders),
        "left2right": lambda: chain(where, new) - chain(where, wild),
        "right2left": lambda: chain(where[::-1], new) - chain(where[::-1], wild),
    }[by]()


@pytest.mark.parametrize("by", CONVENTIONS)
def test_each_convention_is_its_definition(writer: Any, by: str) -> None:
    found = writer.effects(WILD, MUTANTS, by=by)
    assert [e.mutant for e in found] == MUTANTS and all(e.by == by for e in found)
    assert [float(e) for e in found] == pytest.approx([brute(writer, by, WILD, m) for m in MUTANTS], abs=1e-4)
    assert found[3] == 0.0 and max(map(abs, found)) > 0.1


def test_conventions_differ_on_double_mutants(writer: Any) -> None:
    values = [float(writer.effects(WILD, ["A4G:K8R"], by=by)[0]) for by in CONVENTIONS]
    assert len({round(v, 4) for v in values}) == len(CONVENTIONS)


def test_contexts_that_are_the_same_are_looked_at_once(writer: Any) -> None:
    before = writer.cost.canvases
    writer.effects(WILD, [f"A4{c}" for c in "GVLI"] + ["A4G:K8R", "K8R", "K8E"], by="masked-marginals")
    assert writer.cost.canvases - before == 2


def test_a_context_of_the_wild_type_is_remembered(writer: Any) -> None:
    scorer = Scorer(writer, WILD)
    scorer.score([variant(WILD, "A4G")])
    before = writer.cost.canvases
    scorer.score([variant(WILD, "A4V")])
    assert writer.cost.canvases == before


def test_notation() -> None:
    for same in ("A4G", "Ala4Gly", "p.Ala4Gly", "p.(A4G)"):
        assert variant(WILD, same).sequence == "MKTGYIAKQRQISF"
    assert variant(WILD, "A104G:K108R", offset=101).sequence == "MKTGYIARQRQISF"
    assert variant(WILD, "p.Ala4=").changes == () == variant(WILD, "WT").changes
    assert variant(WILD, "T3_A4del").sequence == "MKYIAKQRQISF"
    assert variant(WILD, "T3_A4insGG").sequence == "MKTGGAYIAKQRQISF"
    assert variant(WILD, "K2_A4delinsW").sequence == "MWYIAKQRQISF"
    assert from_sequence(WILD, "MKTGYIARQRQISF").mutant == "A4G:K8R"


@pytest.mark.parametrize(
    ("mutant", "says"),
    [
        ("G4A", "is A, not G"),
        ("A40G", "outside the sequence, which goes from 1 to 14"),
        ("A0G", "outside"),
        ("A4U", "does not know U"),
        ("A4G:A4V", "changed twice"),
        ("hello", "is no mutation"),
        ("", "is empty"),
        ("A4Ter", "is no mutation"),
        ("T3_A4del", "take by='pll'"),
    ],
)
def test_a_mutation_that_cannot_be_scored_is_refused(writer: Any, mutant: str, says: str) -> None:
    with pytest.raises(AnyorderError, match=says):
        writer.effects(WILD, [mutant])


def test_insertions_and_deletions_by_pll(writer: Any) -> None:
    (found,) = writer.effects(WILD, ["T3_A4del"], by="pll")

    def pll(s: str) -> float:
        return sum(log_p(writer, hidden(s, i), i, c) for i, c in enumerate(s))

    assert found == pytest.approx(pll("MKYIAKQRQISF") - pll(WILD), abs=1e-4)


def test_long_sequences_are_read_in_windows(writer: Any, narrow: Any) -> None:
    scorer = Scorer(narrow, WILD)
    assert "16 symbols are more than the 10" in scorer.note

    def window(position: int, masked: int) -> tuple[list[int], int]:
        ids = [0, *narrow.tokenizer.convert_tokens_to_ids(list(WILD)), 2]
        ids[masked + 1] = narrow.model.mask_id
        start = min(max(0, position + 1 - 5), 6)
        return ids[start : start + 10], position + 1 - start

    for mutant, position in (("K2R", 1), ("A7G", 6), ("S13T", 12)):
        ids, column = window(position, position)
        with torch.no_grad():
            logp = narrow.model.model(input_ids=torch.tensor([ids])).logits[0, column].log_softmax(-1)
        new, old = narrow.tokenizer.convert_tokens_to_ids([mutant[-1], mutant[0]])
        assert float(scorer.score([variant(WILD, mutant)])[0]) == pytest.approx(float(logp[new] - logp[old]), abs=1e-4)
    with pytest.raises(AnyorderError, match="letters apart"):
        narrow.effects(WILD, ["K2R:S13T"], by="joint-masked")
    assert math.isfinite(narrow.effects(WILD, ["K2R:S13T"], by="pll")[0])
    assert math.isfinite(narrow.effects(WILD, ["K2R"], by="wt-marginals", window="overlapping")[0])
    with pytest.raises(AnyorderError, match="wt-marginals only"):
        narrow.effects(WILD, ["K2R"], window="overlapping")


def test_a_scan_is_every_single_substitution(writer: Any) -> None:
    found = writer.scan(WILD, positions="2-3")
    assert len(found) == 40 and found[0].mutant == "K2A"
    assert found == writer.effects(WILD, [e.mutant for e in found])
    assert sum(e == 0 for e in found) == 2  # the wild type's own letters
    assert len(list(single_substitutions(WILD))) == 20 * len(WILD)
    assert stretches("10-12,11,20", 30) == [9, 10, 11, 19]
    with pytest.raises(AnyorderError, match="goes from 1 to 30"):
        stretches("31", 30)


def test_an_effect_is_a_number_that_pickles(writer: Any) -> None:
    (effect,) = writer.effects(WILD, "A4G")
    again = pickle.loads(pickle.dumps(effect))
    assert (again, again.mutant, again.by, again.score) == (effect, "A4G", "masked-marginals", float(effect))


def test_spearman_is_scipys() -> None:
    a, b = [3.0, 1.0, 2.0, 2.0, 5.0, 4.0], [1.0, 1.0, 4.0, 2.0, 6.0, 3.0]
    rho, low, high = spearman(a, b)
    assert rho == pytest.approx(stats.spearmanr(a, b).statistic) and low < rho < high
