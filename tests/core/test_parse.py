"""The text form of orders: the same object, or a pointer at the character that is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.core import FEATURES, Order, OrderError, confidence, logp, margin, negent, parse, position, random
from anyorder.recipes import FAMILIES, STRATEGIES, describe, every, order_of


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("negent", negent),
        ("negent + 0.9*logp", negent + 0.9 * logp),
        ("  negent+logp ", negent + logp),
        ("-negent - logp", -negent - logp),
        ("-negent + -logp", -negent + -logp),
        ("+negent", negent),
        ("2*(negent - 0.5*logp) - position", 2.0 * (negent - 0.5 * logp) - position),
        ("negent*2 + .5*random", 2.0 * negent + 0.5 * random),
        ("1e-3*margin + 2.5E+1*confidence - .5e1*logp", 0.001 * margin + 25.0 * confidence - 5.0 * logp),
    ],
)
def test_text_is_the_same_object(text: str, order: Order) -> None:
    assert parse(text).terms == order.terms


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 0, "found the end"),
        ("negent +", 8, "found the end"),
        ("negent + lopg", 9, "did you mean 'logp'"),
        ("negent % logp", 7, "unexpected character '%'"),
        ("negent logp", 7, "unexpected 'logp' after a complete order"),
        ("0.5 negent", 4, "must be followed by"),
        ("negent * logp", 9, "expected a number after"),
        ("(negent + logp", 14, r"expected '\)'"),
        ("negent + )", 9, "expected a feature, found"),
        ("3", 1, "must be followed by"),
    ],
)
def test_errors_point_at_the_character(text: str, at: int, message: str) -> None:
    with pytest.raises(OrderError, match=message) as error:
        parse(text)
    assert error.value.at == at
    *_, line, pointer = str(error.value).split("\n")
    assert line == f"  {text}" and pointer == " " * (at + 2) + "^"


WEIGHTS = st.floats(-1e6, 1e6).filter(lambda w: abs(w) > 1e-9)


@given(st.lists(st.tuples(WEIGHTS, st.sampled_from(sorted(FEATURES))), min_size=1, max_size=5))
def test_any_sum_survives_being_written_down(terms: list[tuple[float, str]]) -> None:
    order: Order = terms[0][0] * FEATURES[terms[0][1]]
    for weight, name in terms[1:]:
        order = order + weight * FEATURES[name]
    assert parse(str(order)).terms == order.terms


def test_names_of_strategies_and_sums_are_both_orders() -> None:
    for name, decoder in STRATEGIES.items():
        assert order_of(name) == decoder.coordinates.order
    assert order_of("negent + logp").terms == (negent + logp).terms
    with pytest.raises(ValueError, match="did you mean 'easy-first'"):
        order_of("easy-frist")


def test_every_recipe_has_a_name_and_a_line() -> None:
    assert set(every(T=3, k=2)) == STRATEGIES.keys() | FAMILIES.keys() == {name for name, _ in describe()}
    assert all(line for _, line in describe())
