"""What the types of a configuration's settings do not say: ranges, choices, and what goes together."""

from __future__ import annotations

import math

from anyorder.files import plain_name
from anyorder.training.config import Config, ConfigError, Distillation, ParallelText, Sizes, Stage

LEAST_VOCABULARY = 261  # special symbols and bytes
ENGINES = ("anyorder", "ctranslate2")  # of distillation
OBJECTIVES = ("masked-lm", "masked-translation", "autoregressive", "cmlm", "alignment")


def check(config: Config) -> None:
    """Raises ConfigError for the first setting that can not be."""
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
    _must(not (config.tokenizer.file and config.tokenizer.model), "tokenizer: give file or model, not both")
    if not (config.tokenizer.file or config.tokenizer.model):
        size = config.tokenizer.vocabulary
        _must(size > LEAST_VOCABULARY, f"tokenizer.vocabulary must be above {LEAST_VOCABULARY} symbols, not {size}")
    _check_sizes(config.model)
    _must(config.most_memory > 0, f"most_memory must be above 0, not {config.most_memory}")
    needed = _gigabytes(config)
    _must(
        needed <= config.most_memory,
        f"model: weights, gradients and optimizer would take about {needed:,.0f} GB, and at most "
        f"{config.most_memory:g} GB are allowed: make it smaller, or raise most_memory",
    )
    _must(config.stages, "no [[stages]]: there is nothing to train")
    seen: set[str] = set()
    for i, stage in enumerate(config.stages):
        where = f"stages[{i}] ({stage.name})"
        own = stage.name not in seen and plain_name(stage.name)
        _must(own, f"{where}: every stage needs a name of its own, without slashes")
        _must(stage.name not in config.distill, f"{where}: [distill] has that name too")
        _check_stage(stage, where)
        contained = stage.forwards == 0 or config.model.forwards
        _must(
            contained, f"{where}: forwards needs a model that contains an autoregressive one: [model] forwards = true"
        )
        ways = ["-".join(data.languages), "-".join(reversed(data.languages))]
        _must(
            stage.direction in ("", *ways),
            f"{where}: direction must be {ways[0]}, {ways[1]} or left out, not {stage.direction!r}",
        )
        aligned = (stage.objective == "alignment") == bool(config.model.slots)
        _must(aligned, f"{where}: the objective alignment and [model] slots, as in slots = [2, 2], go together")
        seen.add(stage.name)
    for name, one in config.distill.items():
        _check_distillation(one, f"distill.{name}", name)


def _check_distillation(one: Distillation, where: str, name: str) -> None:
    _must(plain_name(name), f"{where}: every distillation needs a name of its own, without slashes")
    for setting, least in (("beam", 1), ("best_of", 1), ("pairs", 0), ("limit", 0)):
        value = getattr(one, setting)
        _must(least <= value < 2**62, f"{where}: {setting} must be at least {least}, not {value}")
    _must(one.engine in ENGINES, f"{where}: engine must be one of {', '.join(ENGINES)}, not {one.engine!r}")
    few = one.engine == "ctranslate2" and one.best_of > one.beam
    _must(not few, f"{where}: a beam of {one.beam} has no {one.best_of} candidates: raise beam")


def _must(right: object, message: str) -> None:
    if not right:
        raise ConfigError(message)


def _check_corpus(corpus: ParallelText, where: str) -> None:
    given = [bool(corpus.files), bool(corpus.tsv), bool(corpus.hub), bool(corpus.copy)]
    _must(sum(given) == 1, f"{where}: give one of files, tsv, hub and copy")
    _must(not corpus.files or len(corpus.files) == 2, f"{where}: files must be two, one a language, not {corpus.files}")
    _must(corpus.copy >= 0, f"{where}: copy is a number of pairs, not {corpus.copy}")
    _must(corpus.repeat >= 1, f"{where}: repeat must be at least 1, not {corpus.repeat}")


def _check_sizes(model: Sizes) -> None:
    for name in ("dim", "layers", "heads", "ffn"):
        _must(getattr(model, name) >= 1, f"model.{name} must be at least 1, not {getattr(model, name)}")
    _must(model.decoder_layers >= 0, f"model.decoder_layers must be at least 0, not {model.decoder_layers}")
    _must(model.dim % model.heads == 0, f"model.dim {model.dim} is not a multiple of model.heads {model.heads}")
    _must(model.positions >= 8, f"model.positions must be at least 8, not {model.positions}")
    each, more = model.slots if len(model.slots) == 2 else (1, 0) if not model.slots else (0, 0)
    right = each >= 1 and more >= 0 and model.positions - 2 - more >= each
    _must(right, f"model.slots are two numbers, slots for each source symbol and more, not {model.slots}")
    _must(model.norm in ("post", "pre"), f"model.norm must be post or pre, not {model.norm!r}")
    _must(model.gelu in ("erf", "tanh"), f"model.gelu must be erf or tanh, not {model.gelu!r}")
    _must(0 < model.layer_norm_eps < 1, f"model.layer_norm_eps must be between 0 and 1, not {model.layer_norm_eps}")


def _gigabytes(config: Config) -> float:
    """What a model takes in training: 20 bytes a parameter (weights, their mean, gradients, two of the optimizer)."""
    m = config.model
    layers = (m.layers + (m.decoder_layers or m.layers)) * m.dim * (4 * m.dim + 2 * m.ffn)
    return 20 * (layers + (config.tokenizer.vocabulary + m.positions) * m.dim) / 1e9


_CHOICES = {
    "objective": OBJECTIVES,
    "optimizer": ("adam", "muon"),
    "schedule": ("inverse-sqrt", "constant"),
    "precision": ("auto", "float32", "bf16"),
}
_LEAST = {
    "steps": 1, "tokens": 1, "accumulate": 1, "validate": 1, "copies": 1, "sentences": 0, "warmup": 0, "cooldown": 0,
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
    directed = stage.direction and stage.objective == "masked-lm"
    _must(not directed, f"{where}: masked-lm learns from single sentences, which have no direction")
    _must(0 <= stage.mask_low <= stage.mask_high <= 1, f"{where}: masks need 0 ≤ mask_low ≤ mask_high ≤ 1")
    aligned = stage.objective == "alignment"
    plain = (stage.copies, 0.0 if aligned else stage.own, stage.forwards) == (1, 0.0, 0.0)
    cmlm = f"{where}: copies, own and forwards are settings of cmlm, where the source is encoded apart"
    _must(stage.objective == "cmlm" or plain, cmlm)
    for name in ("own", "forwards"):
        value = getattr(stage, name)
        _must(0 <= value <= 1, f"{where}: {name} is a share, between 0 and 1, not {value!r}")
    smooth = f"{where}: a sum over alignments has no label_smoothing: set it to 0"
    _must(not (aligned and stage.label_smoothing), smooth)
    few = len(stage.shortlist) in (0, 2) and all(n >= 1 for n in stage.shortlist)
    _must(few, f"{where}: shortlist is two numbers, frequent symbols and random ones, not {stage.shortlist}")
    _must(aligned or not stage.shortlist, f"{where}: shortlist is a setting of the objective alignment")
    shown = stage.own == 0 or stage.copies >= 2 or aligned
    _must(shown, f"{where}: own symbols are shown from the second copy on: copies must be at least 2")
