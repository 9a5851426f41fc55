"""A model of ours as a folder: config.json, model.safetensors, and what belongs to it (tokenizer, length counts)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.errors import ModelError, first_line

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"
TRAINED = "training.json"  # how a model of ours was trained, where that is known


def classes() -> dict[str, Any]:
    """The model classes by the `kind` that config.json names."""
    from anyorder.models.autoregressive import Autoregressive
    from anyorder.models.cmlm import ConditionalMasked
    from anyorder.models.masked_translation import MaskedTranslation
    from anyorder.models.pretrained import PretrainedLM

    return {c.kind: c for c in (MaskedTranslation, Autoregressive, ConditionalMasked, PretrainedLM)}


def load_model(folder: str | Path) -> Any:
    """The model in `folder`, in evaluation mode, as float32 on the CPU."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(folder)
    model = build(read_config(folder))
    path = folder / WEIGHTS
    try:
        weights = load_file(path)
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: this is not a complete model folder") from None
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is damaged ({first_line(error)}): copy or download it again") from None
    set_weights(model, weights, path)
    return model.eval().requires_grad_(False)


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{folder} is not a model folder: it has no {CONFIG}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelError(f"{path} is not JSON: {first_line(error)}") from None
    if not isinstance(config, dict) or "format" not in config:
        raise ModelError(f"{path} has no 'format': it is not a model of anyorder")
    if config["format"] != FORMAT:
        raise ModelError(f"{path} has format {config['format']}, this version reads {FORMAT}: update anyorder")
    return config


def build(config: dict[str, Any]) -> nn.Module:
    """A model with fresh weights from the content of config.json."""
    from anyorder.models.transformer import Architecture
    from anyorder.models.translation import Symbols

    kinds = classes()
    if config.get("kind") not in kinds:
        raise ModelError(f"unknown kind of model {config.get('kind')!r}: this version knows {', '.join(kinds)}")
    try:
        architecture = Architecture(**config["architecture"])
        symbols = Symbols(**{field.name: config[f"{field.name}_id"] for field in fields(Symbols)})
        model: nn.Module = kinds[config["kind"]](architecture, symbols, tuple(config["languages"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"config.json does not describe a model: {type(error).__name__} {error}") from None
    return model


def config_of(model: Any) -> dict[str, Any]:
    """The content of config.json."""
    ids = {f"{name}_id": value for name, value in asdict(model.symbols).items()}
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


def save_model(model: Any, folder: str | Path, half: bool = False, weights: dict[str, Tensor] | None = None) -> None:
    """Write config.json and model.safetensors, as float16 with `half`; `weights` instead of the model's own."""
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {n: (w.half() if half else w).cpu().contiguous() for n, w in (weights or own_weights(model)).items()}
    save_file(tensors, folder / (WEIGHTS + ".new"))
    os.replace(folder / (WEIGHTS + ".new"), folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps(config_of(model), indent=1) + "\n", encoding="utf-8")
