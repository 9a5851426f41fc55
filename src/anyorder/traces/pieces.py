"""How a tokenizer's pieces are shown to people: their text, and whether they join their neighbours into a word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

SPECIAL = re.compile(r"<[^\s<>]+>|\[[A-Z0-9]+\]|<\|[^\s]+\|>")


class Piece(NamedTuple):
    """A token as shown. Two neighbours are one word if the first joins right or the second joins left."""

    text: str
    joins_left: bool = False
    joins_right: bool = False
    special: bool = False


def pieces(tokens: Iterable[str]) -> dict[str, Piece]:
    """Each different token with how it is shown; the tokenizer's convention is recognised from all of them."""
    known = list(dict.fromkeys(tokens))
    convention = next((c for c in ("▁", "Ġ", "##", "@@", "</w>") if any(_uses(t, c) for t in known)), "")
    return {token: _piece(token, convention) for token in known}


def _uses(token: str, convention: str) -> bool:
    return token.endswith(convention) if convention in ("@@", "</w>") else token.startswith(convention)


def _piece(token: str, convention: str) -> Piece:
    if SPECIAL.fullmatch(token):
        return Piece(token, special=True)
    marked = bool(convention) and _uses(token, convention)
    if convention in ("▁", "Ġ"):  # SentencePiece, byte-level BPE: the mark opens a word
        text = token[1:] if marked else token
        return Piece(_visible(_from_bytes(text) if convention == "Ġ" else text), joins_left=not marked)
    if convention == "##":  # WordPiece: the mark continues a word
        return Piece(_visible(token[2:] if marked else token), joins_left=marked)
    if convention == "@@":  # fastBPE and subword-nmt: the mark says that the word goes on
        return Piece(_visible(token[:-2] if marked else token), joins_right=marked)
    if convention == "</w>":  # original BPE: the mark closes a word
        return Piece(_visible(token[:-4] if marked else token), joins_right=not marked)
    return Piece(_visible(token))


def _visible(text: str) -> str:
    return text.replace("\n", "↵").replace("\t", "⇥") if text.strip(" ") else "␣"


@cache
def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes each byte as one printable character; this is the way back."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}


def _from_bytes(text: str) -> str:
    alphabet = _byte_alphabet()
    if any(c not in alphabet for c in text):
        return text
    return bytes(alphabet[c] for c in text).decode("utf-8", errors="replace")
