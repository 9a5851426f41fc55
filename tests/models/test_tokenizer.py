"""The vocabulary: lossless on any text, its file is its whole state, Moses on request."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.models.tokenizer import MASK, SPECIAL, Tokenizer, train_tokenizer

LINES = [("Zwei junge Männer stehen am Herd, und kochen.", "de"), ("Two young men are cooking.", "en")] * 20
TOKENIZER = train_tokenizer(LINES, 400)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="▁")))
def test_any_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode([text], "de"), "de") == [text]


@pytest.mark.parametrize("text", ["", " ", "  two  spaces ", "tab\tnew\nline", "漢字 and 🙂", "<mask> </s>", "It's."])
def test_hard_texts_come_back(text: str) -> None:
    ids = TOKENIZER.encode([text], "en")
    assert TOKENIZER.decode(ids, "en") == [text]
    assert not set(ids[0]) & set(range(len(SPECIAL)))  # a user can not write special symbols


def test_words_of_the_training_text_are_whole() -> None:
    ids = TOKENIZER.encode(["Two men"], "en")[0]
    assert TOKENIZER.tokens(ids) == ["▁Two", "▁men"]
    assert TOKENIZER.tokens([MASK]) == ["<mask>"] and len(TOKENIZER) <= 400


def test_special_symbols_are_left_out_of_text() -> None:
    ids = TOKENIZER.encode(["Two men"], "en")[0]
    assert TOKENIZER.decode([[1, *ids, 1, 2, 2]], "en") == ["Two men"]


def test_file_round_trip(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "tokenizer.json")
    back = Tokenizer.load(tmp_path / "tokenizer.json")
    text = "Two Männer, 漢字"
    assert back.encode([text], "de") == TOKENIZER.encode([text], "de") and not back.moses


def test_moses_splits_punctuation_and_joins_it_again(tmp_path: Path) -> None:
    moses = train_tokenizer(LINES, 400, moses=True)
    moses.save(tmp_path / "tokenizer.json")
    back = Tokenizer.load(tmp_path / "tokenizer.json")
    ids = back.encode(["Two men, cooking."], "en")
    assert "▁," in back.tokens(ids[0]) and back.moses
    assert back.decode(ids, "en") == ["Two men, cooking."]


def test_too_small_a_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="above 261"):
        train_tokenizer(LINES, 200)
