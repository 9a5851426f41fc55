"""Effects of mutations: what a masked language model says about changed letters, by the conventions of the field.

Every convention is a signed sum of log p(symbol at a position | context). `CONVENTIONS` maps each name to these terms;
contexts that several variants share go through the model once.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from anyorder.core import Cost
from anyorder.core.devices import device_of
from anyorder.errors import PlanError, TextError
from anyorder.machine import side_by_side
from anyorder.text.batching import TOKEN_BUDGET, batches, padded

if TYPE_CHECKING:
    from anyorder.text.language_model import LanguageModel

RESIDUES = {
    "Ala": "A", "Arg": "R", "Asn": "N", "Asp": "D", "Cys": "C", "Gln": "Q", "Glu": "E", "Gly": "G", "His": "H",
    "Ile": "I", "Leu": "L", "Lys": "K", "Met": "M", "Phe": "F", "Pro": "P", "Ser": "S", "Thr": "T", "Trp": "W",
    "Tyr": "Y", "Val": "V", "Sec": "U", "Pyl": "O",
}  # fmt: skip
PROTEIN, RNA, DNA = "ACDEFGHIKLMNPQRSTVWY", "ACGU", "ACGT"
WINDOWS = ("optimal", "overlapping")
EVERY = 4  # mutated positions of which `any-order` takes all orders (4! = 24); of more it draws as many
AT_ONCE = 256  # variants whose contexts are looked at together
_LETTER = rf"(?:{'|'.join(RESIDUES)}|[A-Za-z])"
_SUBSTITUTION = re.compile(rf"({_LETTER})(\d+)({_LETTER}|=)")
_INDEL = re.compile(rf"({_LETTER})(\d+)(?:_({_LETTER})(\d+))?(delins|del|ins)((?:{_LETTER})*)")


class Effect(float):
    """The score of a variant: a number, and how it was made."""

    mutant: str
    sequence: str
    by: str

    def __new__(cls, score: float, mutant: str, sequence: str, by: str) -> Effect:
        """A float with the variant's notation, its sequence, and the convention's name."""
        made = super().__new__(cls, score)
        made.mutant, made.sequence, made.by = mutant, sequence, by
        return made

    def __getnewargs__(self) -> tuple[float, str, str, str]:  # type: ignore[override]
        return float(self), self.mutant, self.sequence, self.by

    @property
    def score(self) -> float:
        """The number itself: above 0 where the model prefers the variant to the wild type."""
        return float(self)

    def __repr__(self) -> str:
        return f"Effect({self.mutant!r}, {float(self):.4f}, by={self.by!r})"


@dataclass(frozen=True)
class Variant:
    """A changed sequence. Positions count from 0 here."""

    mutant: str
    sequence: str
    changes: tuple[tuple[int, str], ...]  # (position, new letter), ascending; only letters that differ
    aligned: bool = True  # False: letters were inserted or deleted, so positions do not correspond


# ---------------------------------------------------------------------- notation


def variant(wild_type: str, mutant: str, offset: int = 1) -> Variant:
    """A variant from its notation: "A42G", "Ala42Gly", "p.(A42G)", several with ":"; or A42del, A42_K43insGG …

    `offset` is the number of the first letter.
    """
    text = re.sub(r"^p\.|[()\[\]]", "", mutant.strip())
    if not text:
        raise TextError(f"the mutation {mutant!r} is empty: write for instance A42G, or A42G:K55R")
    letters, edits = dict[int, str](), list[tuple[int, int, str]]()
    if text.upper() not in ("WT", "_WT", "="):
        for part in re.split(r"[:;,+/\s]+", text):
            _read(wild_type, part.removeprefix("p."), mutant, offset, letters, edits)
    if not edits:
        return substituted(wild_type, letters, mutant)
    return Variant(mutant, _edited(wild_type, letters, edits, mutant), (), aligned=False)


def substituted(wild_type: str, letters: Mapping[int, str], mutant: str = "") -> Variant:
    """A variant with other letters at some positions; its notation counts from 1 unless it is given."""
    changes = tuple(sorted((i, c) for i, c in letters.items() if wild_type[i] != c))
    sequence = list(wild_type)
    for i, c in changes:
        sequence[i] = c
    return Variant(mutant or ":".join(notation(wild_type, changes)), "".join(sequence), changes)


def notation(wild_type: str, changes: Iterable[tuple[int, str]], offset: int = 1) -> list[str]:
    """Substitutions as they are usually written: A42G."""
    return [f"{wild_type[i]}{i + offset}{c}" for i, c in changes]


def from_sequence(wild_type: str, sequence: str, offset: int = 1) -> Variant:
    """A variant given as its whole sequence."""
    if len(sequence) != len(wild_type):
        return Variant("", sequence, (), aligned=False)
    changes = tuple((i, b) for i, (a, b) in enumerate(zip(wild_type, sequence, strict=True)) if a != b)
    return Variant(":".join(notation(wild_type, changes, offset)) or "WT", sequence, changes)


def _read(
    wild_type: str, part: str, mutant: str, offset: int, letters: dict[int, str], edits: list[tuple[int, int, str]]
) -> None:
    if found := _SUBSTITUTION.fullmatch(part):
        old, number, new = found.groups()
        i = _position(wild_type, _one(old), int(number), mutant, offset)
        if i in letters:
            raise TextError(f"{mutant}: position {number} is changed twice")
        letters[i] = wild_type[i] if new == "=" else _one(new)
        return
    if not (found := _INDEL.fullmatch(part)):
        raise TextError(f"{part!r} in {mutant!r} is no mutation: write A42G (or Ala42Gly, A42del, A42_K43insGG)")
    first, number, last, end, kind, new = found.groups()
    a = _position(wild_type, _one(first), int(number), mutant, offset)
    b = a if last is None else _position(wild_type, _one(last), int(end), mutant, offset)
    text = "".join(map(_one, re.findall(_LETTER, new)))
    if b < a or (kind == "ins" and b != a + 1) or (kind != "del" and not text) or (kind == "del" and text):
        raise TextError(f"{part!r} in {mutant!r} makes no sense: deletions are A42_K45del, insertions A42_K43insGG")
    edits.append((a + 1, a + 1, text) if kind == "ins" else (a, b + 1, text))


def _position(wild_type: str, old: str, number: int, mutant: str, offset: int) -> int:
    i, last = number - offset, len(wild_type) - 1 + offset
    if not 0 <= i < len(wild_type):
        raise TextError(f"{mutant}: position {number} is outside the sequence, which goes from {offset} to {last}")
    if wild_type[i] != old:
        raise TextError(
            f"{mutant}: position {number} of the wild type is {wild_type[i]}, not {old} (does the numbering begin "
            f"with {offset}? say offset=…)"
        )
    return i


def _one(letter: str) -> str:
    return RESIDUES.get(letter, letter)


def _edited(wild_type: str, letters: Mapping[int, str], edits: list[tuple[int, int, str]], mutant: str) -> str:
    sequence = "".join(letters.get(i, c) for i, c in enumerate(wild_type))
    for before, after in itertools.pairwise(sorted(edits)):
        if after[0] < before[1]:
            raise TextError(f"{mutant}: two of its changes overlap")
    for start, stop, text in sorted(edits, reverse=True):
        sequence = sequence[:start] + text + sequence[stop:]
    return sequence


# ---------------------------------------------------------------------- conventions

MASK = ""  # the letter of a masked position


class Context(NamedTuple):
    """A sequence with some letters changed or masked."""

    base: str
    changes: tuple[tuple[int, str], ...] = ()  # (position, letter or MASK), ascending


class Term(NamedTuple):
    """weight · log p(letter at position | context)."""

    weight: float
    context: Context
    position: int
    letter: str


class Convention(NamedTuple):
    """How a variant is scored."""

    terms: Callable[[str, Variant, random.Random], Iterator[Term]]
    together: bool  # do the mutated positions have to be seen together, in one window?
    formula: str


def _with(changes: Iterable[tuple[int, str]], *masked: int) -> tuple[tuple[int, str], ...]:
    return tuple(sorted({**dict(changes), **dict.fromkeys(masked, MASK)}.items()))


def _pairs(wt: str, v: Variant, context: Callable[[int], Context], old: Callable[[int], Context]) -> Iterator[Term]:
    """Σ_i log p(new_i | context) − log p(old_i | old)."""
    for i, c in v.changes:
        yield Term(1.0, context(i), i, c)
        yield Term(-1.0, old(i), i, wt[i])


def _same(wt: str, v: Variant, context: Callable[[int], Context]) -> Iterator[Term]:
    return _pairs(wt, v, context, context)


def _pll(wt: str, v: Variant, rng: random.Random) -> Iterator[Term]:
    base, changes = (wt, v.changes) if v.aligned else (v.sequence, ())
    for j, c in enumerate(v.sequence):
        yield Term(1.0, Context(base, _with(changes, j)), j, c)
    for j, c in enumerate(wt):
        yield Term(-1.0, Context(wt, ((j, MASK),)), j, c)


def _chain(wt: str, v: Variant, order: Sequence[int], weight: float) -> Iterator[Term]:
    """The chain rule over the mutated positions in one order: Σ_k log p(y_k | y_<k, the others masked)."""
    new = dict(v.changes)
    for k, i in enumerate(order):
        done, left = order[:k], order[k:]
        yield Term(weight, Context(wt, _with(((j, new[j]) for j in done), *left)), i, new[i])
        yield Term(-weight, Context(wt, _with((), *left)), i, wt[i])


def _any_order(wt: str, v: Variant, rng: random.Random) -> Iterator[Term]:
    where = [i for i, _ in v.changes]
    orders: list[Sequence[int]] = list(itertools.permutations(where)) if len(where) <= EVERY else []
    orders = orders or [rng.sample(where, len(where)) for _ in range(math.factorial(EVERY))]
    for order in orders:
        yield from _chain(wt, v, order, 1 / len(orders))


CONVENTIONS: dict[str, Convention] = {
    "wt-marginals": Convention(
        lambda wt, v, _: _same(wt, v, lambda i: Context(wt)),
        False,
        "Σ_i log p(y'_i | y) − log p(y_i | y): one pass over the wild type, nothing masked",
    ),
    "mt-marginals": Convention(
        lambda wt, v, _: _same(wt, v, lambda i: Context(wt, v.changes)),
        True,
        "Σ_i log p(y'_i | y') − log p(y_i | y'): one pass over the variant, nothing masked",
    ),
    "masked-marginals": Convention(
        lambda wt, v, _: _same(wt, v, lambda i: Context(wt, ((i, MASK),))),
        False,
        "Σ_i log p(y'_i | y_≠i) − log p(y_i | y_≠i): each mutated position masked, the others as in the wild type",
    ),
    "joint-masked": Convention(
        lambda wt, v, _: _same(wt, v, lambda i: Context(wt, _with((), *(j for j, _ in v.changes)))),
        True,
        "Σ_i log p(y'_i | y_∉M) − log p(y_i | y_∉M): all mutated positions M masked together, each read alone",
    ),
    "mutant-marginals": Convention(
        lambda wt, v, _: _same(wt, v, lambda i: Context(wt, _with(v.changes, i))),
        True,
        "Σ_i log p(y'_i | y'_≠i) − log p(y_i | y'_≠i): each mutated position masked, the others as in the variant",
    ),
    "own-context": Convention(
        lambda wt, v, _: _pairs(wt, v, lambda i: Context(wt, _with(v.changes, i)), lambda i: Context(wt, ((i, MASK),))),
        True,
        "Σ_i log p(y'_i | y'_≠i) − log p(y_i | y_≠i): each letter masked in the sequence that it belongs to",
    ),
    "pll": Convention(
        _pll,
        False,
        "Σ_j log p(y'_j | y'_≠j) − Σ_j log p(y_j | y_≠j): pseudo log-likelihoods over all positions",
    ),
    "any-order": Convention(
        _any_order,
        True,
        "mean over orders σ of Σ_k log p(y'_σk | y'_σ<k, y_∉M) − log p(y_σk | y_σ<k, y_∉M): the chain rule over M",
    ),
    "left2right": Convention(
        lambda wt, v, _: _chain(wt, v, [i for i, _ in v.changes], 1.0), True, "any-order, from left to right only"
    ),
    "right2left": Convention(
        lambda wt, v, _: _chain(wt, v, [i for i, _ in v.changes][::-1], 1.0), True, "any-order, from right to left only"
    ),
}


# ---------------------------------------------------------------------- the model


def alphabet(writer: LanguageModel) -> dict[str, int]:
    """The single letters that the model's tokenizer knows, and the symbol of each."""
    found = {}
    unknown = writer.tokenizer.unk_token_id
    for letter in map(chr, range(33, 127)):
        ids = writer.tokenizer.encode(letter, add_special_tokens=False)
        if len(ids) == 1 and ids[0] != unknown and str(writer.tokenizer.decode(ids)).strip() == letter:
            found[letter] = int(ids[0])
    return found


