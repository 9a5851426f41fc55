"""Every Hugging Face masked LM architecture against its own full forward pass; refusals of what cannot work."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor, nn

from anyorder.core.model import Model, NoContext
from anyorder.errors import ModelError
from anyorder.models.masked_lm import MaskedLM, load_masked_lm

PAD, MASK, WORDS = 1, 4, 40
SMALL: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "pad_token_id": PAD,
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
ENDS = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 20}
XLM = {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 20, "pad_index": PAD, "n_langs": 1}
FNET = {key: value for key, value in SMALL.items() if key != "num_attention_heads"}

ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**SMALL)),
    "roberta": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**SMALL)),
    "xlm-roberta": lambda: hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**SMALL)),
    "distilbert": lambda: hf.DistilBertForMaskedLM(hf.DistilBertConfig(vocab_size=WORDS, pad_token_id=PAD, **DISTIL)),
    "albert": lambda: hf.AlbertForMaskedLM(hf.AlbertConfig(**SMALL, embedding_size=8)),
    "electra": lambda: hf.ElectraForMaskedLM(hf.ElectraConfig(**SMALL, embedding_size=8)),
    "modernbert": lambda: hf.ModernBertForMaskedLM(
        hf.ModernBertConfig(**SMALL, **ENDS, local_attention=4, global_attn_every_n_layers=2)
    ),
    "esm-rotary": lambda: hf.EsmForMaskedLM(
        hf.EsmConfig(**SMALL, mask_token_id=MASK, token_dropout=True, position_embedding_type="rotary")
    ),
    "esm-absolute": lambda: hf.EsmForMaskedLM(
        hf.EsmConfig(**SMALL, mask_token_id=MASK, position_embedding_type="absolute", emb_layer_norm_before=True)
    ),
    "deberta-v2": lambda: hf.DebertaV2ForMaskedLM(hf.DebertaV2Config(**SMALL, **RELATIVE)),
    "mpnet": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**SMALL)),
    "xlm": lambda: hf.XLMWithLMHeadModel(hf.XLMConfig(vocab_size=WORDS, **XLM)),
    "longformer": lambda: hf.LongformerForMaskedLM(hf.LongformerConfig(**SMALL, attention_window=4)),
    # their own forward pass lets padding leak into the words: rows must be run without it
    "mobilebert": lambda: hf.MobileBertForMaskedLM(
        hf.MobileBertConfig(**SMALL, embedding_size=8, intra_bottleneck_size=16)
    ),
    "fnet": lambda: hf.FNetForMaskedLM(hf.FNetConfig(**FNET)),
}
LEAKY = {"mobilebert", "fnet"}
LENGTHS = (12, 9, 7, 10)


def tiny(name: str) -> Any:
    """A small model whose logits differ well between positions and symbols."""
    torch.manual_seed(0)
    model = ARCHITECTURES[name]().eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.5 if parameter.dim() > 1 else 0.1)
    return model


def canvas() -> Tensor:
    """(4, 12): masks in the middle, padding of different lengths."""
    tokens = torch.randint(5, WORDS, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(1))
    tokens[:, 3:6] = MASK
    for row, length in enumerate(LENGTHS):
        tokens[row, length:] = PAD
    return tokens


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_halves_equal_the_whole(name: str) -> None:
    model, tokens = tiny(name), canvas()
    ours = MaskedLM(model, MASK, PAD)
    assert isinstance(ours, Model)
    assert ours.padding_leaks == (name in LEAKY)
    keep = tokens != PAD
    hidden = ours.hidden(ours.encode(), tokens)
    found = ours.logits(hidden[keep])
    alone = torch.cat([model(input_ids=tokens[r : r + 1, :n]).logits[0] for r, n in enumerate(LENGTHS)])
    torch.testing.assert_close(found, alone, atol=1e-4, rtol=0)
    assert torch.equal(found.argmax(-1), alone.argmax(-1))
    if name not in LEAKY:
        together = model(input_ids=tokens, attention_mask=keep.long()).logits[keep]
        torch.testing.assert_close(found, together, atol=1e-5, rtol=0)
    assert alone.std(0).mean() > 0.05  # the comparison is not of constants


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "modernbert", "deberta-v2"])
def test_head_runs_at_asked_rows_only(name: str) -> None:
    ours = MaskedLM(tiny(name), MASK, PAD)
    hidden = ours.hidden(NoContext(), canvas())
    rows = hidden[:2, 3]
    torch.testing.assert_close(ours.logits(rows)[1:], ours.logits(rows[1:]), atol=1e-6, rtol=1e-6)  # torch's rounding
    assert ours.logits(rows).shape == (2, WORDS)
    assert ours.logits(rows[:0]).shape == (0, WORDS)


def test_the_head_follows_the_weights_and_copies_are_independent() -> None:
    ours = MaskedLM(tiny("bert"), MASK, PAD)
    before, hidden = set(ours.state_dict()), ours.hidden(NoContext(), canvas())[0]
    reference = ours.logits(hidden)
    other = copy.deepcopy(ours)
    other.model.cls.predictions.bias.add_(1.0)
    torch.testing.assert_close(other.logits(hidden), reference + 1.0)
    torch.testing.assert_close(ours.logits(hidden), reference)
    assert ours.double().logits(hidden.double()).dtype == torch.float64
    assert set(ours.state_dict()) == before


@pytest.mark.parametrize(("name", "limit"), [("bert", 20), ("roberta", 18), ("esm-absolute", 18), ("modernbert", 20)])
def test_long_input_is_refused_and_the_longest_is_not(name: str, limit: int) -> None:
    ours = MaskedLM(tiny(name), MASK, PAD)
    assert ours.hidden(NoContext(), torch.full((1, limit), 7)).isfinite().all()
    with pytest.raises(ModelError, match=f"{limit + 1} tokens .* at most {limit}"):
        ours.hidden(NoContext(), torch.full((1, limit + 1), 7))


def test_models_that_do_not_fit_are_refused() -> None:
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    bart = hf.BartForConditionalGeneration(hf.BartConfig(vocab_size=WORDS, d_model=16, **sizes))
    with pytest.raises(ModelError, match="not a masked LM"):
        MaskedLM(bart, MASK, PAD)
    with pytest.raises(ModelError, match="no encoder to split off"):
        MaskedLM(nn.Linear(2, 2), MASK, PAD)
    with pytest.raises(ModelError, match="padding symbol 1, but the tokenizer pads with 0"):
        MaskedLM(tiny("roberta"), MASK, 0)
    broken = tiny("bert")
    broken.cls.predictions.bias[7] = torch.nan
    with pytest.raises(ModelError, match="NaN"):
        MaskedLM(broken, MASK, PAD)
    with pytest.raises(ModelError, match="no source side"):
        MaskedLM(tiny("bert"), MASK, PAD).encode([[1, 2]])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved BERT of 40 symbols with a tokenizer of 30."""
    words = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *(f"w{i}" for i in range(25))]
    raw = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    raw.pre_tokenizer = Whitespace()
    names = {"cls_token": "[CLS]", "pad_token": "[PAD]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    hf.PreTrainedTokenizerFast(tokenizer_object=raw, mask_token="[MASK]", **names).save_pretrained(tmp_path)
    tiny("bert").save_pretrained(tmp_path)
    return tmp_path


def test_load_from_a_folder(folder: Path) -> None:
    ours = load_masked_lm(folder)
    assert (ours.mask_id, ours.pad_id, ours.special_ids) == (MASK, PAD, (0, 1, 2, 3, 4, *range(30, 40)))
    assert ours.tokenizer.convert_tokens_to_ids("w3") == 8
    reference = tiny("bert")(input_ids=canvas()[:1]).logits
    torch.testing.assert_close(ours.logits(ours.hidden(NoContext(), canvas()[:1])[0]), reference[0])
    assert not any(parameter.requires_grad for parameter in ours.parameters())


def test_load_errors_say_what_is_wrong(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ModelError, match=r"cannot load a masked LM from .*empty"):
        load_masked_lm(tmp_path_factory.mktemp("empty"))
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="cannot load a masked LM"):
        load_masked_lm(folder)
    weights.unlink()
    with pytest.raises(ModelError, match="cannot load a masked LM"):
        load_masked_lm(folder)
    tiny("bert").bert.save_pretrained(folder)  # the encoder alone: no head
    with pytest.raises(ModelError, match=r"lack \d+ of BertForMaskedLM's parameters, cls\.predictions"):
        load_masked_lm(folder)
    broken = tiny("bert")
    broken.bert.embeddings.word_embeddings.weight[9, 0] = torch.nan
    broken.save_pretrained(folder)
    with pytest.raises(ModelError, match=r"word_embeddings\.weight has NaN"):
        load_masked_lm(folder)
    weights.write_bytes(whole)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot load the tokenizer"):
        load_masked_lm(folder)


class Bomb:
    """Unpickling this would create a folder."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


def test_a_pickle_bomb_is_not_run(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"cls.predictions.bias": Bomb(folder / "exploded")}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="never run"):
        load_masked_lm(folder)
    assert not (folder / "exploded").exists()


def test_a_family_that_fails_says_so() -> None:
    config = hf.FunnelConfig(vocab_size=WORDS, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=24)
    with pytest.raises(ModelError, match="FunnelForMaskedLM fails on a canvas of two symbols"):
        MaskedLM(hf.FunnelForMaskedLM(config), MASK, PAD)
