"""A model folder with vocab.txt and no tokenizer of its own: a copy with one that cuts by a regular expression."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from anyorder.errors import ModelError, first_line
from anyorder.files import whole_folder

VOCABULARY = "vocab.txt"
NAMES = ("unk", "pad", "mask", "cls", "sep")  # a model needs the first three
NO_PART = re.compile(r"tokenizer.*|special_tokens_map\.json|\..*")  # of a folder: what the new tokenizer replaces


def convert_split(folder: str | Path, new_folder: str | Path, pattern: str) -> int:
    """Copy a Hugging Face folder with a tokenizer of vocab.txt's symbols, line by line; every match of the regular
    expression is a symbol. Gives their number. What of a text no match covers is unknown to the model."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    old = Path(folder)
    try:
        words = (old / VOCABULARY).read_text(encoding="utf-8").removesuffix("\n").replace("\r\n", "\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"--split is for a folder with a {VOCABULARY}, and {old} has none to read: {error}") from None
    numbers = {word: i for i, word in enumerate(words)}
    if len(numbers) < len(words):
        twice = next(word for i, word in enumerate(words) if numbers[word] != i)
        raise ModelError(f"{old / VOCABULARY}: the symbol {twice!r} stands there twice")
    special = {name: word for name in NAMES if (word := _special(old, name, numbers)) is not None}
    if missing := [name for name in NAMES[:3] if name not in special]:
        raise ModelError(
            f"{old / VOCABULARY} has no symbol for {', '.join(missing)}: name it in special_tokens_map.json"
        )
    try:
        cut = pre_tokenizers.Split(Regex(pattern), "isolated")
    except Exception as error:  # of the regular expressions' own library
        raise ModelError(f"--split {pattern!r} is no regular expression: {first_line(error)}") from None
    inner = Tokenizer(models.WordLevel(numbers, unk_token=special["unk"]))
    inner.pre_tokenizer = cut
    if "cls" in special and "sep" in special:
        ends = [(special[name], numbers[special[name]]) for name in ("cls", "sep")]
        inner.post_processor = processors.TemplateProcessing(
            single=f"{special['cls']} $A {special['sep']}", special_tokens=ends
        )
    named: dict[str, Any] = {f"{name}_token": word for name, word in special.items()}
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=inner, **named)  # type: ignore[no-untyped-call]
    with whole_folder(new_folder) as new:
        for file in old.iterdir():
            if file.is_file() and not NO_PART.fullmatch(file.name):
                shutil.copyfile(file, new / file.name)
        tokenizer.save_pretrained(new)
    return len(words)


def _special(folder: Path, name: str, numbers: dict[str, int]) -> str | None:
    """The symbol that a folder, or custom, gives this name: [PAD] or <pad>."""
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        try:
            said = json.loads((folder / file).read_text(encoding="utf-8")).get(f"{name}_token")
        except (OSError, ValueError, AttributeError):
            continue
        word = said.get("content") if isinstance(said, dict) else said
        if word in numbers:
            return str(word)
    return next((word for word in (f"[{name.upper()}]", f"<{name}>") if word in numbers), None)
