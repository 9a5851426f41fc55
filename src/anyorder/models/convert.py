"""An XLM checkpoint as a model folder of ours: weights, configuration, and what strings need (BPE, length counts)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyorder.errors import ModelError
from anyorder.files import whole_folder
from anyorder.models.folder import ModelFolder
from anyorder.models.translation import LengthCounts, count_lengths
from anyorder.models.xlm import XlmCheckpoint, build_xlm, read_xlm

END = "</w>"  # closes a word in BPE codes; XLM's dictionary marks the other subwords instead, with @@
SPECIALS = 14  # XLM's dictionaries begin with <s> </s> <pad> <unk> and <special0> … <special9>


def convert_xlm(
    checkpoint: str | Path,
    folder: str | Path,
    *,
    codes: str | Path | None = None,
    text: tuple[Sequence[str], Sequence[str]] | None = None,
    half: bool = False,
) -> XlmCheckpoint:
    """Write the model; with BPE `codes` its tokenizer; with parallel lines of `text` its length counts.

    The folder is a new one, and there when everything in it is.
    """
    read = read_xlm(checkpoint)
    if text is not None and (codes is None or len(read.languages) != 2):
        raise ModelError("length counts need BPE codes to tokenise the text with, and a model of two languages")
    tokenizer = None if codes is None else xlm_tokenizer(read, Path(codes))
    lengths = None if text is None else _lengths(read, tokenizer, text)
    with whole_folder(folder) as new:
        ModelFolder(new).save(build_xlm(read), half=half, tokenizer=tokenizer, lengths=lengths)
    return read


def xlm_tokenizer(read: XlmCheckpoint, codes: Path) -> Any:
    """The checkpoint's dictionary and its subword-nmt or fastBPE merges as a tokenizer, over Moses tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

    from anyorder.models.tokenizer import Tokenizer as TextTokenizer

    merges = read_codes(codes)
    words = [word if _special(i, word) else _closed(word) for i, word in enumerate(read.words)]
    vocabulary = {word: i for i, word in enumerate(words)}
    if len(vocabulary) != len(words):
        raise ModelError("two words of the dictionary are the same subword")
    for left, right in merges:  # subwords that only other merges are made of have no place in the model
        for part in (left, right, left + right):
            vocabulary.setdefault(part, len(vocabulary))
    known = sum(vocabulary[left + right] < len(words) for left, right in merges)
    if known < 0.5 * len(merges):
        raise ModelError(
            f"{codes}: only {known} of {len(merges)} merges are in the checkpoint's dictionary: not its BPE"
        )
    unknown = read.words[read.special.unk]
    inner = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, end_of_word_suffix=END))
    if not any(letter.isupper() for word in read.words for letter in word):
        inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.BPEDecoder(END)
    inner.add_special_tokens([AddedToken(word) for i, word in enumerate(read.words) if _special(i, word)])
    return TextTokenizer(inner, moses=True, words=len(words))


def read_codes(path: Path) -> list[tuple[str, str]]:
    """The merges of a subword-nmt (version 0.2) or fastBPE file, in order."""
    merges: list[tuple[str, str]] = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        columns = line.split(" ")
        if len(columns) not in (2, 3) or END in columns[:2] or not all(columns):
            raise ModelError(f"{path}, line {number}: not a merge of two subwords (of BPE codes 0.2): {line!r}")
        merges.append((columns[0], columns[1]))
    if not merges:
        raise ModelError(f"{path} has no merges")
    return merges


def _special(i: int, word: str) -> bool:
    return i < SPECIALS and word.startswith("<") and word.endswith(">")


def _closed(word: str) -> str:
    """`do@@` → `do`, `dog` → `dog</w>`."""
    return word[:-2] if word.endswith("@@") else word + END


def _lengths(read: XlmCheckpoint, tokenizer: Any, text: tuple[Sequence[str], Sequence[str]]) -> dict[str, LengthCounts]:
    sides = zip(text, read.languages, strict=True)
    first, second = (tokenizer.encode(lines, language) for lines, language in sides)
    both = [(len(a), len(b)) for a, b in zip(first, second, strict=True) if a and b]
    if not both:
        raise ModelError("the text to count lengths in has not one usable pair")
    names = "-".join(read.languages), "-".join(read.languages[::-1])
    return {names[0]: count_lengths(both), names[1]: count_lengths((b, a) for a, b in both)}
