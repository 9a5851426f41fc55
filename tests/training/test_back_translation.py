"""Back-translation: people's pairs both ways, a model's sources only towards targets that people wrote."""

from __future__ import annotations

import pytest
import torch

from anyorder.data.ragged import Ragged
from anyorder.errors import DataError
from anyorder.training.objectives import Corpus
from anyorder.training.prepare import with_back_translations

PAIRS = Corpus(Ragged.of([[1, 2], [3]]), Ragged.of([[11, 12], [13, 14, 15]]))
WRITTEN = Corpus(Ragged.of([[91], [1, 2], [5, 6]]), Ragged.of([[21, 22], [92], [93]]), target=torch.tensor([0, 1, 1]))


def rows(corpus: Corpus) -> list[tuple[list[int], list[int], int]]:
    assert corpus.second is not None and corpus.target is not None
    sides = zip(range(len(corpus)), corpus.target.tolist(), strict=True)
    return [(corpus.first.row(i), corpus.second.row(i), t) for i, t in sides]


def test_real_pairs_are_learnt_both_ways_and_written_ones_towards_what_people_wrote() -> None:
    assert rows(with_back_translations(PAIRS, WRITTEN)) == [
        ([1, 2], [11, 12], 1),
        ([3], [13, 14, 15], 1),
        ([1, 2], [11, 12], 0),
        ([3], [13, 14, 15], 0),
        ([91], [21, 22], 1),  # the model wrote the first side: the second is learnt
        ([5, 6], [93], 0),  # and the other way round; [1, 2] has a source by people and is left out
    ]


def test_padded_rows_of_a_joined_corpus_are_those_of_its_parts() -> None:
    joined = with_back_translations(PAIRS, WRITTEN)
    tokens, lengths = joined.first.padded(torch.tensor([5, 0, 4]), pad=0)
    assert tokens.tolist() == [[5, 6], [1, 2], [91, 0]]
    assert lengths.tolist() == [2, 2, 1]


def test_nothing_new_is_refused() -> None:
    known = Corpus(Ragged.of([[7]]), Ragged.of([[11, 12]]), target=torch.tensor([0]))
    with pytest.raises(DataError, match="monolingual"):
        with_back_translations(PAIRS, known)
