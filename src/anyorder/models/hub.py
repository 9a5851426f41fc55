"""Models of the Hugging Face hub and their folders: loaded without noise, and what old ones lack is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyorder.errors import ModelError


@contextmanager
def quiet() -> Iterator[None]:
    """Without bars and remarks about weights: what matters of them is checked here."""
    from transformers.utils import logging as module

    logging: Any = module
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def check_type(folder: Path) -> None:
    """Old folders do not say which architecture they are: say what to add."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return  # a hub name, or something that the loader will name
    if not isinstance(config, dict) or "model_type" in config:
        return
    named = config.get("architectures")
    names = named if isinstance(named, list) else []
    guess = str(names[0]).split("For")[0].lower() if names else "bert"
    raise ModelError(
        f'{folder / "config.json"} has no "model_type": it is from before there was one. Add "model_type": "{guess}" '
        "to it, or the name of the architecture that it is"
    )


def is_diffusion(path_or_name: str | Path, **hub: Any) -> bool:
    """Is it a language model without a masked LM's head, of which only a diffusion LM can be made? Its config says."""
    from transformers import CONFIG_MAPPING, PretrainedConfig
    from transformers.models.auto import modeling_auto as auto

    try:
        config, _ = PretrainedConfig.get_config_dict(str(path_or_name), **hub)
    except Exception:  # the loader will say what is wrong
        return False
    kind, named = config.get("model_type"), [str(name) for name in config.get("architectures") or ()]
    if any(name.endswith(("ForCausalLM", "ForBlockDiffusion")) for name in named):
        return True
    if kind is None or kind in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return False
    return kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or kind not in CONFIG_MAPPING
