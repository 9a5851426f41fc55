"""Insertion (appendix B): relative coordinates through the same step."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from support import Hashed, p_value
from torch import Tensor

from anyorder.core import NoContext, State, Symbols, begin, decode, unroll
from anyorder.recipes import insert_balanced, insert_left2right, insert_uniform

N = 20_000
END = 3  # the fixed last symbol; 0 and 1 are words, 2 is "stop"
STOP = 2


class Slots(Hashed):
    """Pseudo-random p(symbol or stop | slot, canvas); `last_only` answers stop in every slot but the last."""

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__(4, causal=causal, sharpness=0.5)

    def logits(self, hidden: Tensor) -> Tensor:
        x = super().logits(hidden)
        x[:, END] = -torch.inf
        return x


def rows(model: Hashed, n: int, end: int = END) -> State:
    return begin(torch.full((n, 1), end), model.mask_id, model.pad_id, open=torch.ones(n, 1, dtype=torch.bool))


def words(tokens: Tensor, model: Hashed) -> list[tuple[int, ...]]:
    return [tuple(v for v in row if v not in (model.pad_id, END)) for row in tokens.tolist()]


def agree(found: list[tuple[int, ...]], p: dict[tuple[int, ...], float]) -> float:
    assert math.isclose(sum(p.values()), 1.0, rel_tol=1e-6)
    counts = Counter(found)
    assert set(counts) <= set(p)
    return p_value(torch.tensor([counts[y] for y in p]), torch.tensor(list(p.values())))


def test_left_to_right_samples_the_joint_over_sequences_of_every_length() -> None:
    model, longest = Slots(causal=True), 4

    def joint(prefix: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        if len(prefix) + 1 == longest:
            return {prefix: 1.0}
        p = model.log_p([*prefix, END], len(prefix)).exp()
        out = {prefix: float(p[STOP])}
        for v in (0, 1):
            out |= {y: q * float(p[v]) for y, q in joint((*prefix, v)).items()}
        return out

    decoder = replace(insert_left2right(STOP, longest), symbols=Symbols(1.0))
    result = decode(model, NoContext(), rows(model, N), decoder)
    assert agree(words(result.tokens, model), joint(())) > 1e-4
    assert int(result.steps.max()) == longest - 1
    short = result.steps - 1 == torch.tensor([len(y) for y in words(result.tokens, model)])
    assert (short | (result.steps == longest - 1)).all()  # L words and a stop, or as long as it may be


def test_uniform_insertion_is_the_sum_over_its_orders() -> None:
    model, longest = Slots(), 4

    def process(tokens: tuple[int, ...], open_: tuple[bool, ...]) -> dict[tuple[int, ...], float]:
        slots = [i for i, o in enumerate(open_) if o]
        if not slots or len(tokens) == longest:
            return {tokens[:-1]: 1.0}
        out: Counter[tuple[int, ...]] = Counter()
        for i in slots:
            p = model.log_p(list(tokens), i).exp()
            after = [(tokens, (*open_[:i], False, *open_[i + 1 :]), float(p[STOP]))]
            for v in (0, 1):
                after.append(((*tokens[:i], v, *tokens[i:]), (*open_[:i], True, *open_[i:]), float(p[v])))
            for y, o, q in after:
                for final, r in process(y, o).items():
                    out[final] += q * r / len(slots)
        return dict(out)

    decoder = replace(insert_uniform(STOP, longest), symbols=Symbols(1.0))
    found = words(decode(model, NoContext(), rows(model, N), decoder).tokens, model)
    p = process((END,), (True,))
    assert agree(found, p) > 1e-4
    backwards = words(
        decode(
            model, NoContext(), rows(model, N), replace(insert_left2right(STOP, longest), symbols=Symbols(1.0))
        ).tokens,
        model,
    )
    assert agree(backwards, p) < 1e-9  # the control: another order, another distribution


class Tree:
    """Inserts the middle of what is missing between two symbols of 1 … n: a balanced binary tree."""

    mask_id, pad_id, vocabulary = 63, 62, 64

    def encode(self, source: Tensor) -> Tensor:
        return source

    def hidden(self, context: NoContext, tokens: Tensor) -> Tensor:
        """The end symbol is n + 1, so each row knows its own n."""
        left = torch.nn.functional.pad(tokens, (1, -1))  # 0 before the first symbol
        middle = (left + tokens) // 2
        return torch.where(tokens - left > 1, middle, 0)[..., None].float()

    def logits(self, hidden: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(hidden[:, 0].long(), 64).float() * 30


def test_a_balanced_tree_is_done_in_logarithmic_time() -> None:
    model, n = Tree(), torch.arange(1, 40)
    state = begin((n + 1)[:, None], model.mask_id, model.pad_id, open=torch.ones(len(n), 1, dtype=torch.bool))
    result = decode(model, NoContext(), state, insert_balanced(0, 60))
    for r, length in enumerate(n.tolist()):
        assert [v for v in result.tokens[r].tolist() if v != model.pad_id] == list(range(1, length + 2))
        assert int(result.steps[r]) == math.ceil(math.log2(length + 1)) + 1
    assert result.cost.forwards == int(result.steps.max())


def test_a_row_never_grows_beyond_its_longest() -> None:
    model = Tree()
    state = begin(torch.tensor([[30]]), model.mask_id, model.pad_id, open=torch.tensor([[True]]))
    result = decode(model, NoContext(), state, insert_balanced(0, 10))
    tokens = result.tokens[0].tolist()
    assert len(tokens) == 10 and tokens == sorted(set(tokens)) and tokens[-1] == 30


def test_what_there_is_no_room_for_does_not_count() -> None:
    model = Slots()
    together, score = rows(model, 60), torch.zeros(60)
    refused = 0
    for s in unroll(model, NoContext(), together, replace(insert_balanced(STOP, 4), symbols=Symbols(1.0))):
        grown = (s.state.tokens != model.pad_id).sum(-1) - (s.before.tokens != model.pad_id).sum(-1)
        put = s.written & (s.view.token != STOP)
        assert torch.equal(put.sum(-1), grown)
        refused += int((s.z & ~s.written).sum())
        score[s.rows] += torch.where(s.written, s.view.logp, 0.0).sum(-1)
        torch.testing.assert_close(s.state.score, score[s.rows])
    assert refused > 0


@pytest.mark.parametrize("make", [insert_left2right, insert_uniform, insert_balanced])
def test_rows_of_an_insertion_do_not_mix(make: object) -> None:
    model = Slots()
    decoder = replace(make(STOP, 7), symbols=Symbols(1.0))  # type: ignore[operator]
    together = decode(model, NoContext(), rows(model, 9), decoder)
    state = rows(model, 9)
    for r in range(9):
        alone = decode(model, NoContext(), state.take(torch.tensor([r])), decoder)
        width = alone.tokens.shape[1]
        assert torch.equal(alone.tokens[0], together.tokens[r, :width])
        assert float(alone.score) == float(together.score[r])
        assert (together.tokens[r, width:] == model.pad_id).all()
    seen = list(unroll(model, NoContext(), state, decoder))
    assert all((s.state.tokens == END).sum(-1).eq(1).all() for s in seen)
