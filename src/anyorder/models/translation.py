"""Shared by the translation models: the source as ids, the ids of special symbols, length counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.core import Counts, Length


@dataclass(frozen=True)
class Source:
    """Sentences to translate: what `encode` of every translation model takes.

    `tokens` are ids without delimiters, with the pad id after a row's end. Languages are indices into the model's
    `languages`, one for all rows or one per row.
    """

    tokens: Tensor  # (N, S) int64
    source_lang: int | Tensor  # (N,) int64
    target_lang: int | Tensor
    close: bool = True  # does a closing </s> follow the target? (masked models only; without it the canvas just ends)


@dataclass(frozen=True)
class SpecialIds:
    """The ids that a model treats specially."""

    bos: int = 0
    eos: int = 1
    pad: int = 2
    unk: int = 3
    mask: int = 4
    blank: int = 0  # on a canvas of slots: nothing stands here (there is no <s> then)


def language_rows(language: int | Tensor, rows: int, device: torch.device) -> Tensor:
    """A language, or one per row → (N, 1) int64."""
    if isinstance(language, int):
        return torch.full((rows, 1), language, dtype=torch.int64, device=device)
    return language.to(device).view(rows, 1)


def delimited(tokens: Tensor, special: SpecialIds, close: bool = True) -> tuple[Tensor, Tensor]:
    """(N, L) padded at row ends → `</s> tokens </s>` (N, L+2) padded likewise, and which of it is real, bool."""
    out = F.pad(tokens, (1, 1), value=special.pad)
    out[:, 0] = special.eos
    if close:
        out.scatter_(1, out.ne(special.pad).sum(1, keepdim=True), special.eos)
    return out, out.ne(special.pad)


def check_length(width: int, positions: int, what: str) -> None:
    """An error if there are more tokens than positions."""
    if width > positions:
        raise ValueError(
            f"{what} of {width} tokens (delimiters included) is longer than the {positions} positions of this model: "
            "split the text, or train with a larger `positions`"
        )


def columns_of(n: Tensor, i: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Entries (n, i), sorted by row → their columns as (N, C), short rows filled up with column 0, and which of the
    C each entry is (M,)."""
    if rows == 1:
        return i[None], torch.arange(len(i), device=i.device)
    counts = torch.bincount(n, minlength=rows)  # (N,)
    most = int(counts.max())
    if most == 1 and len(n) == rows:  # one of each row
        return i[:, None], torch.zeros_like(i)
    starts = counts.cumsum(0) - counts
    slot = torch.arange(len(n), device=n.device) - starts[n]
    columns = torch.zeros(rows, most, dtype=torch.int64, device=n.device)
    columns[n, slot] = i
    return columns, slot


LONGEST = 5000  # tokens
LengthCounts = dict[str, dict[str, int]]  # source length → target length → how often


def count_lengths(pairs: Iterable[tuple[int, int]]) -> LengthCounts:
    """How often each (source length, target length) occurs."""
    table: LengthCounts = {}
    for (s, t), n in sorted(Counter(pairs).items()):
        table.setdefault(str(s), {})[str(t)] = n
    return table


def length_models(tables: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, Length]:
    """The length model of each direction, from its table."""
    out: dict[str, Length] = {}
    for direction, counts in tables.items():
        pairs = [(int(s), int(t), int(c)) for s, row in counts.items() for t, c in row.items()]
        if not sum(c for _, _, c in pairs):
            raise ValueError(f"{direction} has no counts")
        if any(not (0 <= s <= LONGEST and 0 <= t <= LONGEST and 0 <= c < 2**53) for s, t, c in pairs):
            raise ValueError(f"{direction} has a length that is not between 0 and {LONGEST}, or a count below 0")
        size = torch.zeros(max(s for s, _, _ in pairs) + 1, max(t for _, t, _ in pairs) + 1, dtype=torch.float64)
        for s, t, c in pairs:
            size[s, t] = c
        out[direction] = Counts(size)
    return out
