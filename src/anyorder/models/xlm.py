"""XLM's and the paper authors' `.pth` checkpoints: read without running anything, checked, and converted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from anyorder.errors import ModelError, first_line
from anyorder.models.architecture import Architecture
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import SpecialIds


@dataclass(frozen=True)
class XlmCheckpoint:
    """A checked checkpoint: every tensor is there, finite and of the size that the parameters say."""

    weights: dict[str, Tensor]  # XLM's names
    architecture: Architecture
    special: SpecialIds
    languages: tuple[str, ...]
    words: tuple[str, ...]  # by id


def read_xlm(path: str | Path) -> XlmCheckpoint:
    """Read and check a checkpoint with `model`, `params`, `dico_id2word` and `dico_word2id`."""
    data = _unpickle(Path(path))
    try:
        params = _mapping(data, "params")
        words = _words(_mapping(data, "dico_id2word"), _mapping(data, "dico_word2id"))
        _check_supported(params)
        sizes = {name: _integer(params, name) for name in ("n_words", "emb_dim", "n_heads", "n_layers")}
        if len(words) != sizes["n_words"]:
            raise ModelError(f"params say {sizes['n_words']} words, but the dictionary has {len(words)}")
        languages = _languages(params)
        weights = _tensors(_mapping(data, "model"))
        architecture = _architecture(weights, sizes, len(languages))
        language_embeddings = len(languages) > 1 and bool(params.get("use_lang_emb", True))
        _check_tensors(weights, _expected(architecture, language_embeddings))
        return XlmCheckpoint(weights, architecture, _special(params, len(words)), languages, words)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def load_xlm(path: str | Path) -> MaskedTranslation:
    """A checkpoint as a model of ours, in memory; `anyorder convert` writes the same to a folder."""
    return build_xlm(read_xlm(path))


def build_xlm(checkpoint: XlmCheckpoint) -> MaskedTranslation:
    """A model of ours with a checkpoint's weights."""
    model = MaskedTranslation(checkpoint.architecture, checkpoint.special, checkpoint.languages)
    model.load_state_dict(to_ours(checkpoint))
    return model.eval().requires_grad_(False)


def to_ours(checkpoint: XlmCheckpoint) -> dict[str, Tensor]:
    """XLM's tensors by our names: queries, keys and values are one matrix, the tied output is its bias alone."""
    theirs, a = dict(checkpoint.weights), checkpoint.architecture
    ours = {"proj_bias": theirs.pop("pred_layer.proj.bias")}
    del theirs["pred_layer.proj.weight"]
    theirs.setdefault("lang_embeddings.weight", torch.zeros(a.languages, a.dim))
    for i in range(a.layers):
        for kind in ("weight", "bias"):
            parts = [theirs.pop(f"attentions.{i}.{part}_lin.{kind}") for part in "qkv"]
            ours[f"attentions.{i}.qkv_lin.{kind}"] = torch.cat(parts)
    return {f"transformer.{name}": tensor for name, tensor in (ours | theirs).items()}


