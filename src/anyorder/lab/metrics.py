"""How good translations are: BLEU, chrF, the tokenised BLEU of published Multi30k scores; paired bootstrap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from anyorder.errors import extra

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyorder.data.test_sets import EvalSet

ORDER = 4  # n-grams up to this
RESAMPLES = 1000
LEVEL = 0.05  # of significance


@dataclass(frozen=True)
class Quality:
    """Scores of a list of translations."""

    bleu: float
    chrf: float
    tokenised: float | None  # BLEU on lower-cased Moses tokens, where such references exist


def quality(hypotheses: Sequence[str], corpus: EvalSet) -> Quality:
    """All scores of translations of a corpus."""
    _aligned(hypotheses, corpus.references)
    tokenised = None
    if corpus.tokenised is not None:
        mine = moses(hypotheses, corpus.target_language)
        tokenised = float(_bleu(plain=True).corpus_score(mine, [corpus.tokenised]).score)
    return Quality(
        bleu=float(_bleu().corpus_score(list(hypotheses), [corpus.references]).score),
        chrf=float(_chrf().corpus_score(list(hypotheses), [corpus.references]).score),
        tokenised=tokenised,
    )


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Translation edit rate: edits and moves of stretches, per word of the references; low is good."""
    with extra("report"):
        from sacrebleu.metrics.ter import TER

    return float(TER().corpus_score(list(hypotheses), [list(references)]).score)


def signatures() -> dict[str, str]:
    """sacreBLEU's signatures of the three scores."""
    metrics = {"BLEU": _bleu(), "chrF": _chrf(), "tokenised BLEU": _bleu(plain=True)}
    for metric in metrics.values():
        metric.corpus_score(["a b c d"], [["a b c d"]])  # a signature is known once something was scored
    return {name: str(metric.get_signature()) for name, metric in metrics.items()}


@cache
def _bleu(plain: bool = False) -> Any:
    with extra("report"):
        from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="none", force=True) if plain else BLEU()


@cache
def _chrf() -> Any:
    with extra("report"):
        from sacrebleu.metrics.chrf import CHRF

    return CHRF()


@cache
def _moses_tools(language: str) -> tuple[Any, Any]:
    with extra("report"):
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

    return MosesPunctNormalizer(language), MosesTokenizer(language)


def moses(texts: Sequence[str], language: str) -> list[str]:
    """Lower-cased, normalised, tokenised as the published references are: theirs come out of their raw text exactly."""
    normaliser, tokeniser = _moses_tools(language)
    return [str(tokeniser.tokenize(normaliser.normalize(text.lower()), return_str=True)) for text in texts]


# ---------------------------------------------------------------- significance


def statistics(hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
    """What BLEU is a function of, a row per sentence (N, 10): matches and totals of 1- to 4-grams, both lengths."""
    _aligned(hypotheses, references)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        s = _sentence_bleu().sentence_score(hypothesis, [reference])
        rows.append([*s.counts, *s.totals, s.sys_len, s.ref_len])
    return np.array(rows, dtype=np.float64).reshape(-1, 2 * ORDER + 2)


@cache
def _sentence_bleu() -> Any:
    with extra("report"):
        from sacrebleu.metrics.bleu import BLEU

    return BLEU(effective_order=True)


def bleu_of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """BLEU of summed statistics (…, 10), with sacreBLEU's exponential smoothing of orders without a match.

    BLEU = 100 · min(1, e^{1 − ref/sys}) · (∏_n p_n)^{1/4};  p_n = matches/total, or 1/(2^k · total) for the k-th order
    that has none.
    """
    matches, totals = sums[..., :ORDER], sums[..., ORDER : 2 * ORDER]
    system, reference = sums[..., 2 * ORDER], sums[..., 2 * ORDER + 1]
    missing = matches == 0
    smoothed = np.where(missing, 0.5 ** missing.cumsum(-1), matches) / np.maximum(totals, 1)
    score = np.exp(np.log(smoothed).mean(-1) + np.minimum(0.0, 1 - reference / np.maximum(system, 1)))
    dead = (totals == 0).any(-1) | missing[..., 0]
    return np.asarray(np.where(dead, 0.0, 100 * score))


@lru_cache(maxsize=8)
def resamples(sentences: int, n: int = RESAMPLES, seed: int = 12345) -> NDArray[np.float64]:
    """How often each sentence is drawn in each resample, (n, sentences)."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(sentences, np.full(sentences, 1 / sentences), size=n).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Difference:
    """A score of one list of translations minus another's, on the same sentences."""

    delta: float
    deviations: NDArray[np.float64]  # of the resamples from their mean, absolute, largest first

    def p_of(self, value: float = 0.0) -> float:
        """p of a difference at least as far from `value`, were it `value`: how many resamples deviate as far.

        In thousandths, as it is shown: who reads it decides as we do.
        """
        far = int((self.deviations >= abs(self.delta - value) - 1e-12).sum())
        return round((far + 1) / (len(self.deviations) + 1), 3)

    @property
    def p(self) -> float:
        """p of no difference."""
        return self.p_of(0.0)

    @property
    def significant(self) -> bool:
        """Is p of no difference below the level?"""
        return self.p < LEVEL

    @property
    def half(self) -> float:
        """Half of the interval: values with p ≥ the level are in it, and no others."""
        needed = math.ceil((LEVEL - 0.0005) * (len(self.deviations) + 1) - 1)  # p is rounded
        return float(self.deviations[max(0, needed - 1)])

    @property
    def low(self) -> float:
        """The 95 % interval's lower end."""
        return self.delta - self.half

    @property
    def high(self) -> float:
        """The 95 % interval's upper end."""
        return self.delta + self.half


def paired(
    pairs: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]] = bleu_of,
) -> Difference:
    """Paired bootstrap (Koehn 2004) of the mean of score(a) − score(b) over pairs (a, b) of statistics, a row each.

    All of them are of the same sentences, and each resample draws the same sentences for all. p counts, as sacreBLEU
    does, how often a centred difference is as large as the real one.
    """
    weights = resamples(len(pairs[0][0]))
    real = float(np.mean([score(a.sum(0)) - score(b.sum(0)) for a, b in pairs]))
    drawn = np.mean([score(weights @ a) - score(weights @ b) for a, b in pairs], axis=0)
    return Difference(real, np.sort(np.abs(drawn - drawn.mean()))[::-1])


def holm(values: Sequence[float]) -> list[float]:
    """Several p corrected for their number (Holm 1979): the smallest times n, the next times n − 1 …, never falling."""
    out, most = [0.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=lambda i: values[i])):
        most = max(most, min(1.0, (len(values) - rank) * values[i]))
        out[i] = most
    return out


def _aligned(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} translations for {len(references)} references: there must be as many")
