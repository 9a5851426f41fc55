"""The diffusion LMs' bench: our texts are those of the published loops, and the page says what was measured."""

from __future__ import annotations

import pytest
import torch

from anyorder.lab.diffusion_bench import LOOPS, Corner, Row, measured, ours, small, table


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("prompts", [1, 3])
def test_we_write_what_the_published_loop_writes(name: str, prompts: int) -> None:
    loop, order = LOOPS[name]
    corner = Corner(16, 997, prompts, 8)
    model = small(corner, name)
    model.head.weight.mul_(30)  # so that no two entropies are as good as the same
    prompt = torch.randint(2, 997, (prompts, 64), generator=torch.Generator().manual_seed(2))
    assert torch.equal(ours(model, prompt, order(8)), loop(model, prompt, 8))


def test_a_corner_is_measured_and_told() -> None:
    row = measured(Corner(16, 500, 1, 4), "llada", 1, lambda text: None)
    assert row.same == "1 of 1" and row.limit > 0 and row.reached == pytest.approx(row.ratio / row.limit)
    assert "| llada | 16 | 500 | 1 | 4 | 2.00 | 4.00 | 0.50 | 1 of 1 |" in table(
        [Row("llada", Corner(16, 500, 1, 4), 2.0, 4.0, "1 of 1")]
    )