def _unpickle(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file")
    try:
        data = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise ModelError(
            f"{path}: not read, because it is damaged or holds more than tensors and plain values, which could run "
            "code; nothing was run. Save it again as a dict of tensors and plain Python values"
        ) from error
    except Exception as error:  # torch answers damage with errors of a dozen types
        raise ModelError(f"{path}: truncated, or not a torch checkpoint ({first_line(error)})") from error
    if not isinstance(data, Mapping):
        raise ModelError(f"{path}: holds a {type(data).__name__}, not a dict with model, params and dico_*")
    return data


def _mapping(data: Mapping[str, Any], name: str) -> Mapping[Any, Any]:
    value = data.get(name)
    if value is None:
        hint = " (an encoder–decoder checkpoint, not a masked model)" if "encoder" in data else ""
        raise ModelError(f"has no {name!r}, only {', '.join(map(repr, sorted(map(str, data))))}{hint}")
    if not isinstance(value, Mapping):
        raise ModelError(f"{name!r} should be a dict, not a {type(value).__name__}")
    return value


def _integer(params: Mapping[Any, Any], name: str, least: int = 1) -> int:
    value = params.get(name)
    if type(value) is not int or value < least:
        raise ModelError(f"params[{name!r}] should be a whole number of at least {least}, not {value!r}")
    return value


def _words(id2word: Mapping[Any, Any], word2id: Mapping[Any, Any]) -> tuple[str, ...]:
    words = [id2word.get(i) for i in range(len(id2word))]
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise ModelError(f"dico_id2word has no word for id {i} of 0 … {len(words) - 1}")
        if word2id.get(word) != i:
            raise ModelError(
                f"the dictionaries disagree: word {i} is {word!r}, which dico_word2id does not give id {i}"
            )
    return tuple(map(str, words))


def _languages(params: Mapping[Any, Any]) -> tuple[str, ...]:
    count, names = _integer(params, "n_langs"), params.get("id2lang")
    if not isinstance(names, Mapping) or any(not isinstance(names.get(i), str) for i in range(count)):
        raise ModelError(f"params['id2lang'] should name languages 0 … {count - 1}, not be {names!r}")
    return tuple(names[i] for i in range(count))


def _special(params: Mapping[Any, Any], words: int) -> SpecialIds:
    names = ("bos", "eos", "pad", "unk", "mask")
    ids = {name: _integer(params, f"{name}_index", least=0) for name in names}
    for name, i in ids.items():
        if i >= words:
            raise ModelError(f"params['{name}_index'] is {i}, beyond the {words} words")
    return SpecialIds(**ids)


def _check_supported(params: Mapping[Any, Any]) -> None:
    """Variants of XLM whose forward pass is another one."""
    needed = {"gelu_activation": True, "share_inout_emb": True, "asm": False, "use_memory": False}
    for name, value in needed.items():
        if bool(params.get(name, value)) is not value:
            raise ModelError(f"params[{name!r}] is {params[name]!r}; only {value} is supported")


def _tensors(model: Mapping[Any, Any]) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for name, tensor in model.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            raise ModelError(f"model[{name!r}] should be a tensor of floats")
        weights[name.removeprefix("module.")] = tensor.detach().float()  # the prefix of distributed training
    return weights


def _architecture(weights: dict[str, Tensor], sizes: dict[str, int], languages: int) -> Architecture:
    """Sizes from `params`, and from two tensors the two sizes that `params` does not have."""

    def rows(name: str) -> int:
        if name not in weights:
            raise ModelError(f"model lacks {name!r}")
        return weights[name].shape[0] if weights[name].dim() else 0

    dim, heads = sizes["emb_dim"], sizes["n_heads"]
    if sizes["n_layers"] > len(weights):
        raise ModelError(f"params say {sizes['n_layers']} layers, but there are only {len(weights)} tensors")
    if dim % heads:
        raise ModelError(f"params say {heads} heads, which do not divide the width {dim}")
    return Architecture(
        vocabulary=sizes["n_words"],
        dim=dim,
        layers=sizes["n_layers"],
        heads=heads,
        ffn=rows("ffns.0.lin1.weight"),
        positions=rows("position_embeddings.weight"),
        languages=languages,
    )


def _expected(a: Architecture, language_embeddings: bool) -> dict[str, tuple[int, ...]]:
    """Every tensor of an XLM encoder and its shape."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.weight": (a.vocabulary, a.dim),
        "position_embeddings.weight": (a.positions, a.dim),
        "pred_layer.proj.weight": (a.vocabulary, a.dim),
        "pred_layer.proj.bias": (a.vocabulary,),
    }
    if language_embeddings:  # XLM makes none for one language
        shapes["lang_embeddings.weight"] = (a.languages, a.dim)
    linear = {f"attentions.{{}}.{part}_lin": (a.dim, a.dim) for part in ("q", "k", "v", "out")}
    linear |= {"ffns.{}.lin1": (a.ffn, a.dim), "ffns.{}.lin2": (a.dim, a.ffn)}
    for i in range(a.layers):
        for name, shape in linear.items():
            shapes |= {f"{name.format(i)}.weight": shape, f"{name.format(i)}.bias": shape[:1]}
    norms = ["layer_norm_emb", *(f"layer_norm{n}.{i}" for n in (1, 2) for i in range(a.layers))]
    return shapes | {f"{norm}.{kind}": (a.dim,) for norm in norms for kind in ("weight", "bias")}


def _check_tensors(weights: dict[str, Tensor], expected: dict[str, tuple[int, ...]]) -> None:
    missing, odd = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
    if missing:
        raise ModelError(f"model lacks {_some(missing)}")
    if odd:
        raise ModelError(f"model has tensors that an XLM encoder of this size has not: {_some(odd)}")
    for name, shape in expected.items():
        if tuple(weights[name].shape) != shape:
            raise ModelError(f"model[{name!r}] is {tuple(weights[name].shape)}, but params make it {shape}")
        if not bool(weights[name].isfinite().all()):
            raise ModelError(f"model[{name!r}] has NaN or infinite values")
    if not torch.equal(weights["embeddings.weight"], weights["pred_layer.proj.weight"]):
        raise ModelError("input and output embeddings differ, though params['share_inout_emb'] ties them")


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
