"""The loop: every row to its end, none left masked, none disturbed by the others; bad input said clearly."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from support import Hashed, each_alone, masks, sentences, written
from torch import Tensor

from anyorder.core import (
    Coordinates,
    Cost,
    Decoder,
    ModelError,
    NoContext,
    Order,
    Region,
    State,
    Symbols,
    Times,
    View,
    anneal,
    begin,
    block,
    canvas,
    chance,
    confidence,
    constant,
    decode,
    dilated,
    entropy_bound,
    even,
    everywhere,
    factor,
    fixed,
    kl_stable,
    leftmost,
    logp,
    margin,
    negent,
    position,
    random,
    revisit,
    stale,
    threshold,
    unroll,
    whole,
)
from anyorder.core import masked as masked_region
from anyorder.models.table import Table


class Cheap:
    """Logits from the position alone: nothing to compute, so that very many canvases can be filled."""

    mask_id, pad_id = 3, 4

    def encode(self, source: object) -> NoContext:
        return NoContext()

    def hidden(self, context: NoContext, tokens: Tensor) -> Tensor:
        i = torch.arange(tokens.shape[1])
        return torch.stack([(i * 7919) % 13, (i * 104729) % 11, (i * 31) % 5], -1).expand(*tokens.shape, 3).float() / 4

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden


LENGTHS = torch.arange(1, 121)
STEPS = range(1, 41)


def check(decoder: Decoder, most: Tensor | None = None) -> None:
    model = Cheap()
    result = decode(model, NoContext(), begin(canvas(LENGTHS, 3, 4), 3, 4), decoder)
    assert not (result.tokens == model.mask_id).any(), decoder
    assert torch.equal((result.tokens != model.pad_id).sum(-1), LENGTHS)
    if most is not None:
        assert (result.steps <= most).all(), decoder


@pytest.mark.parametrize("T", STEPS)
def test_no_mask_is_left_for_any_length_steps_and_count(T: int) -> None:
    least = torch.minimum(LENGTHS, torch.tensor(T))
    check(Decoder(Coordinates(leftmost, constant(T))), least)
    check(Decoder(Coordinates(leftmost, even(T))), least)
    check(Decoder(Coordinates(leftmost, fixed(T))), (LENGTHS + T - 1) // T)
    for among in (masked_region, everywhere):
        check(Decoder(Coordinates(leftmost, anneal(T), among), steps=T), torch.tensor(T))
        check(Decoder(Coordinates(stale, constant(T), among), steps=T), torch.tensor(T))
        check(Decoder(Coordinates(leftmost, whole, among), steps=T), torch.tensor(T))
    check(Decoder(Coordinates(random, chance("never", lambda s: 0.0)), steps=T), torch.tensor(T))
    check(Decoder(Coordinates(rightmost_of_few, among=everywhere), steps=T), torch.tensor(T))


rightmost_of_few: Order = -1.0 * leftmost


@pytest.mark.parametrize(
    "count",
    [threshold(0.4), factor(1.2), entropy_bound(2.0), kl_stable(0.3, 0.01), fixed(3), even(7)],
    ids=lambda c: c.name,
)
@pytest.mark.parametrize("among", [masked_region, block(32), dilated(16)], ids=lambda r: r.name)
def test_no_mask_is_left_by_counts_that_look(count: object, among: Region) -> None:
    check(Decoder(Coordinates(negent, count, among)), LENGTHS)  # type: ignore[arg-type]
    check(Decoder(Coordinates(negent, count, among), steps=3), torch.tensor(3))  # type: ignore[arg-type]


def test_a_budget_longer_than_needed_ends_early_and_costs_nothing() -> None:
    model = Hashed()
    context, state = sentences(model, [3, 5])
    plain = decode(model, context, state, Decoder(Coordinates(negent)))
    budgeted = decode(model, context, state, Decoder(Coordinates(negent), steps=50))
    assert torch.equal(plain.tokens, budgeted.tokens) and budgeted.cost == plain.cost == Cost(5, 8, 21)
    twice = decode(model, context, state, Decoder(Coordinates(leftmost, among=revisit), steps=Times(2)))
    assert twice.steps.tolist() == [6, 10]


# ---------------------------------------------------------------- the last step, hide, revisit


def test_the_last_step_writes_what_is_left() -> None:
    model = Hashed()
    context, state = sentences(model, [7, 2])
    steps = list(unroll(model, context, state, Decoder(Coordinates(leftmost), steps=3)))
    assert [int(s.z[0].sum()) for s in steps] == [1, 1, 5]
    assert [s.rows.tolist() for s in steps] == [[0, 1], [0, 1], [0]]  # the short row was done, and left


def test_hide_masks_a_written_symbol_before_its_own_is_drawn() -> None:
    model = Hashed()
    y = torch.tensor([[1, 2, 3]])
    for hide in (True, False):
        d = Decoder(Coordinates(leftmost, among=everywhere), steps=1, hide=hide)
        first = decode(model, NoContext(), written(model, y), d).tokens[0].tolist()
        seen = [model.mask_id if hide else 1, 2, 3]
        assert first == [int(model.log_p(seen, 0).argmax()), 2, 3]


@pytest.mark.parametrize("conditionals", ["visible", "masked"])
def test_conditionals_are_what_they_are_called(conditionals: str) -> None:
    model, y = Hashed(), [4, 0, 2]
    d = Decoder(Coordinates(negent, among=everywhere, conditionals=conditionals), steps=1)  # type: ignore[arg-type]
    (step,) = unroll(model, NoContext(), written(model, torch.tensor([y]), dtype=torch.float64), d)
    assert step.judged is not None and step.judged.entropy is not None
    for i in range(3):
        seen = [model.mask_id if conditionals == "masked" and j == i else v for j, v in enumerate(y)]
        p = model.log_p(seen, i)
        assert float(step.judged.entropy[0, i]) == pytest.approx(-float((p.exp() * p).sum()))
    i = int(step.z[0].nonzero())
    assert i == int(step.judged.entropy[0].argmin())
    hidden = [model.mask_id if j == i else v for j, v in enumerate(y)]
    assert int(step.state.tokens[0, i]) == int(model.log_p(hidden, i).argmax())
    assert float(step.state.score) == pytest.approx(float(model.log_p(hidden, i).max()))


@pytest.mark.parametrize("conditionals", ["visible", "masked"])
def test_symbols_written_together_do_not_see_each_other(conditionals: str) -> None:
    model, y = Hashed(), [4, 0, 2]
    c = Coordinates(negent, fixed(2), everywhere, conditionals=conditionals)  # type: ignore[arg-type]
    (step,) = unroll(model, NoContext(), written(model, torch.tensor([y]), dtype=torch.float64), Decoder(c, steps=1))
    hidden = [model.mask_id if z else v for z, v in zip(step.z[0].tolist(), y, strict=True)]
    expected = [int(model.log_p(hidden, i).argmax()) if v == model.mask_id else v for i, v in enumerate(hidden)]
    assert step.state.tokens[0].tolist() == expected and hidden.count(model.mask_id) == 2


def test_revisit_goes_over_everything_again() -> None:
    model = Hashed()
    context, state = sentences(model, [4, 3])
    d = Decoder(Coordinates(position, among=revisit), steps=Times(2))
    chosen: dict[int, list[int]] = {0: [], 1: []}
    for s in unroll(model, context, state, d):
        for n, r in enumerate(s.rows.tolist()):
            chosen[r] += s.z[n].nonzero()[:, 0].tolist()
    assert chosen == {0: [0, 1, 2, 3] * 2, 1: [0, 1, 2] * 2}


@pytest.mark.parametrize("order", [negent, logp, random], ids=str)
def test_every_pass_visits_every_position_once(order: Order) -> None:
    model = Hashed()
    context, state = sentences(model, [6, 4])
    chosen: dict[int, list[int]] = {0: [], 1: []}
    for s in unroll(model, context, state, Decoder(Coordinates(order, among=revisit), steps=Times(3))):
        for n, r in enumerate(s.rows.tolist()):
            chosen[r] += s.z[n].nonzero()[:, 0].tolist()
    for row, length in ((0, 6), (1, 4)):
        passes = [chosen[row][k * length : (k + 1) * length] for k in range(3)]
        assert [sorted(p) for p in passes] == [list(range(length))] * 3


def test_rows_that_leave_take_their_memory_with_them() -> None:
    @dataclass(frozen=True)
    class Counting(Order):
        """Prefers the left; remembers how many positions each row has had, and per position when."""

        def __call__(self, state: State, view: View) -> Tensor:
            return -state.place.float()

        def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
            had = state.recall("had", torch.zeros_like(state.score)) + z.sum(-1)
            when = state.recall("position:when", torch.full_like(state.logp, -1))
            return {"had": had, "position:when": torch.where(z, state.step[:, None].float(), when)}

    model = Hashed()
    context, state = sentences(model, [6, 1, 3, 5])
    ends: dict[int, State] = {}
    for s in unroll(model, context, state, Decoder(Coordinates(Counting()))):
        for n, r in enumerate(s.rows.tolist()):
            ends[r] = s.state.take(torch.tensor([n]))
    for r, length in enumerate((6, 1, 3, 5)):
        assert float(ends[r].memory["had"]) == length
        assert ends[r].memory["position:when"][0, :length].tolist() == list(range(length))


# ---------------------------------------------------------------- prompts, padding, dtype


def test_fixed_positions_and_padding_are_never_touched() -> None:
    model = Hashed()
    mask, pad = model.mask_id, model.pad_id
    tokens = torch.tensor([[1, mask, 2, mask, pad, pad], [mask, mask, 3, 3, mask, 5]])
    for d in (
        Decoder(Coordinates(negent + logp)),
        Decoder(Coordinates(logp, anneal(3), everywhere, reuse=True), steps=3),
        Decoder(Coordinates(random, among=everywhere), Symbols(1.0), steps=9),
        Decoder(Coordinates(leftmost, whole, everywhere), steps=2, hide=False),
    ):
        out = decode(model, NoContext(), begin(tokens, mask, pad), d).tokens
        kept = tokens != mask
        assert torch.equal(out[kept], tokens[kept]) and not (out == mask).any()
        assert (out[~kept] < model.vocabulary).all()


def test_double_precision_goes_all_the_way() -> None:
    table = Table(4, 3, seed=1, dtype=torch.float64)
    d = Decoder(Coordinates(negent), Symbols(1.0))
    result = decode(table, NoContext(), masks(table, 4, 4, dtype=torch.float64), d)
    assert result.score.dtype == result.logp.dtype == torch.float64
    torch.testing.assert_close(result.score, table.p[table.index(result.tokens)].log(), rtol=1e-12, atol=0)


def test_bfloat16_logits_are_read_in_the_state_s_precision() -> None:
    class Half(Hashed):
        def logits(self, hidden: Tensor) -> Tensor:
            return super().logits(hidden).bfloat16()

    result = decode(Half(), NoContext(), masks(Half(), 5), Decoder(Coordinates(negent + margin)))
    assert result.score.dtype == torch.float32 and torch.isfinite(result.score).all()


def test_samples_do_not_depend_on_the_batch_even_where_rows_leave() -> None:
    model = Hashed()
    context, state = sentences(model, [5, 9, 1, 4])
    d = Decoder(Coordinates(negent + 0.5 * random, fixed(2)), Symbols(1.0))
    together = decode(model, context, state, d)
    for r, (own, one) in enumerate(each_alone(context, state)):
        alone = decode(model, own, one, d)
        assert torch.equal(alone.tokens[0], together.tokens[r, : alone.tokens.shape[1]])
        assert torch.equal(alone.score[0], together.score[r])
    assert not torch.equal(together.tokens, decode(model, context, replace(state, seed=state.seed + 1), d).tokens)


# ---------------------------------------------------------------- bad input


@dataclass(frozen=True)
class Learned(Order):
    reads: frozenset[str] = frozenset({"hidden"})

    def __call__(self, state: State, view: View) -> Tensor:
        assert view.hidden is not None
        return view.hidden.sum(-1)


def test_an_order_that_needs_hidden_states_from_a_model_without() -> None:
    table = Table(3, 2)
    with pytest.raises(ModelError, match="reads hidden states, and Table has none"):
        decode(table, NoContext(), masks(table, 3), Decoder(Coordinates(Learned())))
    model = Cheap()
    assert decode(model, NoContext(), masks(model, 3), Decoder(Coordinates(Learned()))).steps.tolist() == [3]


def test_bad_canvases_are_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="length ≥ 1"):
        begin(torch.zeros(2, 0, dtype=torch.long), 1, 2)
    with pytest.raises(ValueError, match="length ≥ 1"):
        begin(torch.zeros(3, dtype=torch.long), 1, 2)
    with pytest.raises(ValueError, match="row 1: every position is fixed"):
        begin(torch.tensor([[1, 0], [0, 0]]), 1, 2)
    with pytest.raises(ValueError, match="row 1: padding cannot be open"):
        begin(torch.tensor([[1, 1], [1, 2]]), 1, 2, open=torch.ones(2, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="`open` must be bool"):
        begin(torch.tensor([[1, 1]]), 1, 2, open=torch.ones(1, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="row 1: a canvas needs a length of at least 1, got 0"):
        canvas(torch.tensor([2, 0]), 1, 2)


def test_bad_steps() -> None:
    for steps in (0, -3):
        with pytest.raises(ValueError, match="at least 1"):
            Decoder(Coordinates(confidence), steps=steps)
    with pytest.raises(ValueError, match="at least 1"):
        Times(0)
