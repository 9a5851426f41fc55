"""Any order, one symbol at a time, sampled: exactly the joint. With controls that must be rejected."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from support import Hashed, histogram, masks, p_value

from anyorder.core import (
    Coordinates,
    Decoder,
    NoContext,
    Symbols,
    begin,
    block,
    confidence,
    decode,
    dilated,
    fixed,
    leftmost,
    logp,
    margin,
    negent,
    position,
    random,
    rightmost,
    whole,
)
from anyorder.models.table import Table
from anyorder.recipes import STRATEGIES, autoregressive

N = 20_000
DRAW = Symbols(temperature=1.0)
SURE, NEVER = 1e-4, 1e-9  # p-values: a right sampler falls below the first once in ten thousand, a wrong one below both
C = Coordinates

EXACT = {
    "uniform": C(random),
    "left2right": C(position),
    "right2left": C(rightmost),
    "least2most": C(logp),
    "easy-first": C(negent + logp),
    "hard-first": C(-negent - logp),
    "margin": C(margin),
    "drawn by entropy": C(negent, temperature=0.5),
    "drawn by all three features": C(negent + logp + position, temperature=2.0),
    "noise as a term": C(negent + 0.3 * random),
    "blocks": C(negent, among=block(2)),
    "dilated": C(-negent, among=dilated(4)),
    "masked conditionals": C(negent + logp, conditionals="masked"),
    "masked conditionals, drawn": C(negent, temperature=1.0, conditionals="masked"),
}
WRONG = {
    "all at once": (C(leftmost, whole), DRAW),
    "two at a time": (C(leftmost, fixed(2)), DRAW),
    "top-p": (C(leftmost), Symbols(temperature=1.0, top_p=0.8)),
    "top-k": (C(leftmost), Symbols(temperature=1.0, top_k=2)),
    "cooler": (C(leftmost), Symbols(temperature=0.8)),
    "chosen by the drawn symbol's own probability": (C(confidence), DRAW),
}


def sample(table: Table, c: Coordinates, symbols: Symbols = DRAW, seed: int = 0) -> torch.Tensor:
    return decode(table, NoContext(), masks(table, *[table.length] * N, seed=seed), Decoder(c, symbols)).tokens


@pytest.mark.parametrize("name", EXACT)
def test_one_at_a_time_is_exact(name: str) -> None:
    for seed, table in enumerate((Table(3, 3, seed=1), Table(4, 2, seed=2, sharpness=1.0))):
        assert p_value(histogram(table, sample(table, EXACT[name], seed=seed)), table.p) > SURE


@pytest.mark.parametrize("name", WRONG)
def test_controls_are_rejected(name: str) -> None:
    table = Table(3, 3, seed=1)
    assert p_value(histogram(table, sample(table, *WRONG[name])), table.p) < NEVER


def test_every_strategy_is_exact_but_the_one_that_reads_its_own_draw() -> None:
    table = Table(3, 2, seed=3)
    for name, decoder in STRATEGIES.items():
        found = p_value(histogram(table, sample(table, decoder.coordinates)), table.p)
        assert found < NEVER if name == "confidence" else found > SURE, name


def test_a_prompt_is_conditioned_on_and_kept() -> None:
    table = Table(4, 3, seed=4)
    canvas = torch.full((N, 4), table.mask_id)
    canvas[:, 1] = 2
    tokens = decode(table, NoContext(), begin(canvas, table.mask_id, table.pad_id), Decoder(C(negent), DRAW)).tokens
    conditional = torch.where(table.sequences[:, 1] == 2, table.p, 0.0)
    assert p_value(histogram(table, tokens), conditional / conditional.sum()) > SURE


def test_bans_and_allowed_sets_are_conditioned_on_symbol_by_symbol() -> None:
    """A ban renormalises each conditional, so the result is the chain rule with banned symbols left out."""
    table = Table(2, 3, seed=5, dtype=torch.float64)
    allowed = torch.ones(2, 5, dtype=torch.bool)
    allowed[1, 0] = False
    symbols = replace(DRAW, ban=(2,), allowed=allowed)
    joint = table.p.view(3, 3)
    first = joint.sum(1)[:2] / joint.sum(1)[:2].sum()
    expected = torch.zeros(3, 3, dtype=torch.float64)
    expected[:2, 1] = first  # the second symbol can only be 1
    assert p_value(histogram(table, sample(table, C(leftmost), symbols)), expected.flatten()) > SURE


def test_autoregressive_until_eos_samples_sequences_of_every_length() -> None:
    model, eos, longest = Hashed(3, causal=True, sharpness=1.0), 2, 4

    def sequences(prefix: tuple[int, ...] = ()) -> dict[tuple[int, ...], float]:
        if len(prefix) == longest or eos in prefix:
            return {prefix: 1.0}
        p = model.log_p([*prefix, *[model.mask_id] * (longest - len(prefix))], len(prefix)).exp()
        return {s: float(p[v]) * q for v in range(3) for s, q in sequences((*prefix, v)).items()}

    p = sequences()
    assert math.isclose(sum(p.values()), 1.0)
    decoder = replace(autoregressive(longest, eos), symbols=DRAW)
    tokens = decode(model, NoContext(), masks(model, *[longest] * N), decoder).tokens.tolist()
    found = Counter(tuple(t for t in row if t != model.pad_id) for row in tokens)
    assert set(found) <= set(p) and len({len(s) for s in p}) == longest
    counts = torch.tensor([found[s] for s in p])
    assert p_value(counts, torch.tensor(list(p.values()))) > SURE


def test_coordinates_and_symbols_have_the_probability_the_score_says() -> None:
    """E[exp(−score)] over draws counts the paths: the score is log p(G), for one and for several at a time."""
    model = Hashed(2, sharpness=0.5)
    for c, paths in (
        (C(negent, temperature=1.0), math.factorial(3) * 2**3),
        (C(negent, fixed(2), temperature=1.0), 3 * 2**3),  # three sets of 2, then the last one
    ):
        score = decode(model, NoContext(), masks(model, *[3] * N, dtype=torch.float64), Decoder(c, DRAW)).score
        inverse = (-score).exp()
        error = inverse.std() / N**0.5
        assert abs(inverse.mean() - paths) < 4 * error
