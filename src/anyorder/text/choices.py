"""Choices: which of some labels belongs into a slot of a text, by the chain rule over the label's symbols. Nothing is
written; labels may have any number of symbols, and several slots are read jointly or each on its own."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from anyorder import recipes
from anyorder.errors import TextError
from anyorder.text.blanks import GAP, Blanks, usable
from anyorder.text.scoring import Written

if TYPE_CHECKING:
    from anyorder.text.language_model import LanguageModel

By = Literal["text", "token"]
SLOT = re.compile(r"\{(\w+):([^{}]*)\}")
ORDERS = 8  # that the mean is taken over, where a label has more symbols than have so few orders
MOST = 2000  # combinations of labels that are compared jointly


@dataclass(frozen=True)
class Choice:
    """A label, as likely as it is among the others."""

    label: str
    probability: float  # among the labels
    logp: float  # Σ log p of its symbols, given the text and those before it in the order
    symbols: int


@dataclass(frozen=True)
class Reading:
    """A form that was read: for each slot its labels, the likeliest first, and the best of all slots together."""

    slots: Mapping[str, tuple[Choice, ...]]
    best: Mapping[str, str]
    logp: float  # of the best, all slots together


@dataclass(frozen=True)
class _Filled:
    """A text with labels in its slots, and which positions they are."""

    ids: tuple[int, ...]
    canvas: tuple[int, ...]


def choose(
    model: LanguageModel, text: str, labels: Sequence[str], order: str, by: By, calibrate: str | None
) -> list[Choice]:
    """The labels of the slot {} of a text, the likeliest first; `calibrate` is a text that says nothing, with the slot:
    what a label is worth there is taken off."""
    if text.count(GAP) != 1:
        raise TextError(f"a text to choose for has one slot, written {GAP}; this has {text.count(GAP)}: {text!r}")
    _check(labels, "labels")
    scores = _scores(model, text, [[label] for label in labels], order)
    worth = [_worth(score, size, by) for score, size in scores]
    if calibrate is not None:
        if calibrate.count(GAP) != 1:
            raise TextError(f"calibrate is a text with the slot {GAP}, such as '{GAP}.'; got {calibrate!r}")
        empty = _scores(model, calibrate, [[label] for label in labels], order)
        worth = [a - _worth(score, size, by) for a, (score, size) in zip(worth, empty, strict=True)]
    found = zip(labels, _softmax(worth), scores, strict=True)
    return _sorted(Choice(label, p, score, size) for label, p, (score, size) in found)


def read(model: LanguageModel, form: str, order: str, joint: bool, by: By) -> Reading:
    """A form whose slots are written {name:label|label|…}: each slot's labels, and the best of all together."""
    slots = {m[1]: m[2].split("|") for m in SLOT.finditer(form)}
    if not slots or len(slots) < len(SLOT.findall(form)) or GAP in form:
        raise TextError("a form has slots such as {mood:good|bad}, each of a name of its own: got " + repr(form))
    for name, labels in slots.items():
        _check(labels, name)
    text = SLOT.sub(GAP, form)
    if not joint:
        return _each(model, text, slots, order, by)
    if (many := math.prod(map(len, slots.values()))) > MOST:
        raise TextError(
            f"{many:,} combinations of labels, and {MOST:,} are compared: read each slot on its own (joint=False)"
        )
    ways = list(itertools.product(*slots.values()))
    scores = _scores(model, text, ways, order)
    p = _softmax([_worth(score, size, by) for score, size in scores])
    best = max(range(len(ways)), key=lambda k: p[k])
    out = {}
    for at, (name, labels) in enumerate(slots.items()):
        mine = {label: [k for k, way in enumerate(ways) if way[at] == label] for label in labels}
        out[name] = tuple(
            _sorted(
                Choice(label, sum(p[k] for k in some), max(scores[k][0] for k in some), _size(model, label))
                for label, some in mine.items()
            )
        )
    return Reading(out, dict(zip(slots, ways[best], strict=True)), scores[best][0])


