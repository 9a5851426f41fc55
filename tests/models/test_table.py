"""The tabular oracle against the definition of a conditional, by plain enumeration."""

from __future__ import annotations

import itertools

import pytest
import torch

from anyorder.core.model import Model, NoContext
from anyorder.models.table import Table


def enumerated(table: Table, canvas: list[int], i: int) -> list[float]:
    """p(y_i | the other visible symbols), summed sequence by sequence."""
    mass = [0.0] * table.vocabulary
    for sequence, p in zip(table.sequences.tolist(), table.p.tolist(), strict=True):
        if all(j == i or c >= table.vocabulary or c == sequence[j] for j, c in enumerate(canvas)):
            mass[sequence[i]] += p
    return [m / sum(mass) for m in mass]


@pytest.mark.parametrize(("length", "vocabulary"), [(1, 4), (2, 3), (3, 3), (4, 2)])
def test_every_conditional_of_every_canvas(length: int, vocabulary: int) -> None:
    table = Table(length, vocabulary, seed=length, dtype=torch.float64)
    assert isinstance(table, Model)
    canvases = torch.tensor(list(itertools.product(range(vocabulary + 1), repeat=length)))
    found = table.logits(table.hidden(table.encode(), canvases).flatten(0, 1)).exp().view(*canvases.shape, -1)
    expected = torch.tensor([[enumerated(table, row, i) for i in range(length)] for row in canvases.tolist()])
    torch.testing.assert_close(found[..., :vocabulary].float(), expected, atol=1e-6, rtol=0)
    assert (found[..., vocabulary:] == 0).all()


def test_chain_rule_gives_the_joint() -> None:
    table = Table(4, 3, seed=5, dtype=torch.float64)
    canvas = torch.full_like(table.sequences, table.mask_id)
    logp = torch.zeros(len(canvas), dtype=torch.float64)
    for i in (2, 0, 3, 1):
        logp += table.hidden(NoContext(), canvas)[:, i].gather(-1, table.sequences[:, i : i + 1])[:, 0]
        canvas[:, i] = table.sequences[:, i]
    torch.testing.assert_close(logp.exp(), table.p)
    assert torch.equal(table.index(table.sequences), torch.arange(len(table.p)))


def test_padding_is_summed_out_and_its_amount_does_not_matter() -> None:
    table = Table(3, 3)
    short = torch.tensor([[1, table.mask_id], [table.mask_id, 2]])
    expected = table.hidden(NoContext(), short)
    for amount in (1, 3):
        padded = torch.nn.functional.pad(short, (0, amount), value=table.pad_id)
        assert torch.equal(table.hidden(NoContext(), padded)[:, :2], expected)
    with pytest.raises(ValueError, match="3 symbols"):
        table.hidden(NoContext(), torch.zeros(1, 4, dtype=torch.long))
