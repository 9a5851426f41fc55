"""Canvases that a request gives: target texts with masks, or tokens some of which are fixed, as ids."""

from __future__ import annotations

from collections.abc import Sequence

from anyorder.serve.how import Asked, Text
from anyorder.serve.refusal import wrong
from anyorder.text.blanks import MASKS
from anyorder.text.translator import Translator

_MARK = "\ue000"  # a character of nobody's: it stands for a mask while a text is cut into tokens


class Fixed(Asked):
    """A word that stands where it is, as a person writes it."""

    text: Text


Item = Text | Fixed | None  # a token as it was shown, a word, or nothing yet


def from_text(model: Translator, text: str, to: str) -> tuple[int, ...]:
    """The ids of a translation with masks, each written [MASK] or <mask>."""
    for name in MASKS:
        text = text.replace(name, _MARK)
    (mark,) = model.tokenizer.encode([_MARK], to)
    bare = model.tokenizer.encode([f"x{_MARK}"], to)[0][1:]  # inside a word, without the sign of a word's beginning
    ids, out = model.tokenizer.encode([text], to)[0], []
    while ids:
        size = next((len(m) for m in (mark, bare) if ids[: len(m)] == m), 0)
        out.append(model.model.mask_id if size else ids[0])
        ids = ids[size or 1 :]
    return _checked(model, out)


def from_items(model: Translator, items: Sequence[Item], to: str) -> tuple[int, ...]:
    """The ids of a canvas given item by item."""
    out: list[int] = []
    special = {model.model.pad_id, model.model.mask_id, *model.model.special_ids}
    for item in items:
        if item is None:
            out.append(model.model.mask_id)
        elif isinstance(item, Fixed):
            out += model.tokenizer.encode([item.text], to)[0]
        else:
            token = model.tokenizer.inner.token_to_id(item)
            if token is None or token in special or token >= len(model.tokenizer):
                raise wrong(f"{item[:40]!r} is not a token of {model.name}: give a word as {{'text': …}}", "canvas")
            out.append(token)
    return _checked(model, out)


def _checked(model: Translator, ids: list[int]) -> tuple[int, ...]:
    room = int(model.model.architecture.positions) - 2
    if len(ids) > room:
        raise wrong(f"the canvas has {len(ids)} tokens, and {model.name} writes at most {room}", "canvas")
    if model.model.mask_id not in ids:
        raise wrong("everything on the canvas is fixed, so there is nothing to write: leave out a word", "canvas")
    if model.causal:
        raise wrong(f"{model.name} writes from left to right only: it cannot write around fixed words", "canvas")
    return tuple(ids)
