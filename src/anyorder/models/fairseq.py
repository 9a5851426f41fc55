"""RoBERTa checkpoints of fairseq (sapiens and others), converted to a folder that transformers reads."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from anyorder.errors import ModelError, first_line
from anyorder.files import whole_folder

NAMES = {  # fairseq's names → RobertaForMaskedLM's, in this order
    r"^(en|de)coder\.sentence_encoder\.": "roberta.",
    r"embed_tokens": "embeddings.word_embeddings",
    r"embed_positions": "embeddings.position_embeddings",
    r"emb_layer_norm|layernorm_embedding": "embeddings.LayerNorm",
    r"layers\.(\d+)\.self_attn\.(q|k|v)_proj": r"encoder.layer.\1.attention.self.\2",
    r"layers\.(\d+)\.self_attn\.out_proj": r"encoder.layer.\1.attention.output.dense",
    r"layers\.(\d+)\.self_attn_layer_norm": r"encoder.layer.\1.attention.output.LayerNorm",
    r"layers\.(\d+)\.fc1": r"encoder.layer.\1.intermediate.dense",
    r"layers\.(\d+)\.fc2": r"encoder.layer.\1.output.dense",
    r"layers\.(\d+)\.final_layer_norm": r"encoder.layer.\1.output.LayerNorm",
    r"self\.q\.": "self.query.",
    r"self\.k\.": "self.key.",
    r"self\.v\.": "self.value.",
    r"^(en|de)coder\.lm_head\.weight": "lm_head.decoder.weight",
    r"^(en|de)coder\.": "",
}
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's dictionaries begin with these and end with <mask>


def is_fairseq(path: Path) -> bool:
    """Is there a dictionary beside the checkpoint, as fairseq writes it?"""
    return path.is_file() and (path.parent / "dict.txt").is_file()


def convert_fairseq(checkpoint: Path, folder: Path) -> str:
    """Write a masked RoBERTa of fairseq as a folder of transformers; what it is, in words."""
    import transformers as hf

    data = _read(checkpoint)
    args: Any = data.get("args") or ((data.get("cfg") or {}).get("model"))
    state = data.get("model")
    if args is None or not isinstance(state, dict) or not any("sentence_encoder.layers" in name for name in state):
        raise ModelError(f"{checkpoint} is no RoBERTa checkpoint of fairseq")
    words = [*SPECIAL, *_dictionary(checkpoint.parent / "dict.txt"), "<mask>"]
    weights: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if not name.endswith(("version", "_float_tensor")) and "classification_heads" not in name:
            weights[_named(name)] = tensor
    size, dim = weights["roberta.embeddings.word_embeddings.weight"].shape
    if size != len(words):
        raise ModelError(f"{checkpoint} has {size} words, but dict.txt beside it gives {len(words)}")
    positions = len(weights["roberta.embeddings.position_embeddings.weight"])
    settings = vars(args) if isinstance(args, Namespace) else dict(args)
    activation = str(settings.get("activation_fn", "gelu"))
    if activation not in ("gelu", "relu") or settings.get("encoder_normalize_before"):
        raise ModelError(f"{checkpoint}: its activation {activation} or the place of its norms is not RoBERTa's")
    config = hf.RobertaConfig(
        vocab_size=size, hidden_size=dim, num_hidden_layers=1 + max(_layer(name) for name in weights),
        num_attention_heads=int(settings["encoder_attention_heads"]), hidden_act=activation,
        intermediate_size=len(weights["roberta.encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=positions, type_vocab_size=1, layer_norm_eps=1e-5,
        pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    weights["lm_head.decoder.bias"] = weights["lm_head.bias"]
    weights.setdefault("lm_head.decoder.weight", weights["roberta.embeddings.word_embeddings.weight"])
    weights["roberta.embeddings.token_type_embeddings.weight"] = torch.zeros(1, dim)
    model = hf.RobertaForMaskedLM(config)
    missing, strange = model.load_state_dict(weights, strict=False)
    if missing or strange:
        raise ModelError(f"{checkpoint} is no plain RoBERTa: {', '.join([*missing, *strange][:3])} do not fit")
    with whole_folder(folder) as new:
        model.save_pretrained(new)
        _tokenizer(words).save_pretrained(new)
    return f"{config.num_hidden_layers} layers, {dim} wide, {size} symbols"


def _read(path: Path) -> dict[str, Any]:
    try:
        with torch.serialization.safe_globals([Namespace]):
            data = torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, EOFError, OSError) as error:
        raise ModelError(f"{path} cannot be read without running what is in it: {first_line(error)}") from None
    if not isinstance(data, dict):
        raise ModelError(f"{path} is no checkpoint of fairseq")
    return data


def _dictionary(path: Path) -> list[str]:
    words = [line.rsplit(" ", 1)[0] for line in path.read_text("utf-8").splitlines() if line.strip()]
    if len(set(words)) < len(words):
        raise ModelError(f"{path}: a symbol stands there twice")
    return words


def _named(name: str) -> str:
    for pattern, replacement in NAMES.items():
        name = re.sub(pattern, replacement, name)
    return name


def _layer(name: str) -> int:
    found = re.search(r"encoder\.layer\.(\d+)\.", name)
    return int(found[1]) if found else 0


def _tokenizer(words: list[str]) -> Any:
    """A dictionary of letters cuts letter by letter; any other at spaces, as fairseq does."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    letters = all(len(word) == 1 for word in words[len(SPECIAL) : -1] if not word.startswith("madeupword"))
    if letters:
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.Split(Regex(r"\S"), "isolated"), decoders.Fuse()
    else:
        inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    made: Any = PreTrainedTokenizerFast
    return made(
        tokenizer_object=inner, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip
