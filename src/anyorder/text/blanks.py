"""A text with masks or gaps: what is written goes into them, and everything else comes back as it was typed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anyorder.errors import TextError

Say = Callable[[Sequence[int]], str]
MASKS = ("[MASK]", "<mask>")  # how people write a mask, whatever the model's own is
GAP = "{}"
SPACE_MARKS = ("▁", "Ġ")  # in a token, the space before it
_APART = re.compile(  # a space that a decoder has put between two characters of a script without spaces
    r"(?<=[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]) | (?=[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef])"
)


class Run(NamedTuple):
    """Masks with nothing between them; of a gap the spaces between what is written are the model's own."""

    masks: int
    gap: bool


@dataclass(frozen=True)
class Blanks:
    """A text in parts, and what is to be written between each two."""

    parts: tuple[str, ...]
    runs: tuple[Run, ...]  # one fewer

    @classmethod
    def of(cls, text: str, mask: str, gaps: Sequence[int] = ()) -> Blanks:
        """Of a text in which masks are written, and, where `gaps` says how many masks each has, gaps."""
        signs = [*{mask, *MASKS}, *([GAP] if gaps else [])]
        pieces = re.split(f"({'|'.join(map(re.escape, signs))})", usable(text))
        parts, runs, sizes = [pieces[0]], list[Run](), iter(gaps)
        for sign, after in zip(pieces[1::2], pieces[2::2], strict=True):
            new = Run(next(sizes), True) if gaps and sign == GAP else Run(1, False)
            if runs and not parts[-1] and not new.gap and not runs[-1].gap:
                runs[-1] = Run(runs[-1].masks + 1, False)
                parts[-1] = after
            else:
                runs.append(new)
                parts.append(after)
        return cls(tuple(parts), tuple(runs))

    @property
    def masks(self) -> int:
        """How many symbols are to be written."""
        return sum(run.masks for run in self.runs)

    def canvas(self, mask: str) -> str:
        """The text with the model's own masks, for its tokenizer."""
        runs = ((" " if run.gap else "").join([mask] * run.masks) for run in self.runs)
        return "".join(itertools.chain.from_iterable(itertools.zip_longest(self.parts, runs, fillvalue="")))

    def filled(self, ids: Sequence[int | None], tokenizer: Any, exactly: Say | None = None) -> str:
        """The text with what was written in the place of its masks, left to right; None is shown as ___.

        `exactly` says how symbols read whose text is known to the character: under a rule.
        """
        out, at = self.parts[0], 0
        for run, after in zip(self.runs, self.parts[1:], strict=True):
            if exactly is not None:
                out, at = out + exactly([i or 0 for i in ids[at : at + run.masks]]) + after, at + run.masks
                continue
            said = ""
            for blank, group in itertools.groupby(ids[at : at + run.masks], key=lambda i: i is None):
                new = [i or 0 for i in group]
                said += "___" * len(new) if blank else (spoken if run.gap else joined)(new, tokenizer)
            if not out or out[-1].isspace():
                said = said.lstrip(" ") if run.gap else said.removeprefix(" ")
            out, at = out + said + after, at + run.masks
        return out


def usable(text: str) -> str:
    """The text, if it is one: half of a surrogate pair is no character, and no tokenizer takes it."""
    if problem := no_text(text):
        raise TextError(problem)
    return text


def texts_of(given: Any, task: str) -> list[str]:
    """A text or some texts as a list; anything else is refused in a sentence."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, (bytes, Mapping)) or not isinstance(given, Iterable):
        raise TextError(f"{task} takes a text or a list of texts, not {given!r}")
    some = list(given)
    for n, one in enumerate(some, 1):
        if not isinstance(one, str):
            raise TextError(f"{task} takes a text or a list of texts; text {n} is {one!r}")
    return some


def no_text(text: str) -> str | None:
    """What is wrong with a text that has no encoding; None where nothing is."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"character {error.start + 1} is no character (bytes that are not UTF-8?): convert the text first"
    return None


def joined(ids: Sequence[int], tokenizer: Any) -> str:
    """Tokens as they are written with nothing between them: only a space that a token itself has is one."""
    from tokenizers import decoders

    tokens = [str(token) for token in tokenizer.convert_ids_to_tokens(list(ids))]
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if "ByteLevel" in str(getattr(inner, "decoder", "")):
        return str(decoders.ByteLevel().decode(tokens))
    plain = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return str(plain.decode([token.removeprefix("##") for token in tokens]))


def spoken(ids: Sequence[int], tokenizer: Any) -> str:
    """Tokens as the tokenizer says them, its own spaces included; none between characters that have none."""
    said = str(tokenizer.decode(list(ids), skip_special_tokens=True))
    first = str(tokenizer.convert_ids_to_tokens([ids[0]])[0]) if ids else ""
    if first.startswith("##"):
        said = said.removeprefix("##")
    if first.startswith(SPACE_MARKS) and not said.startswith(" "):
        said = " " + said
    return _APART.sub("", said)
