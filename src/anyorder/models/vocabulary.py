"""Tokenizers of Hugging Face folders: one that does not fit its model is refused, letters are split where the
vocabulary is letters, and symbols that a text has and the vocabulary lacks are named."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

from anyorder.errors import ModelError, TextError, first_line

FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model")
ROUNDED = 512  # models round their vocabulary up, to a multiple of at most this …
SPARE, FEW = 0.03, 16  # … or keep this share of it, or as few as these, for symbols to come
CAPITALS = 0.25  # a tokenizer that writes in lower case cannot be of a vocabulary with that share of capitals
_NO_TEXT = re.compile(r"\[(unused\d+|PAD|UNK|CLS|SEP|MASK)\]|<[^<>]+>")


def load_tokenizer(where: str, **hub: Any) -> Any:
    """The tokenizer of a local folder or a hub name; no code from there is ever run."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(where, trust_remote_code=False, **hub)
    except Exception as error:  # its causes are as many as there are tokenizers
        raise ModelError(
            f"cannot load the tokenizer in {where} (tokenizer.json or vocabulary files): {first_line(error)}"
        ) from error


def fitted(tokenizer: Any, size: int, where: str) -> Any:
    """The tokenizer, if its symbols are those of a model of `size` symbols; it then splits letters, where letters are
    its symbols, and keeps capitals, where it has nothing else."""
    words = tokenizer.get_vocab()
    plain = [word for word in words if _plain(tokenizer, word)]
    highest = max((words[word] for word in plain), default=-1)
    if highest >= size:
        raise ModelError(
            f"the tokenizer of {where} has {len(words)} symbols, up to number {highest}, but the model knows {size}: "
            "it is another model's; put in the tokenizer files that came with this one"
        )
    if not plain or not _rounded_up(len(words), size):
        raise ModelError(
            f"the tokenizer of {where} ({type(tokenizer).__name__}) has {len(words)} symbols, the model {size}: "
            f"{_missing(tokenizer, Path(where))}"
        )
    _keep_capitals(tokenizer, plain, where)
    _split_letters(tokenizer, plain)
    return tokenizer


def encode(tokenizer: Any, text: str, allow_unknown: bool = False) -> list[int]:
    """The ids of a text, without special symbols around it. Characters that the vocabulary lacks are refused."""
    if allow_unknown:
        return list(tokenizer.encode(text, add_special_tokens=False))
    ids, lost = _read(tokenizer, text)
    if not lost:
        return ids
    shown = ", ".join(map(repr, lost[:8])) + (f" and {len(lost) - 8} more" if len(lost) > 8 else "")
    advice = "change the text, or load the model with unknown='allow': it then reads an unknown symbol there"
    if text != text.upper() and not _read(tokenizer, text.upper())[1]:
        advice = "it has capitals only, so write the text in capitals"
    raise TextError(f"the model's vocabulary lacks {shown}: {advice}")


# ---------------------------------------------------------------------- does it fit?


def _plain(tokenizer: Any, word: str) -> bool:
    return word not in tokenizer.all_special_tokens and not _NO_TEXT.fullmatch(word)


def _rounded_up(known: int, size: int) -> bool:
    """Are the symbols that a model has beyond those `known` spare ones? They are never as many as the known."""
    short, multiples = size - known, (2**k for k in range(3, ROUNDED.bit_length()))
    spare = short <= max(SPARE * size, FEW) or any(size % m == 0 and short < m for m in multiples)
    return spare and short < known


def _missing(tokenizer: Any, folder: Path) -> str:
    """Which file would bring the other symbols."""
    wanted = dict.fromkeys([*getattr(tokenizer, "vocab_files_names", {}).values(), FILES[0]])
    if not folder.is_dir():
        return f"its repository lacks {' or '.join(wanted)}, or holds another model's"
    if any((folder / name).exists() for name in wanted):
        return "the files of its vocabulary are another model's; put in those that came with this one"
    lacking = f"the folder has no {' and no '.join(wanted)}"
    if here := [name for name in FILES if (folder / name).exists()]:
        return (
            f"{lacking}, and {type(tokenizer).__name__} does not read its {here[0]}: "
            f"`anyorder convert {folder} NEW-FOLDER --split REGEX` makes a tokenizer of it"
        )
    if above := [name for name in FILES if (folder.resolve().parent / name).exists()]:
        return f"{lacking}; {above[0]} lies one folder above: copy it into {folder}"
    return lacking


