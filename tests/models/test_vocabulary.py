"""Tokenizers that do not fit their model are refused, letters are split, unknown symbols are named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import anyorder
from anyorder.errors import ModelError, PlanError, TextError

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = list("ACDEFGHIKLMNPQRSTVWY")
SMILES = ["C", "c", "O", "N", "(", ")", "=", "1", "Cl", "[O-]", "[nH]", ">>"]


def bert(folder: Path, words: list[str] | None, size: int = 25, kind: str = "bert") -> Path:
    """A small random model of `size` symbols, with these words as its vocab.txt."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": size, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 150, "pad_token_id": 0, "initializer_range": 0.5,
    }  # fmt: skip
    model: Any = hf.BertForMaskedLM(hf.BertConfig(**sizes))
    if kind == "albert":
        model = hf.AlbertForMaskedLM(hf.AlbertConfig(**sizes, embedding_size=8))
    model.save_pretrained(folder)
    if words is not None:
        (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    return folder


def test_no_tokenizer_files_are_refused_with_both_numbers(tmp_path: Path) -> None:
    folder = bert(tmp_path / "model", None)
    with pytest.raises(ModelError, match=r"has 5 symbols, the model 25: the folder has no vocab\.txt and no tokenizer"):
        anyorder.load(folder)
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL + LETTERS))
    with pytest.raises(ModelError, match=r"vocab\.txt lies one folder above: copy it into"):
        anyorder.load(folder)


@pytest.mark.parametrize(("size", "letters"), [(64, 6), (400, 200), (16, 20)])
def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path, size: int, letters: int) -> None:
    words = [*SPECIAL, *(chr(0x4E00 + i) for i in range(letters))]
    with pytest.raises(ModelError, match=rf"has {letters + 5} symbols.* {size}") as refused:
        anyorder.load(bert(tmp_path, words, size))
    assert "another model's" in str(refused.value)


@pytest.mark.parametrize(("size", "letters"), [(32, 20), (1024, 600), (1024, 1000)])
def test_a_vocabulary_rounded_up_is_none_of_another_model(tmp_path: Path, size: int, letters: int) -> None:
    words = [*SPECIAL, *(chr(0x4E00 + i) for i in range(letters))]
    assert anyorder.load(bert(tmp_path, words, size)).score(words[5]).tokens == (words[5],)


def test_letters_are_split_and_keep_their_capitals(tmp_path: Path) -> None:
    writer = anyorder.load(bert(tmp_path, SPECIAL + LETTERS), kind="language")
    assert writer.score("EVQLVESGG").tokens == tuple("EVQLVESGG")
    assert writer.score("E V Q").logp == writer.score("EVQ").logp
    assert writer.score("EVQLV").total != writer.score("VLQEV").total
    assert len(writer.score("A" * 120).tokens) == 120  # longer than any word of a BERT
    (best,) = writer.fill("EV[MASK]LV", n=1)
    assert len(best.text) == 5 and best.text[:2] + best.text[3:] == "EVLV" and best.text[2] in LETTERS
    (new,) = writer.generate("EV", length=6)
    assert len(new.text) == 8 and set(new.text) <= set(LETTERS)
    assert writer.tokenizer.encode("ACD") == [2, 5, 6, 7, 3]


def test_unknown_symbols_are_named_and_refused_unless_allowed(tmp_path: Path) -> None:
    folder = bert(tmp_path, SPECIAL + LETTERS)
    writer = anyorder.load(folder, kind="language")
    for act in (writer.score, lambda t: writer.fill(t + "[MASK]"), lambda t: writer.generate(t, length=2)):
        with pytest.raises(TextError, match="lacks 'J', '1': change the text"):
            act("EVJL1")
    with pytest.raises(TextError, match="lacks 'e', 'v': it has capitals only"):
        writer.score("ev")
    allowed = anyorder.load(folder, kind="language", unknown="allow")
    assert allowed.score("EVJ").tokens == ("E", "V", "[UNK]")
    with pytest.raises(PlanError, match="unknown is refuse or allow"):
        anyorder.load(folder, unknown="maybe")
    with pytest.raises(ModelError, match="know every character"):
        anyorder.load("de-en", unknown="allow")


def test_a_word_piece_tokenizer_names_the_character_not_the_word(tmp_path: Path) -> None:
    writer = anyorder.load(bert(tmp_path, [*SPECIAL, "a", "b", "c", "##a", "##b", "cab"], 11), kind="language")
    assert writer.score("abba cab").tokens[-1] == "cab"
    with pytest.raises(TextError, match=r"lacks '☃'"):
        writer.score("cab☃ abba")


def test_a_tokenizer_that_drops_symbols_is_noticed(tmp_path: Path) -> None:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(SPECIAL + LETTERS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("[^A-Z]"), "removed")
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    hf.PreTrainedTokenizerFast(tokenizer_object=inner, **names).save_pretrained(bert(tmp_path, None))
    with pytest.raises(TextError, match=r"lacks '1', '-'"):
        anyorder.load(tmp_path, kind="language").score("A1C-A")


def test_a_lower_casing_tokenizer_before_capitals_is_refused(tmp_path: Path) -> None:
    folder = bert(tmp_path, SPECIAL + SMILES, 17)
    with pytest.raises(ModelError, match=r'lower case, but 6 of .* 12 symbols have capitals .*"do_lower_case": false'):
        anyorder.load(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert anyorder.load(folder, kind="language").score("C Cl").tokens == ("C", "Cl")


def test_a_regular_expression_gives_a_folder_its_tokenizer(tmp_path: Path) -> None:
    from anyorder.models.split import convert_split

    folder = bert(tmp_path / "old", SPECIAL + SMILES, 17, kind="albert")
    with pytest.raises(ModelError, match=r"AlbertTokenizer does not read its vocab\.txt: .*--split REGEX"):
        anyorder.load(folder)
    assert convert_split(folder, tmp_path / "new", r"\[[^\]]+\]|Cl|>>|[A-Za-z0-9()=]") == 17
    writer = anyorder.load(tmp_path / "new", kind="language")
    assert writer.score("CC(=O)Cl>>CC[O-]").tokens == ("C", "C", "(", "=", "O", ")", "Cl", ">>", "C", "C", "[O-]")
    assert writer.fill("CC[MASK]Cl", n=1)[0].text.endswith("Cl")
    with pytest.raises(TextError, match=r"lacks '\[Xx\]', 'B'"):
        writer.score("CC[Xx]B")
    with pytest.raises(ModelError, match="is no regular expression"):
        convert_split(folder, tmp_path / "other", "[")
    shutil.rmtree(tmp_path / "new")
    (folder / "vocab.txt").write_text("C\nO\n")
    with pytest.raises(ModelError, match=r"no symbol for unk, pad, mask"):
        convert_split(folder, tmp_path / "new", ".")
    assert not (tmp_path / "new").exists()


def test_a_diffusion_folder_says_itself_what_it_is(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [*SPECIAL, *(f"w{i}" for i in range(15))]
    config = hf.LlamaConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        pad_token_id=0, is_causal=False,
    )  # fmt: skip
    hf.LlamaForCausalLM(config).save_pretrained(tmp_path)
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "mask")}
    hf.PreTrainedTokenizerFast(tokenizer_object=inner, **names).save_pretrained(tmp_path)
    assert type(anyorder.load(tmp_path).model).__name__ == "DiffusionLM"  # type: ignore[union-attr]
    with pytest.raises(ModelError, match="cannot load a masked LM"):
        anyorder.load(tmp_path, kind="masked")
