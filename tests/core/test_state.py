"""States: what a copy knows."""

from __future__ import annotations

import pytest
import torch

from anyorder.core import begin


def test_a_copy_forgets_what_no_longer_holds() -> None:
    state = begin(torch.tensor([[9, 5, 9, 9]]), mask_id=9, pad_id=0)
    assert state.masked.tolist() == [[True, False, True, True]] and state.length.tolist() == [3]
    written = state.but(tokens=torch.tensor([[7, 5, 9, 9]]))
    assert written.masked.tolist() == [[False, False, True, True]]
    assert written.length is state.length and state.tokens.tolist() == [[9, 5, 9, 9]]
    closed = written.but(open=torch.tensor([[False, False, True, False]]))
    assert closed.length.tolist() == [1] and closed.place.tolist() == [[-1, -1, 0, 0]]
    assert closed.masked.tolist() == [[False, False, True, False]]


def test_a_misspelt_field_is_refused() -> None:
    state = begin(torch.tensor([[9, 5]]), mask_id=9, pad_id=0)
    with pytest.raises(TypeError, match=r"a state has no token$"):
        state.but(token=state.tokens)
