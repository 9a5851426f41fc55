"""Scores: equal to sacreBLEU's, tokenised as published; the bootstrap finds what is there and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from anyorder.data.test_sets import load_test_set
from anyorder.errors import DataError
from anyorder.lab.metrics import bleu_of, moses, paired, quality, signatures, statistics

WORDS = ["a", "the", "dog", "cat", "runs", "sits", "on", "in", "park", "house", ",", "red", "small", "two", "play"]


def sentences(n: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 14))) + " ." for _ in range(n)]


def worse(texts: list[str], p: float, seed: int = 1) -> list[str]:
    """Every word replaced with probability p."""
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) if draw.random() < p else w for w in t.split()) for t in texts]


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.6, 0.95])
def test_bleu_of_statistics_is_sacrebleus(noise: float) -> None:
    references = sentences(30)
    hypotheses = worse(references, noise)
    expected = BLEU().corpus_score(hypotheses, [references]).score
    assert float(bleu_of(statistics(hypotheses, references).sum(0))) == pytest.approx(expected)
    few = statistics(hypotheses[:2], references[:2]).sum(0)  # orders without a match are smoothed the same way
    assert float(bleu_of(few)) == pytest.approx(BLEU().corpus_score(hypotheses[:2], [references[:2]]).score)


def test_nothing_in_common_is_zero() -> None:
    assert float(bleu_of(statistics(["x y z"], ["a b c"]).sum(0))) == 0
    assert float(bleu_of(statistics([""], ["a b c"]).sum(0))) == 0


def test_bootstrap_finds_a_real_difference_and_no_other() -> None:
    references = sentences(200)
    good, bad = worse(references, 0.1), worse(references, 0.4, seed=2)
    same = worse(references, 0.1, seed=3)
    a, b, c = (statistics(texts, references) for texts in (good, bad, same))
    found = paired([(a, b)])
    assert found.significant and found.low > 0 and found.low < found.delta < found.high
    assert not paired([(a, c)]).significant
    assert paired([(b, a)]).delta == pytest.approx(-found.delta)
    identical = paired([(a, a)])
    assert identical.delta == 0 and identical.p == 1


def test_bootstrap_of_several_pairs_is_of_their_mean() -> None:
    references = sentences(50)
    a, b, c = (statistics(worse(references, p), references) for p in (0.1, 0.3, 0.5))
    mean = (paired([(a, b)]).delta + paired([(a, c)]).delta) / 2
    assert paired([(a, b), (a, c)]).delta == pytest.approx(mean)


def test_quality_is_perfect_for_the_references_only(data: Path) -> None:
    corpus = load_test_set(data, "test_2016_flickr", "de-en")
    best = quality(corpus.references, corpus)
    assert best.bleu == pytest.approx(100) and best.chrf == pytest.approx(100) and best.tokenised == pytest.approx(100)
    other = quality([t.upper() for t in corpus.references], corpus)
    assert other.bleu < 50 and other.tokenised == pytest.approx(100)  # published scores are lower-cased
    with pytest.raises(ValueError, match="3 translations for 4"):
        quality(corpus.references[:3], corpus)


def test_signatures_name_tokenisation_and_version() -> None:
    found = signatures()
    assert "tok:13a" in found["BLEU"] and "tok:none" in found["tokenised BLEU"] and "version:" in found["chrF"]


def test_corpora_by_name(data: Path) -> None:
    there, back = load_test_set(data, "tatoeba-test", "de-en"), load_test_set(data, "tatoeba-test", "en-de")
    assert (there.sources, there.references) == (back.references, back.sources)
    assert there.tokenised is None and len(there.part(1, 3)) == 2
    with pytest.raises(DataError, match="no test set 'newstest'"):
        load_test_set(data, "newstest", "de-en")
    with pytest.raises(DataError, match="de-en or en-de"):
        load_test_set(data, "val", "de-fr")
    with pytest.raises(DataError, match="does not exist"):
        load_test_set(data, "test_2017_flickr", "de-en")


def test_a_test_set_with_a_hole_is_refused(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tatoeba"
    folder.mkdir()
    (folder / "test.de-en.tsv").write_text("a\tb\n\tc\n", encoding="utf-8")
    with pytest.raises(DataError, match="must be whole"):
        load_test_set(tmp_path, "tatoeba-test", "de-en")


def test_published_references_come_out_of_their_raw_text() -> None:
    corpus = load_test_set(Path(__file__).parent / "records", "test_2016_flickr", "de-en")
    assert len(corpus) == 200
    assert moses(corpus.references, "en") == corpus.tokenised
    assert np.isclose(quality(corpus.references, corpus).tokenised or 0, 100)
