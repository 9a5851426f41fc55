"""Plans: what a person types becomes the composition it names; mistakes are answered with what to write instead."""

from __future__ import annotations

import math
from typing import Any

import pytest

from anyorder import recipes
from anyorder.core import Times, anneal, constant, everywhere, fixed, masked, negent, revisit, threshold
from anyorder.core import logp as phi_logp
from anyorder.errors import PlanError
from anyorder.models.policy import Policy
from anyorder.text.plan import Plan


@pytest.mark.parametrize(
    ("options", "count", "among", "steps"),
    [
        ({}, fixed(1), masked, None),
        ({"steps": 10}, constant(10), masked, None),
        ({"count": "3"}, fixed(3), masked, None),
        ({"steps": 10, "count": "anneal"}, anneal(10), everywhere, 10),
        ({"count": "threshold(0.9)"}, threshold(0.9), masked, None),
        ({"steps": "2L"}, fixed(1), revisit, Times(2)),
    ],
    ids=str,
)
def test_words_become_a_composition(options: dict[str, Any], count: Any, among: Any, steps: Any) -> None:
    decoder = Plan.of(order="negent + 0.9*logp", **options).decoder(ban=(7,))
    assert decoder.coordinates.order == negent + 0.9 * phi_logp
    assert decoder.coordinates.count == count and decoder.coordinates.among == among
    assert decoder.steps == steps and decoder.symbols.ban == (7,)


