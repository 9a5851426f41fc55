"""The fused statistics over the vocabulary equal their definitions, whatever is banned or allowed."""

from __future__ import annotations

import pytest
import torch

from anyorder.core import Cost, Reader, Symbols, begin
from anyorder.core.logits import maximum

MASK, PAD, WIDTH = 300, 301, 333  # more than 256 symbols, and no multiple of 64


class Given:
    """A model whose logits are given, (N, L, V)."""

    mask_id, pad_id = MASK, PAD

    def __init__(self, logits: torch.Tensor) -> None:
        self.given = logits

    def encode(self, source: object = None) -> None:
        return None

    def hidden(self, context: object, tokens: torch.Tensor) -> torch.Tensor:
        return self.given.clone()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden


@pytest.fixture
def logits() -> torch.Tensor:
    x = 3 * torch.randn(4, 5, WIDTH, generator=torch.Generator().manual_seed(0))
    x[1, 2, 7:60] = -torch.inf  # a model may rule symbols out itself
    x[2, 3] += 200  # and its logits may be anywhere
    return x


@pytest.mark.parametrize("ban", [(), (0, 5, 332)])
@pytest.mark.parametrize("restricted", [False, True])
def test_statistics_by_definition(logits: torch.Tensor, ban: tuple[int, ...], restricted: bool) -> None:
    tokens = torch.randint(0, 300, (4, 5), generator=torch.Generator().manual_seed(1))
    tokens[:, ::2] = MASK
    state = begin(tokens, MASK, PAD, open=torch.ones_like(tokens, dtype=torch.bool))
    allowed = torch.rand(5, WIDTH, generator=torch.Generator().manual_seed(2)) < 0.5 if restricted else None
    reads = frozenset({"current", "entropy", "margin", "logp"})
    reader = Reader(Given(logits), Symbols(ban=ban, allowed=allowed), Cost())  # type: ignore[arg-type]
    view = reader.look(None, state, state.open, reads=reads)

    whole = logits.double().log_softmax(-1)
    ruled_out = torch.zeros(5, WIDTH, dtype=torch.bool) if allowed is None else ~allowed
    ruled_out[:, [*ban, MASK]] = True
    logp = logits.double().masked_fill(ruled_out, -torch.inf).log_softmax(-1)
    p = logp.exp()
    two = p.topk(2, -1).values
    assert torch.equal(view.token, p.argmax(-1))
    for mine, definition in (
        (view.current, whole.gather(-1, tokens[..., None])[..., 0]),
        (view.entropy, torch.special.entr(p).sum(-1)),
        (view.margin, two[..., 0] - two[..., 1]),
        (view.logp, logp.amax(-1)),
    ):
        assert mine is not None
        torch.testing.assert_close(mine.double(), definition, atol=2e-5, rtol=2e-5)


def test_a_sampling_reader_sees_the_same_statistics(logits: torch.Tensor) -> None:
    """Temperature changes what is drawn; entropy and log p are of the same distribution."""
    state = begin(torch.full((4, 5), MASK), MASK, PAD)
    reads = frozenset({"entropy", "current"})
    greedy = Reader(Given(logits), Symbols(), Cost()).look(None, state, state.open, reads=reads)  # type: ignore[arg-type]
    drawn = Reader(Given(logits), Symbols(1.0), Cost()).look(None, state, state.open, reads=reads)  # type: ignore[arg-type]
    assert greedy.entropy is not None and drawn.entropy is not None
    torch.testing.assert_close(greedy.entropy, drawn.entropy)
    own = logits.clone()
    own[..., MASK] = -torch.inf
    torch.testing.assert_close(drawn.logp, own.log_softmax(-1).gather(-1, drawn.token[..., None])[..., 0])


@pytest.mark.parametrize("width", [5, 256, 300, 8000, 8001])
def test_maximum_is_max(width: int) -> None:
    x = torch.randint(-20, 20, (50, width), generator=torch.Generator().manual_seed(width)).float()
    best, where = maximum(x)
    assert torch.equal(best, x.amax(-1))
    assert torch.equal(where, (x == best[:, None]).int().argmax(-1))  # the first of several
