"""A model of ours from its description, its description from a model, and weights by name."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT = 1  # of what `config_of` gives; a reader of another format says so


def classes() -> dict[str, Any]:
    """The model classes by the `kind` that config.json names."""
    from anyorder.models.autoregressive import Autoregressive
    from anyorder.models.cmlm import ConditionalMasked
    from anyorder.models.latent_alignment import LatentAlignment
    from anyorder.models.masked_translation import MaskedTranslation
    from anyorder.models.pretrained import PretrainedLM

    kinds = (MaskedTranslation, Autoregressive, ConditionalMasked, LatentAlignment, PretrainedLM)
    return {c.kind: c for c in kinds}


def build(config: dict[str, Any]) -> nn.Module:
    """A model with fresh weights from the content of config.json."""
    from anyorder.models.architecture import Architecture
    from anyorder.models.translation import SpecialIds

    kinds = classes()
    if config.get("kind") not in list(kinds):  # it may be anything
        raise ModelError(f"unknown kind of model {config.get('kind')!r}: this version knows {', '.join(kinds)}")
    try:
        architecture = Architecture(**config["architecture"])
        ids = {f"{field.name}_id": field for field in fields(SpecialIds)}
        missing = {"blank_id": SpecialIds.blank}  # in folders from before there were slots
        special = SpecialIds(**{field.name: ({**missing, **config})[name] for name, field in ids.items()})
        for name, value in asdict(special).items():
            if type(value) is not int or not 0 <= value < architecture.vocabulary:
                raise ValueError(f"{name}_id {value} is no symbol of {architecture.vocabulary}")
        languages = config["languages"]
        if not isinstance(languages, list) or not all(isinstance(name, str) for name in languages):
            raise ValueError("languages are a list of names")
        model: nn.Module = kinds[config["kind"]](architecture, special, tuple(languages))
    except (KeyError, TypeError, ValueError, ArithmeticError, RuntimeError, AssertionError) as error:
        raise ModelError(f"config.json does not describe a model: {type(error).__name__} {error}") from None
    return model


def check_size(config: dict[str, Any], weights: dict[str, Tensor], where: str | Path) -> None:
    """Refuse a description of a model much larger than its weights, before memory is taken for it."""
    sizes = config.get("architecture")
    names = ("vocabulary", "dim", "layers", "ffn", "positions")
    if not isinstance(sizes, dict) or any(type(sizes.get(name, 0)) is not int for name in (*names, "decoder_layers")):
        raise ModelError("config.json does not describe a model: its architecture needs whole numbers")
    vocabulary, dim, layers, ffn, positions = (sizes.get(name, 0) for name in names)
    described = (vocabulary + positions) * dim + (layers + sizes.get("decoder_layers", 0)) * dim * (4 * dim + 2 * ffn)
    held = sum(tensor.numel() for tensor in weights.values())
    if described > 2 * held or layers + sizes.get("decoder_layers", 0) > len(weights):
        raise ModelError(
            f"config.json describes a model of {layers:,} layers and {described:,} parameters, but {where} holds "
            f"{held:,} in {len(weights)} tensors: one of the two is of another model"
        )


def config_of(model: Any) -> dict[str, Any]:
    """The content of config.json."""
    ids = {f"{name}_id": value for name, value in asdict(model.special).items()}
    architecture = asdict(model.architecture)
    return {
        "format": FORMAT, "kind": model.kind, "architecture": architecture, "languages": list(model.languages), **ids
    }  # fmt: skip


def own_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights by name, each once: tied ones under their first name."""
    return {name: p.detach() for name, p in model.named_parameters()}


def set_weights(model: nn.Module, weights: dict[str, Tensor], where: str | Path = "the weights") -> None:
    """Put `weights` into the model; complain unless they are exactly its own."""
    import torch

    mine = own_weights(model)
    for what, names in (("misses", mine.keys() - weights.keys()), ("has an odd", weights.keys() - mine.keys())):
        if names:
            raise ModelError(f"{where} {what} {sorted(names)[0]!r} ({len(names)} such): it is of another model")
    with torch.no_grad():
        for name, p in mine.items():
            if p.shape != weights[name].shape:
                raise ModelError(f"{where}: {name} is {tuple(weights[name].shape)}, should be {tuple(p.shape)}")
            p.copy_(weights[name])
