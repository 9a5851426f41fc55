"""Conversion of XLM checkpoints: the folder gives what the file gives; its BPE against subword-nmt's procedure."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from anyorder.cli.convert import convert
from anyorder.data.read import read_parallel
from anyorder.errors import ModelError
from anyorder.models import load_model
from anyorder.models.convert import convert_xlm, read_codes, xlm_tokenizer
from anyorder.models.tokenizer import Tokenizer
from anyorder.models.translation import Source
from anyorder.models.xlm import load_xlm, read_xlm

REFERENCE = Path(__file__).parents[1] / "parity" / "records"
SPECIAL = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{i}>" for i in range(10))]
PIECES = ["the", "cat", "hat", "ca@@", "h@@", "t", "a@@", "t@@", "c@@", "at", "e", "h", "."]
WORDS = SPECIAL + PIECES
CODES = (
    "#version: 0.2\na t</w>\nt h\nth e</w>\nc a\nh at</w>\nc at</w>\n"  # `th` is in merges but not a word of the model
)


def checkpoint(words: list[str] = WORDS) -> dict[str, Any]:
    """A small random checkpoint over `words`."""
    rng = torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {"position_embeddings.weight": (12, 8), "lang_embeddings.weight": (2, 8)}
    for part in ("q", "k", "v", "out"):
        shapes |= {f"attentions.0.{part}_lin.weight": (8, 8), f"attentions.0.{part}_lin.bias": (8,)}
    shapes |= {"ffns.0.lin1.weight": (16, 8), "ffns.0.lin1.bias": (16,)}
    shapes |= {"ffns.0.lin2.weight": (8, 16), "ffns.0.lin2.bias": (8,), "pred_layer.proj.bias": (len(words),)}
    for norm in ("layer_norm_emb", "layer_norm1.0", "layer_norm2.0"):
        shapes |= {f"{norm}.weight": (8,), f"{norm}.bias": (8,)}
    model = {name: torch.randn(shape, generator=rng) for name, shape in shapes.items()}
    model["embeddings.weight"] = model["pred_layer.proj.weight"] = torch.randn(len(words), 8, generator=rng)
    params = {"n_langs": 2, "id2lang": {0: "de", 1: "en"}, "emb_dim": 8, "n_heads": 2, "n_layers": 1}
    params |= {"n_words": len(words), "bos_index": 0, "eos_index": 1, "pad_index": 2, "unk_index": 3, "mask_index": 5}
    words_by_id = dict(enumerate(words))
    return {
        "model": model,
        "params": params,
        "dico_id2word": words_by_id,
        "dico_word2id": {w: i for i, w in words_by_id.items()},
    }


@pytest.fixture
def files(tmp_path: Path) -> Path:
    torch.save(checkpoint(), tmp_path / "model.pth")
    (tmp_path / "codes").write_text(CODES)
    (tmp_path / "text.de").write_text("the cat\nthe hat .\n\n")
    (tmp_path / "text.en").write_text("the cat .\ncat\nhat\n")
    return tmp_path


def subword_nmt(word: str, merges: list[tuple[str, str]]) -> list[str]:
    """Merge the best-ranked pair everywhere, again and again; mark all subwords but the last with @@."""
    parts = [*word[:-1], word[-1] + "</w>"]
    while pairs := [pair for pair in pairwise(parts) if pair in merges]:
        best, merged = min(pairs, key=merges.index), []
        while parts:
            size = 2 if tuple(parts[:2]) == best else 1
            merged.append("".join(parts[:size]))
            parts = parts[size:]
        parts = merged
    return [part[:-4] if part.endswith("</w>") else part + "@@" for part in parts]


@pytest.mark.parametrize("half", [False, True])
def test_the_folder_is_the_checkpoint(files: Path, half: bool) -> None:
    convert_xlm(files / "model.pth", files / "out", half=half)
    theirs, ours = load_xlm(files / "model.pth"), load_model(files / "out")
    assert (ours.languages, ours.mask_id, ours.pad_id) == (("de", "en"), 5, 2)
    canvas, source = torch.tensor([[5, 20, 5]]), Source(torch.tensor([[14, 15]]), 0, 1)
    expected, found = (model.hidden(model.encode(source), canvas) for model in (theirs, ours))
    torch.testing.assert_close(found, expected, atol=2e-2 if half else 0, rtol=0)
    assert not (files / "out" / "tokenizer.json").exists()


def test_text_goes_through_the_models_own_bpe(files: Path) -> None:
    convert_xlm(files / "model.pth", files / "out", codes=files / "codes")
    tokenizer = Tokenizer.load(files / "out" / "tokenizer.json")
    merges = read_codes(files / "codes")
    text = "The cat hat chat that th cate e xat ."
    pieces = [piece for word in text.lower().split() for piece in subword_nmt(word, merges)]
    expected = [WORDS.index(piece) if piece in WORDS else 3 for piece in pieces]
    assert tokenizer.encode([text], "en") == [expected]
    assert "th@@" in pieces and max(expected) < len(WORDS) == len(tokenizer)
    assert tokenizer.decode([[5, *map(WORDS.index, ("the", "ca@@", "t", "."))]], "en") == ["the cat."]


def test_a_literal_special_word_in_a_text_is_only_text(files: Path) -> None:
    tokenizer = xlm_tokenizer(read_xlm(files / "model.pth"), files / "codes")
    assert 5 not in tokenizer.encode(["<special1>"], "en")[0]


def test_lengths_are_counted_in_subwords(files: Path) -> None:
    pairs = read_parallel(files / "text.de", files / "text.en")
    text = (pairs.first, pairs.second)
    convert_xlm(files / "model.pth", files / "out", codes=files / "codes", text=text)
    lengths = json.loads((files / "out" / "lengths.json").read_text())
    assert lengths == {"de-en": {"2": {"3": 1}, "3": {"1": 1}}, "en-de": {"1": {"3": 1}, "3": {"2": 1}}}
    with pytest.raises(ModelError, match="need BPE codes"):
        convert_xlm(files / "model.pth", files / "out", text=text)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ("", "has no merges"),
        ("#version: 0.2\na b c d\n", "line 2: not a merge"),
        ("a </w>\n", "line 1: not a merge"),
        ("x y\ny z\n", "only 0 of 2 merges"),
    ],
)
def test_broken_codes(files: Path, codes: str, message: str) -> None:
    (files / "codes").write_text(codes)
    with pytest.raises(ModelError, match=message):
        convert_xlm(files / "model.pth", files / "out", codes=files / "codes")
    assert not (files / "out").exists()


def test_the_command(files: Path) -> None:
    app = typer.Typer()
    app.command()(convert)
    run = CliRunner().invoke
    done = run(app, [str(files / "model.pth"), str(files / "out"), "--codes", str(files / "codes"), "--half"])
    assert done.exit_code == 0 and "1 layers, 8 wide, 27 words, de and en" in done.output
    (files / "model.pth").write_bytes((files / "model.pth").read_bytes()[:1000])
    failed = run(app, [str(files / "model.pth"), str(files / "other")])
    assert failed.exit_code == 2 and "truncated" in failed.output and not (files / "other").exists()
    (files / "file").write_text("")
    torch.save(checkpoint(), files / "model.pth")
    before = (files / "out" / "model.safetensors").read_bytes()
    for taken in ("file", "out"):  # a folder is new, or nothing is written
        assert "not empty" in run(app, [str(files / "model.pth"), str(files / taken)]).output
    assert (files / "out" / "model.safetensors").read_bytes() == before


def test_the_reference_models_tokenizer() -> None:
    read = read_xlm(REFERENCE / "xlm-de-en.pth")
    tokenizer = xlm_tokenizer(read, REFERENCE / "bpe.codes")
    ranks = {merge: i for i, merge in enumerate(read_codes(REFERENCE / "bpe.codes"))}
    sentence = "drei angelnde männer unterhalten sich im quietschgrünen schlauchboot ."
    words = {word: i for i, word in enumerate(read.words)}
    merges = sorted(ranks, key=ranks.__getitem__)
    pieces = [piece for word in sentence.split() for piece in subword_nmt(word, merges)]
    assert tokenizer.encode([sentence], "de") == [[words.get(piece, 3) for piece in pieces]]
    with (REFERENCE / "golden.jsonl").open() as lines:
        record = json.loads(next(lines))
    assert "@@" not in tokenizer.decode([record["source"]], record["direction"][:2])[0]
    source = [read.words[i] for i in record["source"]]
    text = " ".join(source).replace("@@ ", "")
    assert [i for word in text.split() for i in map(words.get, subword_nmt(word, merges))] == record["source"]
    assert [[i if i < len(read.words) else 3 for i in tokenizer.inner.encode(text).ids]] == [record["source"]]
