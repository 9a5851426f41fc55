"""load(): a model by its folder or name, ready to be used with strings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, get_args, overload

from anyorder.errors import ModelError
from anyorder.models import catalog
from anyorder.models.catalog import DEFAULT, shipped
from anyorder.models.folder import ModelFolder
from anyorder.models.freed import keep_freed_memory
from anyorder.models.hub import is_diffusion
from anyorder.text.translator import Translator
from anyorder.text.writer import Unknown, Writer

__all__ = ["load", "shipped"]

Kind = Literal["translation", "language", "masked", "diffusion"]
Shipped = Literal["de-en", "de-en-ar", "de-en-joint"]


@overload
def load(
    path_or_name: Shipped = ..., *, beside: str | Path | None = ..., int8: bool = ..., compiled: bool = ...
) -> Translator: ...
@overload
def load(
    path_or_name: str | Path,
    *,
    kind: Literal["translation"],
    beside: str | Path | None = ...,
    int8: bool = ...,
    compiled: bool = ...,
) -> Translator: ...
@overload
def load(path_or_name: str | Path, *, kind: Literal["language", "masked"], unknown: Unknown = ...) -> Writer: ...
@overload
def load(
    path_or_name: str | Path, *, kind: Literal["diffusion"], unknown: Unknown = ..., **diffusion: Any
) -> Writer: ...
@overload
def load(
    path_or_name: str | Path,
    *,
    beside: str | Path | None = ...,
    int8: bool = ...,
    compiled: bool = ...,
    unknown: Unknown | None = ...,
) -> Translator | Writer: ...


def load(
    path_or_name: str | Path = DEFAULT,
    *,
    kind: Kind | None = None,
    beside: str | Path | None = None,
    int8: bool = False,
    compiled: bool = False,
    unknown: Unknown | None = None,
    **diffusion: Any,
) -> Translator | Writer:
    """A `Translator` or a `Writer`.

    `path_or_name` is a shipped model ("de-en"), a folder that `anyorder train` or `anyorder convert` made, or a Hugging
    Face masked or diffusion language model (folder or hub name; its config says which). `kind` says what is expected:
    "translation" for one of ours, "language" for a language model, "masked" or "diffusion" for one of that kind; the
    latter takes the further options of `load_diffusion_lm`. A text with symbols that a language model's vocabulary
    lacks is refused; with unknown="allow" the model reads its unknown symbol there.

    These are for our own models: `beside`, the autoregressive model that rescores (a shipped one or a folder), where
    it is not the one that lies beside the model as FOLDER-ar; int8=True, which rounds matrix products to 8 bits, no
    longer exact, but faster; compiled=True, which compiles the Transformer with torch.compile when it is first used,
    and does without kernels.
    """
    if kind is not None and kind not in get_args(Kind):
        raise ModelError(f"kind is one of {', '.join(get_args(Kind))}; got {kind!r}")
    if diffusion and kind != "diffusion":
        raise ModelError(f"{', '.join(diffusion)}: for kind='diffusion' only")
    folder = catalog.locate(path_or_name)
    ours = folder is not None and folder.ours
    if kind == "translation" and not ours:
        what = "there is no model" if folder is None else "this is not a translation model of anyorder:"
        raise ModelError(f"{what} {str(path_or_name)!r}; {catalog.known()}")
    if kind not in (None, "translation") and ours:
        raise ModelError(f"{path_or_name} is a translation model: use `anyorder translate -m {path_or_name}`")
    if unknown is not None and (ours or unknown not in get_args(Unknown)):
        raise ModelError(
            f"unknown is {' or '.join(get_args(Unknown))}; got {unknown!r}"
            if not ours
            else f"unknown is for Hugging Face's language models; {path_or_name} knows every character"
        )
    keep_freed_memory()
    if folder is not None and ours:
        other = folder.beside if beside is None else _judge(folder, beside)
        return _ours(folder, other, partial(_arithmetic, int8=int8, compiled=compiled))
    if kind is None or kind == "language":
        kind = "diffusion" if is_diffusion(path_or_name if folder is None else folder.path) else "masked"
    if beside is not None:
        raise ModelError(f"beside is for anyorder's own models; {path_or_name} is not one")
    if int8 or compiled:
        raise ModelError(f"int8 and compiled are for anyorder's own models; {path_or_name} is not one")
    where = path_or_name if folder is None else folder.path
    if kind == "diffusion":
        from anyorder.models.diffusion_lm import load_diffusion_lm

        model: Any = load_diffusion_lm(where, **diffusion)
    else:
        from anyorder.models.masked_lm import load_masked_lm

        model = load_masked_lm(where)
    return Writer(model, model.tokenizer, str(path_or_name), unknown or "refuse")


def _arithmetic(model: Any, int8: bool, compiled: bool) -> Any:
    from anyorder.models.compiled import to_compiled
    from anyorder.models.int8 import to_int8
    from anyorder.models.layout import as_read

    model = to_int8(model, by_torch=compiled) if int8 else as_read(model)  # compiled models do without kernels
    return to_compiled(model) if compiled else model


def _judge(folder: ModelFolder, name: str | Path) -> ModelFolder:
    """The autoregressive model of that name, if it can judge what the model of this folder writes."""
    other = catalog.found(name)
    if not other.ours or (other.config or {}).get("kind") != "autoregressive":
        raise ModelError(f"{name} is no autoregressive translation model of anyorder: it cannot rescore")
    if folder.tokenizer().fingerprint != other.tokenizer().fingerprint:
        raise ModelError(f"{name} has another vocabulary than {folder.name}: it cannot rescore what that writes")
    return other


def _ours(folder: ModelFolder, other: ModelFolder | None, arithmetic: Callable[[Any], Any]) -> Translator:
    model = arithmetic(folder.model())
    beside = None if other is None else cache(lambda: _ours(other, None, arithmetic))
    return Translator(
        model, folder.tokenizer(), tuple(model.languages), folder.lengths(), beside, folder.policies(), folder.name,
        str(((folder.story or {}).get("stage") or {}).get("direction") or ""),
    )  # fmt: skip
