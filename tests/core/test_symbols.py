"""Which symbol is proposed: greedy, drawn, restricted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import Hashed, masks, p_value, sentences

from anyorder.core import Coordinates, Decoder, ModelError, NoContext, Symbols, begin, decode, leftmost, negent
from anyorder.models.table import Table

N = 20_000
LOGP = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()


def drawn(symbols: Symbols, logp: torch.Tensor = LOGP) -> torch.Tensor:
    state = masks(Table(1, len(logp)), *[1] * N)
    rows = torch.arange(N)
    token = symbols.draw(logp.expand(N, -1), state, rows, torch.zeros_like(rows))
    return torch.bincount(token, minlength=len(logp))


@pytest.mark.parametrize(
    ("symbols", "p"),
    [
        (Symbols(1.0), [0.5, 0.25, 0.15, 0.1]),
        (Symbols(0.5), [0.25, 0.0625, 0.0225, 0.01]),
        (Symbols(1.0, top_k=2), [0.5, 0.25, 0, 0]),
        (Symbols(1.0, top_p=0.75), [0.5, 0.25, 0, 0]),
        (Symbols(1.0, top_p=0.76), [0.5, 0.25, 0.15, 0]),
        (Symbols(1.0, top_k=9), [0.5, 0.25, 0.15, 0.1]),
    ],
)
def test_draws_follow_the_distribution_asked_for(symbols: Symbols, p: list[float]) -> None:
    expected = torch.tensor(p).double()
    assert p_value(drawn(symbols), expected / expected.sum()) > 1e-4


def test_temperature_zero_is_greedy_and_top_k_cuts_ties() -> None:
    assert drawn(Symbols()).tolist() == [N, 0, 0, 0] == drawn(Symbols(1.0, top_p=0.1)).tolist()
    assert (drawn(Symbols(1.0, top_k=2), torch.zeros(4).log_softmax(0)) > 0).sum() == 2
    with pytest.raises(ValueError, match="0 is greedy"):
        Symbols(temperature=-1.0)
    with pytest.raises(ValueError, match="top_k"):
        Symbols(top_k=0)
    with pytest.raises(ValueError, match="top_p"):
        Symbols(top_p=0.0)


def test_a_ban_holds_at_any_temperature() -> None:
    table = Table(2, 3, seed=1)
    state = masks(table, *[2] * 2000)
    for temperature in (0.0, 1.0, 1e6):
        symbols = Symbols(temperature, ban=(1,))
        tokens = decode(table, NoContext(), state, Decoder(Coordinates(leftmost), symbols)).tokens
        assert not (tokens == 1).any() and (tokens < 3).all()


def test_log_p_is_of_the_restricted_distribution_unless_asked_otherwise() -> None:
    table = Table(1, 3, seed=2, dtype=torch.float64)
    state = masks(table, 1, dtype=torch.float64)
    left = table.p.clone()
    left[0] = 0
    for renormalise, expected in ((True, left.max() / left.sum()), (False, left.max())):
        d = Decoder(Coordinates(leftmost), Symbols(ban=(0,), renormalise=renormalise))
        assert float(decode(table, NoContext(), state, d).score.exp()) == pytest.approx(float(expected))


def test_mask_is_never_proposed_unless_asked_for() -> None:
    model = Hashed(1, sharpness=4.0)
    context, state = sentences(model, [9] * 30)
    d = Decoder(Coordinates(leftmost), steps=9)
    assert (decode(model, context, state, d).tokens == 0).all()
    d = replace(d, symbols=Symbols(may_mask=True))
    assert (decode(model, context, state, d).tokens == model.mask_id).any()


def test_every_row_has_its_own_constraints_in_any_batch() -> None:
    model = Hashed(5)
    context, state = sentences(model, [3, 6, 4])
    generator = torch.Generator().manual_seed(0)
    allowed = torch.rand(3, 6, 6, generator=generator) < 0.5
    allowed[..., 0] = True
    forced = torch.full((3, 6), -1)
    forced[1, 4], forced[2, 0] = 2, 3
    d = Decoder(Coordinates(negent), Symbols(allowed=allowed, forced=forced))
    tokens = decode(model, context, state, d).tokens
    for r, length in enumerate((3, 6, 4)):
        for i in range(length):
            v = int(tokens[r, i])
            assert v == int(forced[r, i]) if forced[r, i] >= 0 else allowed[r, i, v]
        alone = Decoder(Coordinates(negent), Symbols(allowed=allowed[r], forced=forced[r]))
        row = torch.tensor([r])
        one = decode(model, context.take(row), masks(model, length, seed=state.seed[row]), alone).tokens
        assert torch.equal(one[0], tokens[r, :length])
    assert decode(model, context, state, replace(d, symbols=Symbols())).tokens.ne(tokens).any()


def test_what_leaves_no_symbol_is_refused_by_row_and_position() -> None:
    table = Table(3, 2, seed=1)
    allowed = torch.ones(2, 3, 4, dtype=torch.bool)
    allowed[1, 2, :2] = False  # only <mask> and <pad> are left, and the table gives them no probability
    d = Decoder(Coordinates(leftmost), Symbols(allowed=allowed))
    with pytest.raises(ValueError, match=r"row 1, position 2, step 2.*no possible symbol"):
        decode(table, NoContext(), masks(table, 3, 3), d)
    with pytest.raises(ValueError, match=r"row 0, position 0, step 0.*no possible symbol"):
        decode(table, NoContext(), masks(table, 3), Decoder(Coordinates(leftmost), Symbols(ban=(0, 1))))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_model_that_gives_nonsense_is_named_with_the_row(value: float) -> None:
    class Broken(Hashed):
        def logits(self, hidden: torch.Tensor) -> torch.Tensor:
            x = super().logits(hidden)
            return torch.where(hidden == self.hidden(NoContext(), torch.tensor([[1, self.mask_id]]))[0, 1], value, x)

    model = Broken()
    canvas = torch.tensor([[0, model.mask_id], [1, model.mask_id]])
    state = begin(canvas, model.mask_id, model.pad_id)
    with pytest.raises(ModelError, match=r"row 1, position 1, step 0: the model's logits are not finite"):
        decode(model, NoContext(), state, Decoder(Coordinates(negent)))