def test_brackets_take_names() -> None:
    by_name, by_place = Plan.of("llada(size=8, T=4)").decoder(), Plan.of("llada(4, 8)").decoder()
    assert by_name.coordinates == by_place.coordinates == recipes.llada(4, 8).coordinates
    assert (
        Plan.of("dream(4, algorithm=topk_margin)").decoder().coordinates == recipes.dream(4, "topk_margin").coordinates
    )
    assert Plan.of("adaptive-gibbs(9, temperature=0.5)").decoder().coordinates.temperature == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "easyfirst"}, "did you mean 'easy-first'"),
        ({"order": "negent + 2*lgp"}, "did you mean 'logp'"),
        ({"count": "constant"}, "needs a number of steps"),
        ({"count": "treshold(0.9)"}, "did you mean 'threshold'"),
        ({"count": "threshold(high)"}, "p of threshold is a number"),
        ({"count": "threshold(0.9%)"}, "must be numbers or words"),
        ({"order": "llada(4, sise=4)"}, r"llada has no sise: llada\(T, size\)"),
        ({"order": "llada(size=4)"}, r"takes other numbers: llada\(T, size\)"),
        ({"order": "llada(4, T=4)"}, "T is given twice"),
        ({"order": "llada(T=4, 8)"}, "takes other numbers"),
        ({"order": "dream(4, 8)"}, "algorithm of dream is a word"),
        ({"order": "dream(4, best)"}, "entropy, maskgit_plus, topk_margin or origin"),
        ({"count": "threshold(0.5, 2)"}, "takes other numbers"),
        ({"count": "threshold(2)"}, "probability"),
        ({"count": "above(2)"}, "for an order that learned how many"),
        ({"steps": 0}, "at least 1"),
        ({"steps": "3L"}, "'L' or '2L'"),
        ({"temperature": -1.0}, "temperature must be"),
        ({"among": "blocks(2)"}, "did you mean 'block'"),
        ({"order": "easy-first | left2right"}, "several orders"),
        ({"order": "mask-predict"}, r"takes other numbers: mask-predict\(T\)"),
        ({"order": "mask-predct(4)"}, "did you mean 'mask-predict'"),
        ({"order": "mask-predict(10)", "steps": 4}, "in the brackets"),
        ({"order": recipes.easy_first, "steps": 4}, "build them into it"),
        ({"order": recipes.easy_first, "temperature": 1.0}, "its own symbols"),
        ({"steps": 2, "count": "1"}, "steps=2 could have no effect"),
        ({"steps": 2, "count": "threshold(0.9)"}, "steps=2 could have no effect"),
        ({"steps": 2, "count": "constant(3)"}, "steps=2 could have no effect"),
        ({"steps": "2L", "among": "masked"}, "leave out among"),
        ({"top_p": 0.9}, "add a temperature"),
        ({"top_k": 3}, "add a temperature"),
        ({"beam": 4, "temperature": 1.0}, "no effect"),
        ({"beam": 4, "order": "gibbs(3)"}, "no effect"),
        ({"beam": 4, "steps": 3}, r"one position per step, not constant\(3\)"),
        ({"conditionals": "hidden"}, "visible or masked"),
        ({"beem": 4}, "did you mean 'beam'"),
        ({"top_k": 0}, "top_k"),
        ({"steps": 2.5}, "steps is a whole number"),
        ({"temperature": math.nan}, "temperature must be"),
        ({"among": "block(1.5)"}, "whole number"),
        ({"order": "gibbs(2.5)"}, "whole number"),
        ({"order": "gibbs(2"}, "one pair of brackets"),
        ({"order": "llada(4, 1.5)"}, "whole number"),
        ({"samples": 4}, "those of rescore 'marginal'"),
        ({"rescore": "marginal"}, "has one path only"),
        ({"rescore": "marginal", "order": "gibbs(4)"}, "goes back to written positions"),
        ({"rescore": "marginal", "order": "confidence", "order_temperature": 1.0}, "chosen by Y"),
        ({"rescore": "marginal", "polish": 1}, "'both' or 'pll'"),
        ({"normalise": "max"}, "normalise is mean or sum"),
    ],
    ids=lambda x: str(x)[:40],  # a decoder names its functions with their addresses, which differ by process
)
def test_mistakes_are_answered_kindly(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Plan.of(**options).decoder()


def test_a_recipe_by_its_name_is_that_recipe() -> None:
    for text, recipe in {"mask-predict(4)": recipes.mask_predict(4), "remdm(5, 0.2)": recipes.remdm(5, 0.2)}.items():
        decoder = Plan.of(text).decoder()
        assert (decoder.coordinates, decoder.steps) == (recipe.coordinates, recipe.steps)
    assert Plan.of(count=3).decoder().coordinates.count == fixed(3)
    assert Plan.of("gibbs(3)").decoder().symbols.temperature == recipes.gibbs(3).symbols.temperature == 1.0
    assert Plan.of("gibbs(3)", temperature=0.5).decoder().symbols.temperature == 0.5


@pytest.mark.parametrize("order", ["easy-first", "annealed(4)", "gibbs(3)"])
def test_the_papers_conditionals_reach_every_order(order: str) -> None:
    plain, paper = (Plan.of(order, conditionals=kind).decoder().coordinates for kind in ("visible", "masked"))
    assert (plain.conditionals, paper.conditionals) == ("visible", "masked")
    assert not paper.reuse  # the pass before saw the other kind


def test_top_p_keeps_the_temperature_of_a_recipe() -> None:
    symbols = Plan.of("gibbs(3)", top_p=0.5).decoder().symbols
    assert (symbols.temperature, symbols.top_p) == (1.0, 0.5)


@pytest.mark.parametrize("wrong", ["learned-cout", "forward"])
def test_a_models_own_orders_are_told_to_who_misspelt_one(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"did you mean '(learned-count|forwards)'\?"):
        Plan.of(wrong).check()


def test_a_learned_count_has_a_number_to_be_above() -> None:
    own = {"learned-count": Policy(4, several=True), "learned": Policy(4)}
    named = [Plan.of("learned-count", count=count).decoder(own=own).coordinates.count for count in (None, "above(2)")]
    assert [count.name for count in named] == ["learned", "above(2)"] and named[0] != named[1]
    for order, count in (("learned-count", "above"), ("learned", "above(2)")):
        with pytest.raises(PlanError):
            Plan.of(order, count=count).decoder(own=own)


def test_several_orders_are_a_plan_each() -> None:
    plan = Plan.of("easy-first | negent + 0.9*logp|mask-predict(3)", lengths=2)
    assert [one.order for one in plan.each] == ["easy-first", "negent + 0.9*logp", "mask-predict(3)"]
    assert {one.lengths for one in plan.each} == {2}
    assert Plan().each == (Plan(),)
    with pytest.raises(PlanError, match="a name is missing"):
        Plan.of("easy-first |").each  # noqa: B018


@pytest.mark.parametrize("options", [{"beam": 0}, {"lengths": 0}, {"rescore": "bleu"}], ids=str)
def test_a_plan_that_makes_no_sense_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        Plan.of(**options)