# ---------------------------------------------------------------------- letters


def _keep_capitals(tokenizer: Any, plain: list[str], where: str) -> None:
    """A vocabulary without small letters is not written in them, whatever the class of the tokenizer does."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    normalizer = getattr(inner, "normalizer", None)
    if normalizer is None or normalizer.normalize_str("A") != "a":
        return
    lettered = [word for word in plain if word.lower() != word or word.upper() != word]
    capitals = [word for word in lettered if normalizer.normalize_str(word) != word and word.lower() != word]
    if len(capitals) < CAPITALS * len(lettered) or not capitals:
        return
    if hasattr(normalizer, "lowercase") and all(word.upper() == word for word in lettered):
        normalizer.lowercase = False
        tokenizer.do_lower_case = False
        return
    raise ModelError(
        f"the tokenizer of {where} writes everything in lower case, but {len(capitals)} of its vocabulary's "
        f'{len(plain)} symbols have capitals ({capitals[0]!r}): set "do_lower_case": false in its '
        "tokenizer_config.json, or put in the tokenizer files that came with the model"
    )


def _split_letters(tokenizer: Any, plain: list[str]) -> None:
    """Where all symbols are single letters, every letter is one, also inside what looks like a word."""
    from tokenizers import Regex, decoders, pre_tokenizers

    if len(plain) < 2 or any(len(word) != 1 for word in plain) or not getattr(tokenizer, "is_fast", False):
        return
    if tokenizer.unk_token_id not in tokenizer.encode("".join(plain[:2]), add_special_tokens=False):
        return  # it splits them already
    inner = tokenizer.backend_tokenizer
    split = pre_tokenizers.Split(Regex("."), "isolated")
    inner.pre_tokenizer = pre_tokenizers.Sequence([p for p in (inner.pre_tokenizer, split) if p is not None])
    inner.decoder = decoders.Fuse()


# ---------------------------------------------------------------------- what a text has and the vocabulary lacks


def _read(tokenizer: Any, text: str) -> tuple[list[int], list[str]]:
    """A text's ids, and what of it they do not say: it became the unknown symbol, or was dropped."""
    if not getattr(tokenizer, "is_fast", False):
        ids = list(tokenizer.encode(text, add_special_tokens=False))
        return ids, _unknown_in(tokenizer, [text]) if _unknown(tokenizer) in ids else []
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, spans = list(found["input_ids"]), found["offset_mapping"]
    pieces = [text[a:b] for (a, b), i in zip(spans, ids, strict=True) if i == _unknown(tokenizer)]
    seen = set[int]().union(*(range(a, b) for a, b in spans))
    dropped = [c for i, c in enumerate(text) if i not in seen and unicodedata.category(c)[0] in "LNPS"]
    if type(tokenizer.backend_tokenizer.model).__name__ != "WordLevel":  # its symbols are whole pieces
        pieces = _unknown_in(tokenizer, pieces)
    return ids, list(dict.fromkeys([*pieces, *dropped]))


def _unknown(tokenizer: Any) -> int | None:
    """The symbol for what the vocabulary lacks; vocabularies of bytes lack nothing, and name another symbol there."""
    others = (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id)
    return None if tokenizer.unk_token_id in others else tokenizer.unk_token_id


def _unknown_in(tokenizer: Any, pieces: list[str]) -> list[str]:
    """The characters of pieces of text that are unknown by themselves; pieces that only as a whole are unknown."""

    def lost(text: str) -> bool:
        return _unknown(tokenizer) in tokenizer.encode(text, add_special_tokens=False)

    out: list[str] = []
    for piece in pieces:
        letters = [c for c in dict.fromkeys(piece) if not c.isspace() and lost(c)]
        out += letters or [word for word in piece.split() if lost(word)] or [piece]
    return out
