"""p(L|X) as a table that can be written down: {"de-en": {source length: {target length: how often}}}."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import torch

from anyorder.core import Counts, Length

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