def _each(model: LanguageModel, text: str, slots: Mapping[str, Sequence[str]], order: str, by: By) -> Reading:
    """Each slot by itself; the others stand masked, with as many symbols as their shortest label."""
    short = [min(labels, key=lambda label: _size(model, label)) for labels in slots.values()]
    out: dict[str, tuple[Choice, ...]] = {}
    for at, (name, labels) in enumerate(slots.items()):
        ways = [[label if k == at else one for k, one in enumerate(short)] for label in labels]
        scores = _scores(model, text, ways, order, only=at)
        p = _softmax([_worth(score, size, by) for score, size in scores])
        found = zip(labels, p, scores, strict=True)
        out[name] = tuple(_sorted(Choice(label, q, score, size) for label, q, (score, size) in found))
    best = {name: some[0].label for name, some in out.items()}
    return Reading(out, best, sum(some[0].logp for some in out.values()))


# ---------------------------------------------------------------------- scores


def _scores(
    model: LanguageModel, text: str, ways: Sequence[Sequence[str]], order: str, only: int | None = None
) -> list[tuple[float, int]]:
    """log p of the labels of each way to fill a text's slots (or of slot `only`), and how many symbols they have."""
    filled = [_filled(model, text, way, only) for way in ways]
    scored = [sum(a != b for a, b in zip(one.ids, one.canvas, strict=True)) for one in filled]
    if order != "mean" and order not in recipes.STRATEGIES:
        raise TextError(f"order is mean or one of {', '.join(recipes.STRATEGIES)}; got {order!r}")
    several = order == "mean"
    copies = [min(math.factorial(min(size, 4)), ORDERS) if several else 1 for size in scored]
    name = "uniform" if several else order
    rows = [
        (n, Written(filled[n].ids, filled[n].canvas, name, k)) for n, many in enumerate(copies) for k in range(many)
    ]
    totals = [0.0] * len(filled)
    for (n, _), value in zip(rows, model.generator.paths([row for _, row in rows]), strict=True):
        totals[n] += value / copies[n]
    return list(zip(totals, scored, strict=True))


def _filled(model: LanguageModel, text: str, way: Sequence[str], only: int | None) -> _Filled:
    """A text with labels in its slots as ids, and the same with masks there.

    Slots are found by taking the text apart with a mask in each: what stands around them must be taken apart alike.
    """
    mask, parts = model.model.mask_id, usable(text).split(GAP)
    whole = model._canvas(Blanks.of(text, str(model.tokenizer.mask_token), [1] * len(way)))
    where = [i for i, token in enumerate(whole) if token == mask]
    said = "".join(itertools.chain.from_iterable(itertools.zip_longest(parts, way, fillvalue="")))
    start, end = model._wrap(model._given(said))
    ids, canvas, at = [*start, *end], list[int](), 0
    pieces = [whole[a + 1 : b] for a, b in itertools.pairwise([-1, *where, len(whole)])]
    for k, piece in enumerate(pieces):
        if ids[at : at + len(piece)] != piece:
            raise TextError(
                f"the tokenizer of {model.name} joins the label {way[k - 1]!r} with the text beside it: leave a space "
                f"around {GAP}"
            )
        canvas += piece
        at += len(piece)
        if k == len(way):
            break
        size = next(
            (
                n
                for n in range(1, len(ids) - at + 1)
                if ids[at + n : at + n + len(pieces[k + 1])] == pieces[k + 1]
                and (k + 1 < len(way) or at + n + len(pieces[k + 1]) == len(ids))
            ),
            0,
        )
        if not size:
            raise TextError(
                f"{way[k]!r} has no symbols of its own here, or joins with the text beside it: leave a space around "
                f"{GAP}"
            )
        if only is not None and k != only:
            ids[at : at + size] = [mask] * size
        canvas += [mask] * size
        at += size
    return _Filled(tuple(ids), tuple(canvas))


def _size(model: LanguageModel, label: str) -> int:
    return len(model._encode(label))


def _check(labels: Sequence[str], name: str) -> None:
    if isinstance(labels, str) or len(labels) < 2 or not all(isinstance(x, str) and x.strip() for x in labels):
        raise TextError(f"{name}: two labels or more to choose from, none of them empty; got {labels!r}")
    if len(set(labels)) < len(labels):
        raise TextError(f"{name}: a label stands there twice: {labels!r}")


def _worth(score: float, size: int, by: By) -> float:
    return score / max(1, size) if by == "token" else score


def _softmax(values: Sequence[float]) -> list[float]:
    return [float(p) for p in torch.tensor(values, dtype=torch.float64).softmax(0).tolist()]


def _sorted(choices: Iterable[Choice]) -> list[Choice]:
    return sorted(choices, key=lambda c: -c.probability)
