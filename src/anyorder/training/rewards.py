"""The reward of a coordinate policy: the change of a quality Q of the text so far.

    r_t = Q(Y^{t+1}) − Q(Y^t)

With Q = −edit distance that is the paper's reward. A reward that is not `dense` pays the same sum at the end. Where
passes are to be saved, each step costs `price` besides: the sum is Q − λ · passes.

Whether a symbol was right says little about the choice of its position: most would have come out the same later. So a
state may be judged `ahead`, by the text that it would become if every mask were written now. Then a step earns what
it changes in the rest of the text, and nothing for what was coming anyway. The sum over an episode differs by a number
that the input alone decides (its first state is the same for every order), so the best order stays the best.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

from anyorder.core.state import State
from anyorder.errors import extra

RowQuality = Callable[[State, list[list[int]]], Tensor]  # a state of N rows and their references → (N,)


@dataclass(frozen=True)
class Reward:
    """The reward of a step: the change of a quality, less a price per step."""

    quality: RowQuality
    dense: bool = True
    price: float = 0.0  # λ
    ahead: bool = False  # Q of the text that a state would become if all of it were written at once


def written(state: State) -> list[list[int]]:
    """The rows of a state without padding, masks as they are."""
    return [[y for y in row if y != state.pad_id] for row in state.tokens.tolist()]


def edit_distance(state: State, references: list[list[int]]) -> Tensor:
    """−d_edit(Y, Y*) in symbols. `<mask>` occurs in no reference, so it counts as wrong."""
    with extra("train"):
        from rapidfuzz import process
        from rapidfuzz.distance import Levenshtein

    return -torch.from_numpy(process.cpdist(written(state), references, scorer=Levenshtein.distance)).float()


def right_symbols(state: State, references: list[list[int]]) -> Tensor:
    """The number of positions that hold the reference's symbol: for tasks of a fixed layout."""
    return torch.tensor([sum(a == b for a, b in zip(y, r, strict=False)) for y, r in zip(written(state), references)])  # noqa: B905


def sentence_bleu(state: State, references: list[list[int]]) -> Tensor:
    """Smoothed sentence BLEU over symbols, 0–100; `<mask>` matches nothing."""
    with extra("train"):
        from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(tokenize="none", effective_order=True, force=True)

    def text(row: list[int]) -> str:
        return " ".join(map(str, row))

    rows = zip(written(state), references, strict=True)
    return torch.tensor([bleu.sentence_score(text(y), [text(r)]).score for y, r in rows])


def gleu(state: State, references: list[list[int]]) -> Tensor:
    """min(precision, recall) of all 1- to 4-grams together, 0–100; `<mask>` matches nothing (arXiv 1609.08144).

    BLEU's kin for single sentences: it needs no smoothing, and rises with every n-gram. An n-gram of the text counts
    if the reference has it more often than the text had it further left.
    """
    wide = max(state.tokens.shape[1], *map(len, references))
    y = pad(state.tokens.masked_fill(state.tokens == state.pad_id, -1), (0, wide - state.tokens.shape[1]), value=-1)
    r = torch.tensor([[*row, *[-2] * (wide - len(row))] for row in references], device=y.device)
    here, there = y[:, :, None] == r[:, None], (y[:, :, None] == y[:, None]) & (y >= 0)[:, :, None]
    same, again = here, there  # (N, L, L) is the n-gram at i of the text that at j of the reference, or of the text?
    lengths = torch.stack([(y >= 0).sum(-1), (r >= 0).sum(-1)]).amax(0)
    matches, most = torch.zeros(len(y)), torch.zeros(len(y))
    for n in range(4):
        if n:
            same, again = (pad(e[:, 1:, 1:], (0, 1, 0, 1)) & first for e, first in ((same, here), (again, there)))
        matches += (same.sum(-1) > again.tril(-1).sum(-1)).sum(-1)
        most += (lengths - n).clamp_min(0)
    return 100 * matches / most.clamp_min(1)


def log_probability(state: State, references: list[list[int]]) -> Tensor:
    """Σ_i log p(y_i) of the symbols written, each as it was when it was written. Needs no reference."""
    return state.logp.sum(-1)


REWARDS: dict[str, RowQuality] = {
    "edit-distance": edit_distance,
    "right-symbols": right_symbols,
    "sentence-bleu": sentence_bleu,
    "gleu": gleu,
    "log-probability": log_probability,
}


def find_quality(name: str, beside: Path | None = None) -> RowQuality:
    """A quality by its name, or a user's own function as "module:function", from a file in the folder `beside` too."""
    if name in REWARDS:
        return REWARDS[name]
    module, _, function = name.partition(":")
    if not function:
        raise ValueError(f'no reward {name!r}; there are {", ".join(REWARDS)}, or your own as "module:function"')
    before = list(sys.path)
    if beside is not None:  # as python has it for a script, but not for an installed command
        sys.path.insert(0, str(beside.resolve()))
        importlib.invalidate_caches()
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"no reward {name!r}: {error}") from error
    finally:
        sys.path[:] = before
    if not callable(found):
        raise ValueError(f"no reward {name!r}: {function} is no function")
    quality: RowQuality = found
    return quality
