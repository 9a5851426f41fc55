"""load(): a model by its folder or name, ready to be used with strings."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from anyorder.catalog import DEFAULT, locate, our_config, shipped
from anyorder.translator import Translator, length_models
from anyorder.writer import Writer

__all__ = ["load", "shipped"]


def load(path_or_name: str | Path = DEFAULT, *, kind: str | None = None) -> Any:
    """A `Translator` or a `Writer`.

    `path_or_name` is a shipped model ("de-en"), a folder that `anyorder train` or `anyorder convert` made, or a Hugging
    Face masked language model (folder or hub name). kind="diffusion" loads a LLaDA- or Dream-like model instead.
    """
    folder = locate(path_or_name)
    if folder is not None and our_config(folder):
        return _load_ours(folder)
    where = folder or path_or_name
    if kind == "diffusion":
        from anyorder.models.diffusion_lm import load_diffusion_lm

        model: Any = load_diffusion_lm(where)
    else:
        from anyorder.models.masked_lm import load_masked_lm

        model = load_masked_lm(where)
    return Writer(model, model.tokenizer, str(path_or_name))


def _load_ours(folder: Path) -> Translator:
    from anyorder.models import load_model
    from anyorder.training.tokenizer import Tokenizer

    model = load_model(folder)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    lengths_file = folder / "lengths.json"
    lengths = length_models(json.loads(lengths_file.read_text(encoding="utf-8"))) if lengths_file.exists() else {}
    beside = folder.with_name(folder.name + "-ar")
    ar = cache(lambda: _load_ours(beside)) if model.kind != "autoregressive" and our_config(beside) else None
    return Translator(model, tokenizer, tuple(model.languages), lengths, ar, _policies(folder), folder.name)


def _policies(folder: Path) -> dict[str, Any]:
    """Learned orders beside a model: policy-<source>-<target>.safetensors."""
    files = sorted(folder.glob("policy-*.safetensors"))
    if not files:
        return {}
    from anyorder.policy import Policy

    return {f.stem.removeprefix("policy-"): Policy.load(f) for f in files}
