"""load(): a model by its folder or name, ready to be used with strings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args, overload

from anyorder.core.devices import device_of
from anyorder.errors import ModelError
from anyorder.files import digest
from anyorder.machine import keep_freed_memory
from anyorder.models import catalog
from anyorder.models.catalog import DEFAULT, shipped
from anyorder.models.folder import ModelFolder
from anyorder.models.hub import is_diffusion
from anyorder.models.placing import FORMATS, Placing
from anyorder.options import Loading, known, misspelt
from anyorder.text import keywords
from anyorder.text.language_model import LanguageModel
from anyorder.text.own_orders import file_of
from anyorder.text.translator import Lazily, Translator

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from anyorder.text.plan import Plan

__all__ = ["load", "shipped"]

Model = Translator | LanguageModel

Kind = Literal["translation", "language", "masked", "diffusion"]
Shipped = Literal["de-en", "de-en-ar", "de-en-joint"]


def translates(model: Model) -> TypeIs[Translator]:
    """Does it translate? As the model itself declares."""
    return "translate" in model.tasks


@overload
def load(path_or_name: Shipped = ..., **loading: Unpack[keywords.Load]) -> Translator: ...
@overload
def load(path_or_name: str | Path, *, kind: Literal["translation"], **loading: Unpack[keywords.Load]) -> Translator: ...
@overload
def load(
    path_or_name: str | Path, *, kind: Literal["language", "masked"], **loading: Unpack[keywords.Load]
) -> LanguageModel: ...
@overload
def load(path_or_name: str | Path, *, kind: Literal["diffusion"], **loading: Any) -> LanguageModel: ...
@overload
def load(path_or_name: str | Path, **loading: Unpack[keywords.Load]) -> Translator | LanguageModel: ...


def load(path_or_name: str | Path = DEFAULT, *, kind: Kind | None = None, **loading: Any) -> Translator | LanguageModel:
    """A `Translator` or a `LanguageModel`.

    `path_or_name` is a shipped model ("de-en"), a folder that `anyorder train` or `anyorder convert` made, or a Hugging
    Face masked or diffusion language model (folder or hub name; its config says which). `kind` says what is expected:
    "translation" for one of ours, "language" for a language model, "masked" or "diffusion" for one of that kind; the
    latter takes the further options of `load_diffusion_lm`.

    The options of loading are those of `anyorder.options.Loading`: `beside`, the autoregressive model that rescores,
    int8=True is for our own models; unknown="allow", device_map="auto", revision and token for
    language models; device and dtype for all.
    """
    asked = Loading(**{name: value for name, value in loading.items() if name in known(Loading)})
    more = {name: value for name, value in loading.items() if name not in known(Loading)}
    if kind is not None and kind not in get_args(Kind):
        raise ModelError(f"kind is one of {', '.join(get_args(Kind))}; got {kind!r}")
    if more and kind != "diffusion":
        raise misspelt(next(iter(more)), Loading)
    folder = catalog.locate(path_or_name)
    ours = folder is not None and folder.ours
    if kind == "translation" and not ours:
        what = "there is no model" if folder is None else "this is not a translation model of anyorder:"
        raise ModelError(f"{what} {str(path_or_name)!r}; {catalog.known()}")
    if kind not in (None, "translation") and ours:
        raise ModelError(f"{path_or_name} is a translation model: use `anyorder translate -m {path_or_name}`")
    keep_freed_memory()
    if folder is not None and ours:
        _check_loading(asked, "translation", path_or_name)
        other = folder.beside if asked.beside is None else _judge(folder, asked.beside)
        return _ours(folder, other, partial(_arithmetic, asked=asked, placing=_own_place(asked)))
    _check_loading(asked, "language", path_or_name)
    placing = Placing(asked.device, asked.dtype, asked.device_map, asked.revision, asked.token).check()
    if kind is None or kind == "language":
        kind = "diffusion" if is_diffusion(path_or_name if folder is None else folder.path, **placing.hub) else "masked"
    where = path_or_name if folder is None else folder.path
    if kind == "diffusion":
        from anyorder.models.diffusion_gemma import load_diffusion

        model: Any = load_diffusion(where, placing=placing, **more)
    else:
        from anyorder.models.masked_lm import load_masked_lm

        model = load_masked_lm(where, placing)
    return LanguageModel(model, model.tokenizer, str(path_or_name), asked.unknown)


def _check_loading(asked: Loading, kind: str, name: str | Path) -> None:
    for option in asked.changed:
        if (why := known(Loading)[option].about.without.get(kind)) is not None:
            raise ModelError(f"{name} has no use for {option}: {why} (leave {option} out)")


def _own_place(asked: Loading) -> Placing:
    """Where a model of ours goes: the CPU unless it is told otherwise."""
    placing = Placing(asked.device or "cpu", "float32" if asked.dtype == "auto" else asked.dtype).check()
    if asked.int8 and (placing.where().type != "cpu" or placing.dtype != "float32"):
        raise ModelError("int8 is for float32 on the CPU: leave device and dtype out, or int8")
    return placing


def _arithmetic(model: Any, asked: Loading, placing: Placing) -> Any:
    from anyorder.models.layout import as_read, to_int8

    if placing.where().type != "cpu" or placing.dtype != "float32":  # torch does everything: there are no kernels
        return placing.moved(model).to(FORMATS[placing.dtype])
    return to_int8(model) if asked.int8 else as_read(model)


def _judge(folder: ModelFolder, name: str | Path) -> ModelFolder:
    """The autoregressive model of that name, if it can judge what the model of this folder writes."""
    other = catalog.found(name)
    if not other.ours or (other.config or {}).get("kind") != "autoregressive":
        raise ModelError(f"{name} is no autoregressive translation model of anyorder: it cannot rescore")
    if folder.tokenizer().fingerprint != other.tokenizer().fingerprint:
        raise ModelError(f"{name} has another vocabulary than {folder.name}: it cannot rescore what that writes")
    return other


def _ours(folder: ModelFolder, other: ModelFolder | None, arithmetic: Callable[[Any], Any]) -> Translator:
    model, policies = arithmetic(folder.model()), folder.policies()
    beside = None if other is None else Lazily(partial(_ours, other, None, arithmetic))
    translator = Translator(
        model, folder.tokenizer(), tuple(model.languages), folder.lengths(), beside, policies, folder.name,
        str(((folder.story or {}).get("stage") or {}).get("direction") or ""),
    )  # fmt: skip
    where = device_of(model)
    return translator if where.type == "cpu" else translator.to(where)


def identity(model: str, plan: Plan, beside: str | None = None) -> dict[str, str]:
    """The version of this package, and a fingerprint of the model; of one on a hub its name alone."""
    from anyorder import __version__

    folder = catalog.locate(model)
    if folder is None:
        return {"version": __version__, "model": model}
    parts = [folder.path]
    judge = folder.beside if beside is None else catalog.locate(beside)
    if plan.rescore in ("ar", "both") and judge is not None:
        parts.append(judge.path)
    orders = [one.order for one in plan.each]
    named = [order for order in orders if isinstance(order, str)]
    policies = [Path(order) for order in named if order.endswith(".safetensors")]
    policies += [path for order in named if (path := file_of(order)) is not None]
    return {"version": __version__, "model": digest(*parts, *(p for p in policies if p.is_file()))}
