"""How a tokenizer's symbols spell text: the bytes of each, and a language of bytes as an automaton over symbols."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch

from anyorder.core import Automaton
from anyorder.errors import RuleError
from anyorder.models.tokenizer import Tokenizer

Joints = Literal["plain", "words"]  # symbols stand beside each other as they are, or as BERT's words and word pieces do
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, eq=False)
class Spelling:
    """The bytes of every symbol; None where it is no text, and never written under a rule.

    "plain": a text is what its symbols spell, one after the other, without one space at its beginning. "words": a
    symbol that is no `##` piece begins a word, with a space before it if both sides of that are letters or digits.
    """

    pieces: tuple[bytes | None, ...]
    joints: Joints = "plain"
    inner: frozenset[int] = frozenset()  # "words": symbols that go on with a word

    def text(self, ids: Iterable[int]) -> str:
        """The text that symbols spell."""
        out = b""
        for n, i in enumerate(ids):
            piece = self.pieces[i] or b""
            if self.joints == "plain":
                out += piece.removeprefix(b" ") if n == 0 else piece
            else:
                apart = i not in self.inner and _ends_word(out) and _begins_word(piece)
                out += b" " + piece if apart else piece
        return out.decode("utf-8", "replace")

    def over_symbols(self, language: Automaton) -> Automaton:
        """The sequences of symbols whose texts are in a language of bytes."""
        return (_Plain if self.joints == "plain" else _Words)(self, language).made()

    @cached_property
    def letters(self) -> dict[str, int]:
        """Symbols that are one character each: an alphabet."""
        found: dict[str, int] = {}
        for i, piece in enumerate(self.pieces):
            if piece is not None and len(text := piece.decode("utf-8", "replace").strip()) == 1:
                found.setdefault(text, i)
        return found


class _Plain:
    """What each symbol makes of each state of a byte automaton: symbols that make the same of all are of one class."""

    def __init__(self, spelling: Spelling, language: Automaton) -> None:
        self.spelling, self.accept = spelling, language.accept.tolist()
        self.dead = language.states
        self.kind = language.kind.tolist()
        self.steps = [(*row, self.dead) for row in language.next.tolist()]  # byte class → state → state
        same = tuple(range(self.dead + 1))
        self.maps: list[tuple[int, ...]] = [same]  # what a string of bytes makes of the states
        self.number = {same: 0, (nowhere := (self.dead,) * (self.dead + 1)): 1}
        self.maps.append(nowhere)
        self.known: dict[tuple[int, int], int] = {}

    def read(self, piece: bytes) -> int:
        """Which map a string of bytes is."""
        at = 0
        for byte in piece:
            if at == 1:
                break
            key = (at, self.kind[byte])
            if key not in self.known:
                step, before = self.steps[key[1]], self.maps[at]
                after = tuple([step[q] for q in before])
                if after not in self.number:
                    self.number[after] = len(self.maps)
                    self.maps.append(after)
                self.known[key] = self.number[after]
            at = self.known[key]
        return at

    def classes(self) -> tuple[list[int], list[tuple[int, ...]], list[bool]]:
        """The class of each symbol, where each class leads from each state, the first is the start; what accepts."""
        kinds: dict[tuple[int, int], int] = {(1, self.dead): 0}
        of = []
        for piece in self.spelling.pieces:
            if piece is None:
                of.append(0)
                continue
            key = (self.read(piece), self.maps[self.read(piece.removeprefix(b" "))][0])
            of.append(kinds.setdefault(key, len(kinds)))
        rows = [(first, *self.maps[after][:-1]) for after, first in kinds]
        rows = [tuple(q + 1 for q in row) for row in rows]  # states are counted behind the start
        return of, rows, [self.accept[0], *self.accept]

    def made(self) -> Automaton:
        of, rows, accept = self.classes()
        return Automaton(torch.tensor(of), torch.tensor(rows), torch.tensor(accept)).smallest()


class _Words(_Plain):
    """The same where a space stands between words: states know whether the text ends with a letter or digit."""

    def classes(self) -> tuple[list[int], list[tuple[int, ...]], list[bool]]:
        kinds: dict[tuple[int, int, int, bool], int] = {}  # beside a word, elsewhere, at the start, and how it ends
        of, n = [], self.dead
        for i, piece in enumerate(self.spelling.pieces):
            if not piece:
                key = (1, 1, n, False)
            else:
                plain, goes_on, ends = self.read(piece), i in self.spelling.inner, _ends_word(piece)
                spaced = self.read(b" " + piece) if _begins_word(piece) else plain
                key = (plain, 1, n, ends) if goes_on else (spaced, plain, self.maps[plain][0], ends)
            of.append(kinds.setdefault(key, len(kinds)))
        rows = []
        for word, other, first, ends in kinds:
            to = [first, *self.maps[other][:-1], *self.maps[word][:-1]]  # the start; behind no word; behind a word
            rows.append(tuple(2 * n + 1 if q == n else 1 + q + (n if ends else 0) for q in to))
        return of, rows, [self.accept[0], *self.accept, *self.accept]


def _is_word(character: str) -> bool:
    """Is it a letter or a digit of a word that BERT does not take apart by itself?"""
    return character.isalnum() and not "\u2e80" <= character <= "\u9fff" and not "\uf900" <= character <= "\ufaff"


def _ends_word(text: bytes) -> bool:
    said = text.decode("utf-8", "replace")
    return bool(said) and _is_word(said[-1])


def _begins_word(text: bytes) -> bool:
    said = text.decode("utf-8", "replace")
    return bool(said) and _is_word(said[0])


# ---------------------------------------------------------------------- tokenizers


def spelling_of(tokenizer: Any, size: int, never: Iterable[int] = ()) -> Spelling:
    """How a tokenizer's first `size` symbols spell; a kind that is not known is refused."""
    if isinstance(tokenizer, Tokenizer):
        if tokenizer.moses:
            raise RuleError("this model's texts are put together by Moses, so no rule can be kept for them exactly")
        words, data = tokenizer.tokens(range(min(size, len(tokenizer)))), json.loads(tokenizer.inner.to_str())
        special = {t["id"] for t in data["added_tokens"]}
    else:
        inner = getattr(tokenizer, "backend_tokenizer", None)
        words = [str(t) for t in tokenizer.convert_ids_to_tokens(list(range(min(size, len(tokenizer)))))]
        data = {} if inner is None else json.loads(inner.to_str())
        special = set(tokenizer.all_special_ids) | {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    gone = special | set(never)
    kind, text = str((data.get("model") or {}).get("type")), json.dumps(data.get("decoder"), ensure_ascii=False)
    pieces: list[bytes | None]
    inside: frozenset[int] = frozenset()
    if "ByteLevel" in text:
        table = _bytes_of_letters()
        pieces = [bytes(table[c] for c in w) if all(c in table for c in w) else None for w in words]
    elif kind == "WordPiece":
        prefix = str(data["model"].get("continuing_subword_prefix", "##"))
        inside = frozenset(i for i, w in enumerate(words) if w.startswith(prefix) and w != prefix)
        pieces = [(w.removeprefix(prefix) if i in inside else w).encode() for i, w in enumerate(words)]
    elif "▁" in text or "Metaspace" in text:
        pieces = [_sentence_piece(w) for w in words]
    elif all(len(w) <= 1 for i, w in enumerate(words) if i not in gone):
        pieces = [w.encode() for w in words]  # letters: proteins, nucleotides, characters
    else:
        raise RuleError(
            f"how this tokenizer ({kind if data else type(tokenizer).__name__}) spells text is not known: rules are "
            "for byte-level BPE, SentencePiece, WordPiece, and alphabets of single letters"
        )
    known = [None if i in gone else piece for i, piece in enumerate(pieces)]
    known += [None] * (size - len(known))
    return Spelling(tuple(known), "words" if kind == "WordPiece" else "plain", inside)


def _sentence_piece(word: str) -> bytes:
    byte = _BYTE.fullmatch(word)
    return bytes([int(byte[1], 16)]) if byte else word.replace("▁", " ").encode()


def _bytes_of_letters() -> dict[str, int]:
    """The character that byte-level BPE writes for each byte, backwards."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(others)}


def lengths_said(rule: Automaton) -> str:
    """The lengths that a rule's texts have, in words."""
    shortest, longest = rule.shortest, rule.longest
    if shortest is None:
        return "no text of this model's symbols keeps it"
    return f"its texts have {shortest} to {longest} symbols" if longest is not None else (
        f"its texts have {shortest} symbols or more"
    )  # fmt: skip


def encoded_lengths(rule: Automaton, most: int) -> Sequence[int]:
    """The lengths from 1 to `most` that a rule's texts have."""
    return [n for n in rule.lengths(most).nonzero()[:, 0].tolist() if n]
