"""What stands outside the masks comes back as it was typed, to the byte, with every kind of tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import anyorder

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "##s",
    "sat",
    "今",
    "天",
    "氣",
    "很",
    "好",
    "。",
    ".",
]


def _writer(folder: Path, tokenizer: Any, size: int) -> anyorder.LanguageModel:
    import transformers as hf

    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    config = hf.BertConfig(
        vocab_size=size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    hf.BertForMaskedLM(config).save_pretrained(folder)
    made = anyorder.load(folder, kind="masked", unknown="allow")
    return made


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, anyorder.LanguageModel]:
    import transformers as hf
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("models")
    lower = hf.BertTokenizer(vocab={w: i for i, w in enumerate(WORDS)})
    special = ["<pad>", "<s>", "</s>", "<mask>", "<unk>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({w: i for i, w in enumerate([*special, *letters])}, [], unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    from tokenizers import decoders

    inner.decoder = decoders.ByteLevel()
    bytes_ = hf.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>", mask_token="<mask>",
        unk_token="<unk>",
    )  # fmt: skip
    return {
        "lower": _writer(folder / "lower", lower, len(WORDS)),
        "bytes": _writer(folder / "bytes", bytes_, len(special) + len(letters)),
    }


TEXTS = [
    "The [MASK]  Sat\ton <mask>.",
    "今天[MASK][MASK]很好。",
    "[MASK]",
    " [MASK] é É ",
    "X[MASK]Y[MASK]",
    "[/b][MASK]\\n",
]


@pytest.mark.parametrize("kind", ["lower", "bytes"])
@pytest.mark.parametrize("text", TEXTS)
def test_fill_keeps_the_rest(writers: dict[str, anyorder.LanguageModel], kind: str, text: str) -> None:
    for filling in writers[kind].fill(text, n=3):
        rest = filling.text
        parts = text.replace("<mask>", "[MASK]").split("[MASK]")
        assert rest.startswith(parts[0]) and rest.endswith(parts[-1])
        for part in parts:
            assert part in rest
            rest = rest[rest.index(part) + len(part) :]
        assert "[MASK]" not in filling.text and "##" not in filling.text


def test_no_spaces_in_chinese(writers: dict[str, anyorder.LanguageModel]) -> None:
    filling = writers["lower"].fill("今天[MASK][MASK]很好。", n=1)[0]
    assert filling.text.startswith("今天") and filling.text.endswith("很好。") and " " not in filling.text


@pytest.mark.parametrize("kind", ["lower", "bytes"])
def test_infill_and_generate_keep_the_rest(writers: dict[str, anyorder.LanguageModel], kind: str) -> None:
    for filling in writers[kind].infill("The  CAT {} Sat.", length=range(1, 3), n=4):
        assert filling.text.startswith("The  CAT ") and filling.text.endswith(" Sat.")
    assert writers[kind].generate(length=3, prompt="The  CAT", seed=1)[0].text.startswith("The  CAT")


def test_a_gap_and_a_mask(writers: dict[str, anyorder.LanguageModel]) -> None:
    filling = writers["lower"].infill("A {} B [MASK] C", length=2)[0]
    assert filling.text.startswith("A ") and " B " in filling.text and filling.text.endswith(" C")
    assert len(filling.ids) == 3
