"""Everything runs where the model is: on a device that refuses the CPU's tensors, and on one without float64."""

from __future__ import annotations

import pytest
import torch
from elsewhere import DEVICE, Met, elsewhere

from anyorder import recipes
from anyorder.core import (
    Coordinates,
    Decoder,
    Feature,
    NoContext,
    State,
    Symbols,
    beam,
    begin,
    canvas,
    chains,
    decode,
    devices,
    marginal,
    sampler,
)
from anyorder.core.order import logp, negent
from anyorder.models.table import Table

DRAWN = Coordinates(negent + logp, recipes.constant_time(3).coordinates.count, temperature=1.0)
DECODERS: dict[str, Decoder] = {
    **recipes.every(4, 2),
    **{f"{name} 2L": recipes.two_pass(d) for name, d in list(recipes.STRATEGIES.items())[:5]},
    "drawn sets": Decoder(DRAWN, Symbols(temperature=0.7, top_p=0.9)),
    "top k": Decoder(DRAWN, Symbols(temperature=0.7, top_k=2)),
}


@pytest.fixture(params=["float64", "no float64"])
def precise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Does the device have float64? On one that has not, draws are made of fewer digits."""
    has = request.param == "float64"
    monkeypatch.setattr(devices, "NO_FLOAT64", set() if has else {"lazy"})
    return bool(has)


def start(device: torch.device | str) -> State:
    table = Table(6, 3)
    tokens = canvas(torch.tensor([6, 4, 5]), table.mask_id, table.pad_id).to(device)
    return begin(tokens, table.mask_id, table.pad_id, seed=3)


def test_the_device_is_strict() -> None:
    with elsewhere(float64=False):
        x = torch.arange(3, device=DEVICE)
        with pytest.raises(Met, match="add: tensors elsewhere meet"):
            x + torch.arange(3)
        with pytest.raises(Met, match="float64"):
            x.double()
        assert (x + 1).tolist() == [1, 2, 3] and (x + 1).device == DEVICE


@pytest.mark.parametrize("name", DECODERS)
def test_a_recipe_writes_elsewhere_what_it_writes_here(name: str, precise: bool) -> None:
    here = decode(Table(6, 3), NoContext(), start("cpu"), DECODERS[name])
    with elsewhere(float64=precise):
        there = decode(Table(6, 3), NoContext(), start(DEVICE), DECODERS[name])
        assert there.tokens.device == there.score.device == DEVICE
        assert torch.equal(there.tokens.cpu(), here.tokens)
        torch.testing.assert_close(there.score.cpu(), here.score, atol=1e-4, rtol=0)


def test_searches_chains_and_scores_elsewhere(precise: bool) -> None:
    table, chain = Table(6, 3), sampler(negent + logp, temperature=1.0)
    found = beam(table, NoContext(), start("cpu"), recipes.easy_first, 4, 2)
    samples = chains(table, NoContext(), start("cpu"), chain, samples=3)
    written = begin(found.tokens[:, 0], table.mask_id, table.pad_id, open=found.tokens[:, 0] != table.pad_id)
    sums = marginal(table, NoContext(), written, recipes.uniform, 4)
    with elsewhere(float64=precise):
        table = Table(6, 3)
        again = beam(table, NoContext(), start(DEVICE), recipes.easy_first, 4, 2)
        assert torch.equal(again.tokens.cpu(), found.tokens) and torch.equal(again.path.cpu(), found.path)
        assert torch.equal(chains(table, NoContext(), start(DEVICE), chain, samples=3).tokens.cpu(), samples.tokens)
        tokens = found.tokens[:, 0].to(DEVICE)
        there = begin(tokens, table.mask_id, table.pad_id, open=tokens != table.pad_id)
        torch.testing.assert_close(marginal(table, NoContext(), there, recipes.uniform, 4).cpu(), sums)


@pytest.mark.parametrize("name", ["uniform", "easy-first", "confidence", "constant-time", "llada", "fast-dllm"])
def test_a_step_reads_back_twice_at_most(name: str) -> None:
    """Which positions are looked at, and everything else at once: which rows go on, whether anything is wrong."""
    from benchmarks.host_reads import reads

    steps, total, lines = reads(name, 8, 4, 3)
    assert total <= 2 * steps + 2, lines  # and when the rows leave


def test_what_is_wrong_elsewhere_is_told_after_the_step() -> None:
    nan = Feature("broken", lambda state, view: state.logp / 0.0 * 0.0)
    with elsewhere(), pytest.raises(ValueError, match="row 0, position 0, step 0: the order's broken is not a number"):
        decode(Table(6, 3), NoContext(), start(DEVICE), Decoder(Coordinates(nan)))
