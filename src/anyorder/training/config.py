"""A training run as a TOML file: every section a dataclass, every mistake in it told with its place."""

from __future__ import annotations

import math
import tomllib
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from anyorder.files import plain_name


class ConfigError(ValueError):
    """A configuration that cannot be used: what is wrong, where, and what to do."""


@dataclass(frozen=True)
class Corpus:
    """Parallel text: two files, one TSV file, a dataset of the Hugging Face hub, or made-up sequences to copy."""

    files: list[str] = field(default_factory=list)  # [first language, second language]
    tsv: str = ""
    hub: str = ""  # the dataset's name …
    hub_config: str = ""
    split: str = "train"  # … and which part of it
    copy: int = 0  # so many made-up pairs, the second side a copy of the first …
    seed: int = 0  # … drawn with this seed
    repeat: int = 1  # so many times an epoch


@dataclass(frozen=True)
class Data:
    """What is trained on. Paths are relative to `root`."""

    train: list[Corpus]
    valid: list[Corpus]
    languages: list[str]
    root: str = "."
    monolingual: dict[str, list[str]] = field(default_factory=dict)  # language → files
    longest: int = 1000  # characters; longer lines are skipped


@dataclass(frozen=True)
class Tokens:
    """The joint subword vocabulary."""

    vocabulary: int = 8000
    moses: bool = False  # the paper's Moses tokenisation before BPE; false: lossless on raw text
    file: str = ""  # a tokenizer.json to use instead of training one


@dataclass(frozen=True)
class Sizes:
    """The Transformer."""

    dim: int
    layers: int
    heads: int
    ffn: int
    positions: int = 256
    norm: str = "post"
    gelu: str = "erf"
    layer_norm_eps: float = 1e-12


@dataclass(frozen=True)
class Stage:
    """One objective, from where it starts to how it is optimised."""

    name: str
    objective: str  # masked-lm | masked-translation | autoregressive | cmlm
    steps: int  # updates
    start: str = ""  # a finished stage's name, or a model folder: its weights are where this one starts
    target: str = ""  # a folder that `anyorder distill` wrote: its pairs instead of the data's
    back: str = ""  # such a folder, turned round beside the data's pairs: a model's sources of people's targets
    tokens: int = 4096  # tokens a batch and process, padding included …
    sentences: int = 0  # … or at most so many sentences; 0: no such limit
    accumulate: int = 1  # batches added up for one update
    optimizer: str = "adam"  # adam | muon (matrices by Muon, the rest by Adam)
    learning_rate: float = 1e-3  # at its highest
    warmup: int = 500  # updates up to there; after that it falls as 1/sqrt(update) …
    schedule: str = "inverse-sqrt"  # … or stays: inverse-sqrt | constant
    cooldown: int = 0  # and over the last so many updates goes to 0 in a line
    betas: list[float] = field(default_factory=lambda: [0.9, 0.98])
    weight_decay: float = 0.0  # of Muon's matrices
    clip: float = 1.0  # the gradient's norm is at most this
    dropout: float = 0.1
    attention_dropout: float = 0.0
    label_smoothing: float = 0.1
    mask_low: float = 0.0  # a sentence's mask ratio is uniform between these two
    mask_high: float = 1.0
    mask_per_batch: bool = False  # the authors' code: one ratio a batch
    mask_bert: bool = False  # the authors' code: of the chosen symbols 80 % masked, 10 % random, 10 % kept
    average: float = 0.999  # decay of the weights' moving average, which is what is validated and kept
    precision: str = "auto"  # auto (bf16 where the hardware has it) | float32 | bf16
    validate: int = 500  # updates between validations
    bleu_sentences: int = 200  # translated at each validation; 0: judge by the loss alone
    save_minutes: float = 3.0  # between checkpoints
    seed: int = 1


@dataclass(frozen=True)
class Config:
    """A whole run: data, vocabulary, model, and the stages in order."""

    name: str
    data: Data
    tokenizer: Tokens
    model: Sizes
    stages: list[Stage]


LEAST_VOCABULARY = 261  # special symbols and bytes
OBJECTIVES = ("masked-lm", "masked-translation", "autoregressive", "cmlm")


def load_config(path: Path | str) -> Config:
    """Read and check a TOML file."""
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    try:
        config: Config = build(Config, raw, "")
        _check(config)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return config


