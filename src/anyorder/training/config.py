"""A training run as a TOML file: every section a dataclass, every mistake in it told with its place."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from anyorder.errors import AnyorderError, near
from anyorder.models.architecture import Architecture


class ConfigError(AnyorderError):
    """A configuration that cannot be used: what is wrong, where, and what to do."""


@dataclass(frozen=True)
class ParallelText:
    """Parallel text: two files, one TSV file, a dataset of the Hugging Face hub, or made-up sequences to copy."""

    files: list[str] = field(default_factory=list)  # [first language, second language]
    tsv: str = ""
    hub: str = ""  # the dataset's name …
    hub_config: str = ""
    split: str = "train"  # … and which part of it
    copy: int = 0  # that many made-up pairs, the second side a copy of the first …
    seed: int = 0  # … drawn with this seed
    repeat: int = 1  # that many times per epoch


@dataclass(frozen=True)
class Data:
    """What is trained on. Paths are relative to `root`."""

    train: list[ParallelText]
    valid: list[ParallelText]
    languages: list[str]
    root: str = "."
    monolingual: dict[str, list[str]] = field(default_factory=dict)  # language → files
    longest: int = 1000  # characters; longer lines are skipped


@dataclass(frozen=True)
class Tokens:
    """The joint subword vocabulary."""

    vocabulary: int = 8000
    moses: bool = False  # the paper's Moses tokenisation before BPE; false: lossless on raw text
    file: str = ""  # a tokenizer.json to use instead of training one …
    model: str = ""  # … or a model, shipped or a folder, whose vocabulary is used


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
    decoder_layers: int = 0  # of models with an encoder and a decoder; 0: as many as `layers`
    forwards: bool = False  # cmlm: an autoregressive model is contained in it, behind a written beginning
    slots: list[int] = field(default_factory=list)  # alignment: [a, b], a canvas has a·n + b slots for n source symbols

    @property
    def room(self) -> int:
        """Symbols that a source or a target may have."""
        return Architecture(0, **asdict(self)).room


@dataclass(frozen=True)
class Stage:
    """One objective, from where it starts to how it is optimised."""

    name: str
    objective: str  # masked-lm | masked-translation | autoregressive | cmlm | alignment
    steps: int  # updates
    direction: str = ""  # "de-en": pairs are learnt in this direction alone, as the paper's baselines are; empty: both
    start: str = ""  # a finished stage's name, or a model folder: its weights are where this one starts
    target: str = ""  # one of [distill], or a folder that `anyorder distill` wrote: its pairs instead of the data's
    back: str = ""  # such a folder, turned round beside the data's pairs: a model's sources of people's targets
    tokens: int = 4096  # tokens per batch and process, padding included …
    sentences: int = 0  # … or at most that many sentences; 0: no such limit
    accumulate: int = 1  # batches added up for one update
    optimizer: str = "adam"  # adam | muon (matrices by Muon, the rest by Adam)
    learning_rate: float = 1e-3  # at its highest
    warmup: int = 500  # updates up to there; after that it falls as 1/sqrt(update) …
    schedule: str = "inverse-sqrt"  # … or stays: inverse-sqrt | constant
    cooldown: int = 0  # and over that many updates at the end goes to 0 in a line
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
    copies: int = 1  # cmlm: masked copies of a target for each time its source is encoded …
    own: float = 0.0  # … of the second and later ones, the share that shows the model's own symbols (and alignment)
    forwards: float = (
        0.0  # cmlm with `forwards`: share of sentences that are learned from left to right too, up to </s>
    )
    shortlist: list[int] = field(default_factory=list)  # alignment: [f, r], an update's output layer has the f most
    # frequent symbols, those of its batch and r random ones; empty: all
    average: float = 0.999  # decay of the weights' moving average, which is what is validated and kept
    precision: str = "auto"  # auto (bf16 where the hardware has it) | float32 | bf16
    validate: int = 500  # updates between validations
    bleu_sentences: int = 200  # translated at each validation; 0: judge by the loss alone
    save_minutes: float = 3.0  # between checkpoints
    seed: int = 1


@dataclass(frozen=True)
class Distillation:
    """Which sentences are translated, by whom and how."""

    teacher: str  # a model folder, a shipped model, or a stage of the same configuration
    beam: int = 1  # of an autoregressive teacher
    best_of: int = 1  # of that many candidates the one nearest to people's translation, where there is one
    pairs: int = 0  # sentences per direction that have a translation, the first ones; 0: all
    limit: int = 0  # sentences per direction, those with a translation first; 0: all
    monolingual: bool = False  # the configuration's monolingual texts too
    engine: str = "anyorder"  # anyorder | ctranslate2 (autoregressive teachers; needs the extra [bench])


@dataclass(frozen=True)
class Config:
    """A whole run: data, vocabulary, model, and the stages in order."""

    name: str
    data: Data
    tokenizer: Tokens
    model: Sizes
    stages: list[Stage]
    distill: dict[str, Distillation] = field(default_factory=dict)  # written before a stage that names one begins
    most_memory: float = 64.0  # gigabytes that weights and optimizer may take: a larger model is refused


def load_config(path: Path | str) -> Config:
    """Read and check a TOML file."""
    from anyorder.training.config_checks import check

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
        check(config)
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
            hint = near(odd[0], hints).strip() or f"there are {', '.join(hints)}"
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
