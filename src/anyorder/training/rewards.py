"""What a coordinate policy is rewarded for: a quality Q of the text so far, paid as it changes.

    r_t = Q(Y^{t+1}) − Q(Y^t)

With Q = −edit distance that is the paper's reward. A reward that is not `dense` pays the same sum at the end. Where
passes are to be saved, each step costs `price` besides: the sum is Q − λ · passes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.core.state import State

Quality = Callable[[State, list[list[int]]], Tensor]  # a state of N rows and their references → (N,)


@dataclass(frozen=True)
class Reward:
    quality: Quality
    dense: bool = True
    price: float = 0.0  # λ


def written(state: State) -> list[list[int]]:
    """The rows of a state without padding, masks as they are."""
    return [[y for y in row if y != state.pad_id] for row in state.tokens.tolist()]


def edit_distance(state: State, references: list[list[int]]) -> Tensor:
    """−d_edit(Y, Y*) in symbols. `<mask>` occurs in no reference, so it counts as wrong."""
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    return -torch.from_numpy(process.cpdist(written(state), references, scorer=Levenshtein.distance)).float()


def right_symbols(state: State, references: list[list[int]]) -> Tensor:
    """The number of positions that hold the reference's symbol: for tasks of a fixed layout."""
    return torch.tensor([sum(a == b for a, b in zip(y, r, strict=False)) for y, r in zip(written(state), references)])  # noqa: B905


def sentence_bleu(state: State, references: list[list[int]]) -> Tensor:
    """Smoothed sentence BLEU over symbols, 0–100; `<mask>` matches nothing."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(tokenize="none", effective_order=True, force=True)

    def text(row: list[int]) -> str:
        return " ".join(map(str, row))

    rows = zip(written(state), references, strict=True)
    return torch.tensor([bleu.sentence_score(text(y), [text(r)]).score for y, r in rows])


def log_probability(state: State, references: list[list[int]]) -> Tensor:
    """Σ_i log p(y_i) of the symbols written, each as it was when it was written. Needs no reference."""
    return state.logp.sum(-1)


REWARDS: dict[str, Quality] = {
    "edit-distance": edit_distance,
    "right-symbols": right_symbols,
    "sentence-bleu": sentence_bleu,
    "log-probability": log_probability,
}


def find_reward(name: str, dense: bool = True, price: float = 0.0) -> Reward:
    """A reward by its name, or a user's own quality function as "module:function"."""
    if name in REWARDS:
        return Reward(REWARDS[name], dense, price)
    module, _, function = name.partition(":")
    if not function:
        raise ValueError(f'no reward {name!r}; there are {", ".join(REWARDS)}, or your own as "module:function"')
    return Reward(getattr(importlib.import_module(module), function), dense, price)