def usual_letters(known: Iterable[str]) -> str:
    """The letters of a full scan: the twenty amino acids, or RNA's or DNA's four, whichever the model knows."""
    have = set(known)
    for letters in (PROTEIN, RNA, DNA):
        if have.issuperset(letters):
            return letters
    raise TextError("the model's alphabet is neither a protein's nor a nucleic acid's: say which letters to scan")


class Scorer:
    """Scores variants of one wild type with one model; contexts of the wild type alone are remembered."""

    def __init__(
        self,
        writer: LanguageModel,
        wild_type: str,
        by: str = "masked-marginals",
        *,
        window: str = "optimal",
        seed: int = 0,
    ) -> None:
        if by not in CONVENTIONS:
            raise PlanError(f"by is one of {', '.join(CONVENTIONS)}; got {by!r}")
        if window not in WINDOWS:
            raise PlanError(f"window is {' or '.join(WINDOWS)}; got {window!r}")
        if window == "overlapping" and by != "wt-marginals":
            raise PlanError("overlapping windows are for wt-marginals only: take window='optimal'")
        if not wild_type:
            raise TextError("the wild type is empty")
        self.writer, self.wild_type, self.by, self.seed = writer, wild_type, by, seed
        self.letters = alphabet(writer)
        self.symbols = sorted(set(self.letters.values()))
        self.column = {letter: self.symbols.index(i) for letter, i in self.letters.items()}
        special = list(writer.tokenizer.encode(""))
        head = (len(special) + 1) // 2
        self.start, self.end = special[:head], special[head:]
        self.most: int | None = writer.model.max_length
        self.window = window if self._long(wild_type) else None
        self.known: dict[tuple[Context, int], Tensor] = {}
        self.check(wild_type, "the wild type")

    def check(self, sequence: str, what: str) -> None:
        """Refuse letters that the model does not know, or that its tokenizer does not read one by one."""
        if strange := sorted(set(sequence) - self.letters.keys()):
            raise TextError(
                f"{what}: {self.writer.name} does not know {', '.join(strange)}; its letters are "
                f"{''.join(sorted(self.letters))}"
            )

    @property
    def note(self) -> str:
        """What is to be said about windows; empty where the sequence fits the model."""
        if self.window is None:
            return ""
        how = {
            "optimal": "each position is read in a window of that length around it",
            "overlapping": "windows of that length overlap by half, their log p weighted towards each window's middle",
        }[self.window]
        size = len(self.wild_type) + len(self.start) + len(self.end)
        return f"{size:,} symbols are more than the {self.most:,} that {self.writer.name} was made for: {how}"

    def score(self, variants: Sequence[Variant]) -> list[Effect]:
        """The score of each variant."""
        each = [self._terms(v) for v in variants]
        wanted: dict[Context, set[int]] = defaultdict(set)
        for terms in each:
            for term in terms:
                if (term.context, term.position) not in self.known:
                    wanted[term.context].add(term.position)
        seen = self._look(wanted)
        found = [math.fsum(t.weight * float(self._value(seen, t)) for t in terms) for terms in each]
        self.known.update({k: x for k, x in seen.items() if self._lasting(k[0])})
        return [Effect(s, v.mutant, v.sequence, self.by) for s, v in zip(found, variants, strict=True)]

    def stream(self, variants: Iterable[Variant]) -> Iterator[Effect]:
        """The scores of any number of variants, some hundreds at a time."""
        rest = iter(variants)
        while some := list(itertools.islice(rest, AT_ONCE)):
            yield from self.score(some)

    def _value(self, seen: Mapping[tuple[Context, int], Tensor], term: Term) -> Tensor:
        key = term.context, term.position
        return (self.known[key] if key in self.known else seen[key])[self.column[term.letter]]

    def _lasting(self, context: Context) -> bool:
        return context.base == self.wild_type and not any(letter for _, letter in context.changes)

    def check_variant(self, v: Variant) -> None:
        """Refuse a variant that this convention and model cannot score."""
        self.check(v.sequence, v.mutant or "the variant")
        if not v.aligned and self.by != "pll":
            raise TextError(
                f"{v.mutant or v.sequence}: letters are inserted or deleted, so {self.by} has no meaning: take by='pll'"
            )
        if self.window and CONVENTIONS[self.by].together and v.changes:
            apart = v.changes[-1][0] - v.changes[0][0]
            assert self.most is not None
            if apart >= self.most - 1:
                raise TextError(
                    f"{v.mutant}: its positions are {apart:,} letters apart and {self.writer.name} sees {self.most:,} "
                    f"symbols: {self.by} cannot see them together (wt-marginals, masked-marginals and pll can)"
                )

    def _terms(self, v: Variant) -> list[Term]:
        self.check_variant(v)
        return list(CONVENTIONS[self.by].terms(self.wild_type, v, random.Random(f"{self.seed} {v.mutant}")))

    # ------------------------------------------------------------------ passes

    def _long(self, sequence: str) -> bool:
        return self.most is not None and len(sequence) + len(self.start) + len(self.end) > self.most

    def _ids(self, context: Context) -> list[int]:
        ids = [self.letters[c] for c in context.base]
        for i, letter in context.changes:
            ids[i] = self.letters[letter] if letter else self.writer.model.mask_id
        return [*self.start, *ids, *self.end]

    def _look(self, wanted: Mapping[Context, set[int]]) -> dict[tuple[Context, int], Tensor]:
        """log p of the alphabet's symbols (A,) at the wanted positions of each context."""
        rows: list[
            tuple[list[int], list[tuple[Context, int, int, float]]]
        ] = []  # ids; context, position, column, weight
        for context, positions in wanted.items():
            ids = self._ids(context)
            for start, stop, some in self._windows(len(ids), context, sorted(positions)):
                rows.append((ids[start:stop], [(context, i, i + len(self.start) - start, w) for i, w in some]))
        sums: dict[tuple[Context, int], Tensor] = {}
        weights: dict[tuple[Context, int], float] = defaultdict(float)
        model, cost = self.writer.model, Cost()
        device = device_of(model)
        index = torch.tensor(self.symbols, device=device)

        def look(part: list[int]) -> tuple[list[tuple[int, Context, int, int, float]], Tensor]:
            with torch.inference_mode():
                tokens = padded([rows[r][0] for r in part], model.pad_id).to(device)
                hidden = model.hidden(model.encode(None), tokens)
                at = [(n, *place) for n, r in enumerate(part) for place in rows[r][1]]
                n, i = (torch.tensor([a[k] for a in at], device=device) for k in (0, 3))
                logits = model.logits(hidden[n, i]).float()
                return at, (logits[:, index] - logits.logsumexp(-1, keepdim=True)).cpu()

        parts = batches([len(ids) for ids, _ in rows], TOKEN_BUDGET)
        for part, (at, logp) in zip(parts, side_by_side(look, parts), strict=True):
            cost.add(Cost(1, len(part), len(at)))
            for (_, context, position, _, weight), x in zip(at, logp, strict=True):
                key = context, position
                sums[key] = weight * x if key not in sums else sums[key] + weight * x
                weights[key] += weight
        self.writer.generator.spend(cost)
        return {key: x / weights[key] for key, x in sums.items()}

    def _windows(
        self, size: int, context: Context, positions: Sequence[int]
    ) -> Iterator[tuple[int, int, list[tuple[int, float]]]]:
        """(start, stop, [(position, weight)]) of the windows in which positions of a context are read.

        `size` and the bounds count the symbols around the sequence too, so that these stand at its ends only.
        """
        width = self.most or size
        if size <= width:
            yield 0, size, [(i, 1.0) for i in positions]
            return
        head = len(self.start)
        if self.window == "overlapping":
            starts = sorted({*range(0, size - width, max(1, width // 2)), size - width})
            for start in starts:
                inside = [i for i in positions if start <= i + head < start + width]
                yield start, start + width, [(i, self._taper(i + head - start, width)) for i in inside]
            return
        for i in positions:
            around = [j for j, _ in context.changes] if CONVENTIONS[self.by].together else [i]
            middle = (around[0] + around[-1]) // 2 + head if around else i + head
            start = min(max(0, middle - width // 2), size - width)
            yield start, start + width, [(i, 1.0)]

    @staticmethod
    def _taper(column: int, width: int) -> float:
        """The weight of a window's column: 1 at its ends, growing by 1 a symbol towards its middle."""
        return float(min(column, width - 1 - column) + 1)


def single_substitutions(
    wild_type: str, positions: Iterable[int] | None = None, letters: str = PROTEIN, offset: int = 1
) -> Iterator[Variant]:
    """All single substitutions of a sequence, or of some of its positions (0-based), position by position."""
    for i in range(len(wild_type)) if positions is None else positions:
        for letter in letters:
            yield Variant(f"{wild_type[i]}{i + offset}{letter}", wild_type[:i] + letter + wild_type[i + 1 :],
                          ((i, letter),) if letter != wild_type[i] else ())  # fmt: skip


def stretches(text: str, length: int, offset: int = 1) -> list[int]:
    """Positions (0-based) from "10-25,40"."""
    out: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if not found:
            raise TextError(f"{text!r} names no positions: write for instance 10-25,40")
        a, b = int(found[1]), int(found[2] or found[1])
        if b < a or a < offset or b >= offset + length:
            raise TextError(f"positions {part.strip()}: the sequence goes from {offset} to {offset + length - 1}")
        out += range(a - offset, b - offset + 1)
    return list(dict.fromkeys(out))


def spearman(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Spearman's rank correlation and its 95 % interval (Fisher's z with Bonett and Wright's variance)."""

    def ranks(values: Sequence[float]) -> Tensor:
        x = torch.tensor(values, dtype=torch.float64)
        _, where, count = torch.unique(x, return_inverse=True, return_counts=True)
        mean: Tensor = (count.cumsum(0).double() - (count - 1) / 2)[where]
        return mean  # ties share the mean of their ranks

    x, y = ranks(a), ranks(b)
    x, y = x - x.mean(), y - y.mean()
    scale = float((x.square().sum() * y.square().sum()).sqrt())
    if len(a) < 4 or scale == 0:
        return math.nan, math.nan, math.nan
    rho = float((x * y).sum()) / scale
    if abs(rho) >= 1 - 1e-12:
        return round(rho), round(rho), round(rho)
    half = 1.959964 * math.sqrt((1 + rho * rho / 2) / (len(a) - 3))
    return rho, math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half)
