"""load(): a model by its folder or name, ready to be used with strings."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from anyorder.candidates import length_models
from anyorder.catalog import DEFAULT, locate, our_config, shipped
from anyorder.translator import Translator
from anyorder.writer import Writer

__all__ = ["load", "shipped"]


def load(path_or_name: str | Path = DEFAULT, *, kind: str | None = None, int8: bool = False, **diffusion: Any) -> Any:
    """A `Translator` or a `Writer`.

    `path_or_name` is a shipped model ("de-en"), a folder that `anyorder train` or `anyorder convert` made, or a Hugging
    Face masked language model (folder or hub name). kind="diffusion" loads a LLaDA- or Dream-like model instead, with
    the further options of `load_diffusion_lm`. int8=True rounds matrix products to 8 bits: faster, and no longer exact.
    """
    folder = locate(path_or_name)
    if folder is not None and our_config(folder):
        return _load_ours(folder, int8)
    where = folder or path_or_name
    if kind == "diffusion":
        from anyorder.models.diffusion_lm import load_diffusion_lm

        model: Any = load_diffusion_lm(where, **diffusion)
    else:
        from anyorder.models.masked_lm import load_masked_lm

        model = load_masked_lm(where)
    return Writer(_arithmetic(model, int8), model.tokenizer, str(path_or_name))


def _arithmetic(model: Any, int8: bool) -> Any:
    if not int8:
        return model
    from anyorder.models.int8 import to_int8

    return to_int8(model)


def _load_ours(folder: Path, int8: bool = False) -> Translator:
    from anyorder.models import load_model
    from anyorder.training.tokenizer import Tokenizer

    model = _arithmetic(load_model(folder), int8)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    lengths_file = folder / "lengths.json"
    lengths = length_models(json.loads(lengths_file.read_text(encoding="utf-8"))) if lengths_file.exists() else {}
    beside = folder.with_name(folder.name + "-ar")
    ar = cache(lambda: _load_ours(beside, int8)) if model.kind != "autoregressive" and our_config(beside) else None
    return Translator(model, tokenizer, tuple(model.languages), lengths, ar, _policies(folder), folder.name)


def _policies(folder: Path) -> dict[str, Any]:
    """Learned orders beside a model: policy-<source>-<target>.safetensors."""
    files = sorted(folder.glob("policy-*.safetensors"))
    if not files:
        return {}
    from anyorder.policy import Policy

    return {f.stem.removeprefix("policy-"): Policy.load(f) for f in files}
