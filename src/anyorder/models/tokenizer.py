"""The joint subword vocabulary: a BPE that is lossless on raw text, or the paper's Moses tokens + BPE."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from anyorder.errors import ModelError, extra, first_line
from anyorder.files import fingerprint, write_whole

SPECIAL = ("<s>", "</s>", "<pad>", "<unk>", "<mask>")
BOS, EOS, PAD, UNK, MASK = range(5)


class Tokenizer:
    """Text ↔ ids, without delimiters. `▁` in a token is the space before it.

    Lossless mode keeps every character (unseen ones as UTF-8 bytes); only a literal `▁` comes back as a space.
    Moses mode normalises and tokenises with sacremoses first and detokenises after, as the paper does.
    A model may know only the first `words` subwords; the others are then <unk>.
    """

    def __init__(self, tokenizer: Any, moses: bool = False, words: int | None = None) -> None:
        self.inner = tokenizer
        self.inner.encode_special_tokens = True  # "<mask>" in a user's text is five characters and two brackets
        self.moses, self.words = moses, words
        self._moses: dict[str, Any] = {}

    def __len__(self) -> int:
        return self.words or int(self.inner.get_vocab_size())

    def encode(self, texts: Sequence[str], language: str) -> list[list[int]]:
        """A list of ids for each text."""
        if self.moses:
            texts = [self._moses_tokenise(text, language) for text in texts]
        rows = [e.ids for e in self.inner.encode_batch_fast(list(texts), add_special_tokens=False)]
        return rows if self.words is None else [[i if i < self.words else UNK for i in row] for row in rows]

    def decode(self, ids: Sequence[Sequence[int]], language: str) -> list[str]:
        """The texts; special symbols are left out."""
        texts = self.inner.decode_batch([list(row) for row in ids], skip_special_tokens=True)
        if not self.moses:
            return list(texts)
        return [self._moses_tools(language)[2].detokenize(text.split()) for text in texts]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The subwords as strings, one for each id."""
        return [self.inner.id_to_token(int(i)) for i in ids]

    def _moses_tools(self, language: str) -> tuple[Any, Any, Any]:
        if language not in self._moses:
            with extra("train"):
                from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

            tools = MosesPunctNormalizer(language), MosesTokenizer(language), MosesDetokenizer(language)
            self._moses[language] = tools
        return self._moses[language]  # type: ignore[no-any-return]

    def _moses_tokenise(self, text: str, language: str) -> str:
        normaliser, tokeniser, _ = self._moses_tools(language)
        return str(tokeniser.tokenize(normaliser.normalize(text), return_str=True, escape=False))

    def save(self, path: Path | str) -> None:
        """Write tokenizer.json."""
        data = json.loads(self.inner.to_str())
        data["anyorder"] = {"moses": self.moses, **({} if self.words is None else {"words": self.words})}
        write_whole(path, json.dumps(data, ensure_ascii=False, indent=1))

    @classmethod
    def load(cls, path: Path | str) -> Tokenizer:
        """Read a tokenizer.json."""
        from tokenizers import Tokenizer as Inner

        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            ours = data.pop("anyorder", {})
            moses, words = bool(ours.get("moses", False)), ours.get("words")
            inner = Inner.from_str(json.dumps(data))
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror}") from None
        except RecursionError:
            raise ModelError(f"{path} is no tokenizer: it is nested too deeply") from None
        except Exception as error:  # JSON, its shape, and whatever the tokenizer finds in it
            raise ModelError(f"{path} is damaged, or no tokenizer: {first_line(error)}") from None
        if words is not None and (not isinstance(words, int) or not len(SPECIAL) <= words <= inner.get_vocab_size()):
            raise ModelError(f"{path} is damaged: it has {inner.get_vocab_size()} subwords, not {words!r}")
        return cls(inner, moses, words)

    @property
    def fingerprint(self) -> str:
        """A short hash of the vocabulary: its subwords, in order, and the rules that join them."""
        model = json.loads(self.inner.to_str())["model"]
        words = sorted(self.inner.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
        content = json.dumps([words, model.get("merges", []), self.moses, self.words], ensure_ascii=True)
        return fingerprint(content)


def train_tokenizer(texts: Iterable[tuple[str, str]], vocabulary: int, moses: bool = False) -> Tokenizer:
    """A joint BPE of `vocabulary` symbols from (text, language) pairs."""
    from tokenizers import Tokenizer as Inner
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    if vocabulary <= len(SPECIAL) + len(byte_tokens):
        raise ValueError(f"vocabulary must be above {len(SPECIAL) + len(byte_tokens)} symbols, not {vocabulary}")
    inner = Inner(models.BPE(unk_token=SPECIAL[UNK], byte_fallback=True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    words: Any = pre_tokenizers.Split("▁", "merged_with_next")
    if not moses:  # Moses has set punctuation apart already
        words = pre_tokenizers.Sequence([words, pre_tokenizers.Punctuation("isolated")])
    inner.pre_tokenizer = words
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[*SPECIAL, *byte_tokens], limit_alphabet=1000, show_progress=False
    )
    blank = Tokenizer(inner, moses)
    inner.train_from_iterator((blank._moses_tokenise(t, lang) if moses else t for t, lang in texts), trainer)
    data = json.loads(inner.to_str())
    # The bytes are ordinary symbols of the vocabulary, not special ones that decoding would skip.
    data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] in SPECIAL]
    return Tokenizer(Inner.from_str(json.dumps(data)), moses)
