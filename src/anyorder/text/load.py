"""load(): a model by its folder or name, ready to be used with strings."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from anyorder.errors import ModelError
from anyorder.models.catalog import DEFAULT, locate, our_config, shipped
from anyorder.models.machine import keep_freed_memory
from anyorder.text.candidates import length_models
from anyorder.text.translator import Translator
from anyorder.text.writer import Writer

__all__ = ["load", "shipped"]


def load(
    path_or_name: str | Path = DEFAULT,
    *,
    kind: str | None = None,
    int8: bool = False,
    compiled: bool = False,
    **diffusion: Any,
) -> Any:
    """A `Translator` or a `Writer`.

    `path_or_name` is a shipped model ("de-en"), a folder that `anyorder train` or `anyorder convert` made, or a Hugging
    Face masked language model (folder or hub name). kind="diffusion" loads a LLaDA- or Dream-like model instead, with
    the further options of `load_diffusion_lm`. int8=True rounds matrix products to 8 bits: faster, and no longer exact.
    compiled=True compiles the Transformer with torch.compile when it is first used. Both are for our own models.
    """
    keep_freed_memory()
    folder = locate(path_or_name)
    if folder is not None and our_config(folder):
        return _load_ours(folder, partial(_arithmetic, int8=int8, compiled=compiled))
    if int8 or compiled:
        raise ModelError(f"int8 and compiled are for anyorder's own models; {path_or_name} is not one")
    where = folder or path_or_name
    if kind == "diffusion":
        from anyorder.models.diffusion_lm import load_diffusion_lm

        model: Any = load_diffusion_lm(where, **diffusion)
    else:
        from anyorder.models.masked_lm import load_masked_lm

        model = load_masked_lm(where)
    return Writer(model, model.tokenizer, str(path_or_name))


def _arithmetic(model: Any, int8: bool, compiled: bool) -> Any:
    from anyorder.models.compiled import to_compiled
    from anyorder.models.int8 import to_int8

    model = to_int8(model) if int8 else model
    return to_compiled(model) if compiled else model


def _load_ours(folder: Path, arithmetic: Callable[[Any], Any]) -> Translator:
    from anyorder.models import load_model
    from anyorder.models.tokenizer import Tokenizer

    model = arithmetic(load_model(folder))
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    lengths_file = folder / "lengths.json"
    lengths = length_models(json.loads(lengths_file.read_text(encoding="utf-8"))) if lengths_file.exists() else {}
    beside = folder.with_name(folder.name + "-ar")
    two = model.kind != "autoregressive" and our_config(beside)
    ar = cache(lambda: _load_ours(beside, arithmetic)) if two else None
    return Translator(model, tokenizer, tuple(model.languages), lengths, ar, _policies(folder), folder.name)


def _policies(folder: Path) -> dict[str, Any]:
    """Learned orders beside a model: policy-<source>-<target>.safetensors."""
    files = sorted(folder.glob("policy-*.safetensors"))
    if not files:
        return {}
    from anyorder.models.policy import Policy

    return {f.stem.removeprefix("policy-"): Policy.load(f) for f in files}