def build(kind: Any, value: Any, where: str) -> Any:
    """`value` as `kind`, a dataclass, list, dict or plain type."""
    origin = get_origin(kind)
    if hasattr(kind, "__dataclass_fields__"):
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be a table, not {value!r}")
        hints = get_type_hints(kind)
        if odd := sorted(value.keys() - hints.keys()):
            import difflib

            near = difflib.get_close_matches(odd[0], hints, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(hints)}"
            raise ConfigError(f"{where or 'top level'}: no setting {odd[0]!r}; {hint}")
        needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
        if missing := [name for name in needed if name not in value]:
            raise ConfigError(f"{where or 'top level'}: {missing[0]!r} is missing")
        return kind(**{name: build(hints[name], item, f"{where}.{name}".strip(".")) for name, item in value.items()})
    if origin is list:
        if not isinstance(value, list):
            raise ConfigError(f"{where} must be a list, not {value!r}")
        return [build(get_args(kind)[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be a table, not {value!r}")
        return {key: build(get_args(kind)[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin in (Union, UnionType):
        raise TypeError(f"no unions in configurations: {where}")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{where} must be {kind.__name__}, not {value!r}")
    return value


def _check(config: Config) -> None:
    """What types alone do not say."""
    data = config.data
    _must(plain_name(config.name), f"name {config.name!r} must be a plain name, as a folder is called by it")
    _must(len(data.languages) == 2, f"data.languages must name two languages, not {data.languages}")
    _must(data.languages[0] != data.languages[1], f"data.languages must be different, not {data.languages}")
    for language in data.languages:
        _must(plain_name(language) and "-" not in language, f"data.languages: {language!r} is no language's short name")
    _must(data.train and data.valid, "data.train and data.valid need at least one corpus each")
    _must(data.longest >= 1, f"data.longest must be at least 1, not {data.longest}")
    for where, corpora in (("data.train", data.train), ("data.valid", data.valid)):
        for i, corpus in enumerate(corpora):
            _check_corpus(corpus, f"{where}[{i}]: corpus {i}")
    for odd in data.monolingual.keys() - set(data.languages):
        raise ConfigError(f"data.monolingual: {odd!r} is not one of data.languages")
    if not config.tokenizer.file:
        size = config.tokenizer.vocabulary
        _must(size > LEAST_VOCABULARY, f"tokenizer.vocabulary must be above {LEAST_VOCABULARY} symbols, not {size}")
    _check_sizes(config.model)
    _must(config.stages, "no [[stages]]: there is nothing to train")
    seen: set[str] = set()
    for i, stage in enumerate(config.stages):
        where = f"stages[{i}] ({stage.name})"
        own = stage.name not in seen and plain_name(stage.name)
        _must(own, f"{where}: every stage needs a name of its own, without slashes")
        _check_stage(stage, where)
        seen.add(stage.name)


def _must(right: object, message: str) -> None:
    if not right:
        raise ConfigError(message)


def _check_corpus(corpus: Corpus, where: str) -> None:
    given = [bool(corpus.files), bool(corpus.tsv), bool(corpus.hub), bool(corpus.copy)]
    _must(sum(given) == 1, f"{where}: give one of files, tsv, hub and copy")
    _must(not corpus.files or len(corpus.files) == 2, f"{where}: files must be two, one a language, not {corpus.files}")
    _must(corpus.copy >= 0, f"{where}: copy is a number of pairs, not {corpus.copy}")
    _must(corpus.repeat >= 1, f"{where}: repeat must be at least 1, not {corpus.repeat}")


def _check_sizes(model: Sizes) -> None:
    for name in ("dim", "layers", "heads", "ffn"):
        _must(getattr(model, name) >= 1, f"model.{name} must be at least 1, not {getattr(model, name)}")
    _must(model.dim % model.heads == 0, f"model.dim {model.dim} is not a multiple of model.heads {model.heads}")
    _must(model.positions >= 8, f"model.positions must be at least 8, not {model.positions}")
    _must(model.norm in ("post", "pre"), f"model.norm must be post or pre, not {model.norm!r}")
    _must(model.gelu in ("erf", "tanh"), f"model.gelu must be erf or tanh, not {model.gelu!r}")
    _must(0 < model.layer_norm_eps < 1, f"model.layer_norm_eps must be between 0 and 1, not {model.layer_norm_eps}")


_CHOICES = {
    "objective": OBJECTIVES,
    "optimizer": ("adam", "muon"),
    "schedule": ("inverse-sqrt", "constant"),
    "precision": ("auto", "float32", "bf16"),
}
_LEAST = {
    "steps": 1, "tokens": 1, "accumulate": 1, "validate": 1, "sentences": 0, "warmup": 0, "cooldown": 0,
    "bleu_sentences": 0, "learning_rate": 0, "weight_decay": 0, "save_minutes": 0, "seed": 0,
}  # fmt: skip
_SHARES = ("dropout", "attention_dropout", "label_smoothing", "average")  # 0 ≤ x < 1


def _check_stage(stage: Stage, where: str) -> None:
    for name, allowed in _CHOICES.items():
        value = getattr(stage, name)
        _must(value in allowed, f"{where}: {name} must be one of {', '.join(allowed)}, not {value!r}")
    for name, least in _LEAST.items():  # and not NaN, nor without end
        value = getattr(stage, name)
        _must(least <= value < 2**62, f"{where}: {name} must be at least {least}, not {value}")
    for name in _SHARES:
        _must(0 <= getattr(stage, name) < 1, f"{where}: {name} must be from 0 to below 1, not {getattr(stage, name)}")
    _must(0 < stage.clip < math.inf, f"{where}: clip must be above 0, not {stage.clip}")
    _must(len(stage.betas) == 2, f"{where}: betas are two numbers")
    _must(all(0 <= beta < 1 for beta in stage.betas), f"{where}: betas must be from 0 to below 1, not {stage.betas}")
    _must(not (stage.target and stage.back), f"{where}: give target or back, not both")
    single = (stage.target or stage.back) and stage.objective == "masked-lm"
    _must(not single, f"{where}: masked-lm learns from single sentences; target and back are pairs")
    _must(0 <= stage.mask_low <= stage.mask_high <= 1, f"{where}: masks need 0 ≤ mask_low ≤ mask_high ≤ 1")
