"""Small models with random weights, built here, and the program run in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.cmlm import ConditionalMasked
from anyorder.models.folder import ModelFolder
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.tokenizer import train_tokenizer
from anyorder.models.translation import SpecialIds

TEXTS = ["Ein Hund läuft am Strand.", "Zwei Kinder spielen im Garten.", "A dog runs on the beach."] * 3
LENGTHS = {str(s): {str(s): 5, str(s + 1): 3, str(max(1, s - 1)): 2} for s in range(1, 41)}


def build_translator(folder: Path) -> Path:
    """A translation model that knows nothing, with an autoregressive one beside it."""
    tokenizer = train_tokenizer([(t, "de") for t in TEXTS], 320)
    torch.manual_seed(1)
    sizes = Architecture(vocabulary=len(tokenizer), dim=16, layers=1, heads=2, ffn=32, positions=64)
    for kind, where in ((MaskedTranslation, folder), (Autoregressive, folder.with_name(folder.name + "-ar"))):
        made = kind(sizes, SpecialIds(), ("de", "en"))
        ModelFolder(where).save(made, tokenizer=tokenizer, lengths={"de-en": LENGTHS, "en-de": LENGTHS})
    return folder


def build_grown(folder: Path) -> Path:
    """A translation model that has just grown out of the autoregressive one beside it."""
    causal = ModelFolder(build_translator(folder).with_name(folder.name + "-ar"))
    start = causal.model()
    grown = ConditionalMasked(replace(start.architecture, forwards=True), start.special, start.languages)
    grown.start_from(start.encoder, start.decoder)
    lengths = {"de-en": LENGTHS, "en-de": LENGTHS}
    ModelFolder(folder).save(grown, tokenizer=causal.tokenizer(), lengths=lengths)
    return folder


def build_bert(folder: Path, *more: str) -> Path:
    """A BERT with random weights and a vocabulary of a few words, and `more`."""
    import transformers as hf

    folder.mkdir()
    words = ["the", "cat", "dog", "sat", "ran", "on", "in", "mat", "park", "a", ".", "yesterday", *more]
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    hf.BertTokenizer(vocab={w: i for i, w in enumerate(symbols)}).save_pretrained(folder)
    torch.manual_seed(1)
    config = hf.BertConfig(
        vocab_size=len(symbols), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=40,
    )  # fmt: skip
    hf.BertForMaskedLM(config).save_pretrained(folder)
    return folder


def build_diffusion(folder: Path) -> Path:
    """A Llama that looks to both sides, with random weights and the vocabulary of `build_bert`."""
    import transformers as hf

    build_bert(folder)
    torch.manual_seed(1)
    config = hf.LlamaConfig(
        vocab_size=17, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=40, pad_token_id=0, is_causal=False, initializer_range=0.5,
    )  # fmt: skip
    hf.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def build_esm(folder: Path, positions: int = 40) -> Path:
    """A small ESM with random weights, as it is published: vocab.txt, letter by letter."""
    import transformers as hf

    folder.mkdir()
    vocab = folder / "vocab.txt"
    vocab.write_text("\n".join(["<cls>", "<pad>", "<eos>", "<unk>", *"ACDEFGHIKLMNPQRSTVWY", "<mask>"]))
    hf.EsmTokenizer(str(vocab)).save_pretrained(folder)
    torch.manual_seed(3)
    config = hf.EsmConfig(
        vocab_size=25, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=positions, pad_token_id=1, mask_token_id=24, position_embedding_type="rotary",
        token_dropout=False, initializer_range=0.6,
    )  # fmt: skip
    hf.EsmForMaskedLM(config).save_pretrained(folder)
    return folder


class Outcome(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Outcome]
