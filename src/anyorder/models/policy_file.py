"""A policy's file: its weights, and in their header the settings that it is built from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from anyorder.errors import ModelError
from anyorder.files import write_whole

KIND, FORMAT = "anyorder-policy", "1"


class PolicyError(ModelError):
    """A policy file that cannot be used, or not with this model."""


def write_policy(path: str | Path, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write weights and settings as safetensors."""
    from safetensors.torch import save

    laid = {name: weight.detach().contiguous() for name, weight in weights.items()}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save(laid, {"kind": KIND, "format": FORMAT, "settings": json.dumps(settings)}))


def read_policy(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The settings and weights that `write_policy` wrote."""
    from safetensors import safe_open

    try:
        with safe_open(str(path), "pt") as file:
            meta = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise PolicyError(f"no policy file {path}: train one with `anyorder train policy.toml`") from None
    except Exception as error:
        raise PolicyError(f"{path} is not a safetensors file: {error}") from None
    if meta.get("kind") != KIND:
        raise PolicyError(f"{path} holds no policy (its kind is {meta.get('kind', 'not given')!r})")
    if meta.get("format") != FORMAT:
        raise PolicyError(f"{path} has policy format {meta.get('format')!r}, this version reads format {FORMAT}")
    return json.loads(meta["settings"]), weights
