"""A whole configuration: prepare the data, then each stage in order; finished stages are not repeated."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

import torch

from anyorder.data.ragged import Ragged
from anyorder.data.read import read_tsv
from anyorder.errors import extra
from anyorder.models.architecture import Architecture
from anyorder.models.catalog import found
from anyorder.models.folder import LENGTHS, TOKENIZER, TRAINED, ModelFolder, load_model
from anyorder.models.transformer import grow
from anyorder.models.translation import SpecialIds, length_models
from anyorder.models.weights import classes
from anyorder.training.alignment import AlignmentObjective, fitting
from anyorder.training.checkpoint import TrainingError, of_texts, same_run, write_atomically
from anyorder.training.config import Config, Stage
from anyorder.training.distill import distill
from anyorder.training.masking import Corruption
from anyorder.training.objectives import (
    AutoregressiveObjective,
    ConditionalMaskedObjective,
    Corpus,
    MaskedLMObjective,
    MaskedTranslationObjective,
)
from anyorder.training.offset import choose_offset
from anyorder.training.prepare import (
    Prepared,
    length_counts,
    one_way,
    prepare,
    read_distilled,
    with_back_translations,
)
from anyorder.training.trainer import BEST, Trainer
from anyorder.training.validation import Scorer

OBJECTIVES: dict[str, Any] = {
    "masked-lm": MaskedLMObjective,
    "masked-translation": MaskedTranslationObjective,
    "autoregressive": AutoregressiveObjective,
    "cmlm": ConditionalMaskedObjective,
    "alignment": AlignmentObjective,
}


def train(config: Config, out: Path, only: str | None = None) -> list[Path]:
    """Run the stages (or the one named `only`) under `out`; the model folder of each."""
    names = [stage.name for stage in config.stages]
    if only is not None and only not in names:
        raise TrainingError(f"no stage {only!r}: the configuration has {', '.join(names)}")
    prepared = _prepare(config, out)
    if _process().is_main_process:
        write_atomically(out / "config.json", json.dumps(asdict(config), indent=1).encode())
    folders = []
    for stage in config.stages:
        if only in (None, stage.name):
            folders.append(run_stage(config, stage, prepared, out))
    return folders


def _prepare(config: Config, out: Path) -> Prepared:
    """The main process prepares; the others then find its files."""
    state = _process()
    longest = config.model.room

    def say(line: str) -> None:
        if state.is_main_process:
            print(line, file=sys.stderr)

    from rich.console import Console

    spinner = Console(stderr=True, quiet=not state.is_main_process).status("reading and tokenising")
    with state.main_process_first(), spinner:
        return prepare(config, out, say, longest)


def _process() -> Any:
    """This process among the processes that train together."""
    with extra("train"):
        from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available())


def run_stage(config: Config, stage: Stage, prepared: Prepared, out: Path) -> Path:
    """Train one stage; its best model's folder."""
    folder = out / stage.name
    model = build(config, stage, prepared, out)
    corruption = Corruption(
        low=stage.mask_low,
        high=stage.mask_high,
        per_batch=stage.mask_per_batch,
        bert=stage.mask_bert,
        copies=stage.copies,
        own=stage.own,
        forwards=stage.forwards,
    )
    train, valid, room = prepared.train, prepared.valid, config.model.room
    lengths = out / LENGTHS
    if stage.target:  # a model's own translations are shorter or longer than people's, and their lengths too are learnt
        train = read_distilled(_distilled(config, stage.target, out), prepared.tokenizer, config, room)
        lengths = folder / LENGTHS
        folder.mkdir(parents=True, exist_ok=True)
        with _process().main_process_first():
            if _process().is_main_process:
                write_atomically(lengths, json.dumps(length_counts(train, config.data.languages)).encode())
    if stage.back:
        written = read_distilled(_distilled(config, stage.back, out), prepared.tokenizer, config, room)
        train = with_back_translations(prepared.train, written)
    if stage.objective == "masked-lm":
        train, valid = prepared.monolingual, _single(prepared.valid)
    if stage.direction:
        side = config.data.languages.index(stage.direction.split("-")[1])
        train, valid = one_way(train, side), one_way(valid, side)
    more: dict[str, Any] = {}
    if stage.objective == "alignment":
        (train, left), (valid, _) = fitting(model, train), fitting(model, valid)
        if left and _process().is_main_process:
            print(f"{stage.name}: {left} of {len(train) + left} pairs are left out: too few slots", file=sys.stderr)
        more["shortlist"] = stage.shortlist
    objective = OBJECTIVES[stage.objective](model, train, stage.label_smoothing, corruption, **more)
    scored = stage.objective != "masked-lm" and stage.bleu_sentences
    scorer = _scorer(config, stage, prepared, lengths) if scored else None

    def finish(best: Path) -> None:
        shutil.copyfile(out / TOKENIZER, best / TOKENIZER)
        shutil.copyfile(lengths, best / LENGTHS)
        write_atomically(best / TRAINED, json.dumps(trained(config, stage), indent=1).encode() + b"\n")

    identity, settings = _identity(config, stage, out)
    same_run(folder / "stage.json", {**identity, **settings}, free=settings, write=False)
    trainer = Trainer(stage, objective, valid, folder, scorer, finish)
    finished = trainer.position.step >= stage.steps
    same_run(folder / "stage.json", {**identity, **settings}, free=() if finished else settings, write=trainer.main)
    trainer.run()
    if stage.objective == "alignment" and scorer is not None and trainer.main:
        whole = _scorer(config, replace(stage, bleu_sentences=len(prepared.references[0])), prepared, lengths)
        offset = choose_offset(ModelFolder(folder / BEST), whole)
        print(f"{stage.name}: the blank's logit is lowered by {offset:g}", file=sys.stderr)
    return folder / BEST


def _identity(config: Config, stage: Stage, out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What makes a stage what it is, and how it is optimised, which may change as long as there are steps to do."""
    settings = {name: value for name, value in asdict(stage).items() if name not in ("name", "save_minutes")}
    identity = {name: settings.pop(name) for name in ("objective", "start", "target", "back", "seed")}
    if direction := settings.pop("direction"):
        identity["direction"] = direction
    for name in ("target", "back"):
        if identity[name]:
            texts = [read_tsv(path) for path in sorted(_distilled(config, identity[name], out).glob("*.tsv.gz"))]
            identity[f"{name} pairs"] = of_texts(side for t in texts for side in (t.first, t.second))
    return {**identity, "model": asdict(config.model)}, settings


def _scorer(config: Config, stage: Stage, prepared: Prepared, lengths: Path) -> Scorer:
    """Validation BLEU on the first sentences of the validation pairs, with the lengths that the folder will have."""
    counts = length_models(json.loads(lengths.read_text(encoding="utf-8")))
    some = [side[: stage.bleu_sentences] for side in prepared.references]
    return Scorer(prepared.tokenizer, config.data.languages, some, counts, config.model.room, stage.direction)


def trained(config: Config, stage: Stage) -> dict[str, Any]:
    """How a model came to be, for its folder: without paths, which mean nothing elsewhere."""
    settings = {k: v for k, v in asdict(stage).items() if k not in ("start", "target", "back", "save_minutes")}
    origin = {"distilled": bool(stage.target), "back_translated": bool(stage.back)}
    return {"run": config.name, **origin, "stage": settings}


def build(config: Config, stage: Stage, prepared: Prepared, out: Path) -> Any:
    """The stage's model, with fresh weights or the weights that it starts from."""
    torch.manual_seed(stage.seed)
    dropouts = {"dropout": stage.dropout, "attention_dropout": stage.attention_dropout}
    architecture = Architecture(len(prepared.tokenizer), **asdict(config.model), **dropouts)  # type: ignore[arg-type]
    start = _folder_of(config, stage.start, out).path if stage.start else None
    special = SpecialIds() if start is None else load_model(start).special
    model = classes()[stage.objective](architecture, special, tuple(config.data.languages))
    if start is not None:
        begin_from(model, start)
    return model


def _folder_of(config: Config, name: str, out: Path) -> ModelFolder:
    """A model by the name of a stage, of a shipped model, or of its folder."""
    if name in [s.name for s in config.stages]:
        folder = out / name / BEST
        if not folder.exists():
            raise TrainingError(f"stage {name!r} is to be started from, but has not been trained yet")
        return ModelFolder(folder)
    return found(name)


def _distilled(config: Config, name: str, out: Path) -> Path:
    """The folder of a distillation; one that the configuration describes is written now, if it was not yet."""
    if name not in config.distill:
        return Path(name)
    how = config.distill[name]
    with _process().main_process_first():  # the others then find the files
        distill(config, _folder_of(config, how.teacher, out), out / name, how)
    return out / name


def begin_from(model: Any, folder: Path) -> None:
    """Copy what another model has of this one; what it has not (attention between two halves, lengths) stays fresh.

    A model with an encoder and a decoder starts from another such model, its layers more or fewer than ours, or from a
    model in one piece; a model in one piece from another.
    """
    start = load_model(folder)
    ours, theirs = ((*_fixed(m.architecture, model), m.languages) for m in (model, start))
    if ours != theirs:
        raise TrainingError(f"{folder} does not fit: it is {theirs}, this stage is {ours}")
    if type(start) is type(model) and _depth(start) == _depth(model):
        model.load_state_dict(start.state_dict())
        return
    whole = getattr(start, "transformer", None)
    if hasattr(model, "start_from"):
        model.start_from(whole or start.encoder, whole or start.decoder)
    elif whole is None:
        raise TrainingError(f"{folder} is a {start.kind} model: a {model.kind} model cannot start from it")
    else:
        grow(model.transformer, whole)


def _depth(model: Any) -> tuple[int, int]:
    return model.architecture.layers, model.architecture.decoder.layers


def _fixed(a: Architecture, model: Any) -> tuple[Any, ...]:
    """The sizes that a start of `model` must share: all but layers, dropout, and where symbols are read. A canvas of
    slots has positions of its own."""
    positions = 0 if model.architecture.slots else a.positions
    same = replace(a, layers=0, decoder_layers=0, dropout=0.0, attention_dropout=0.0, forwards=False, slots=())
    return astuple(replace(same, positions=positions))


def _single(pairs: Corpus) -> Corpus:
    """Both sides of pairs as single sentences."""
    assert pairs.second is not None
    rows = [[side.row(i) for i in range(len(side))] for side in (pairs.first, pairs.second)]
    return Corpus(Ragged.of(rows[0] + rows[1]), language=torch.tensor([0] * len(rows[0]) + [1] * len(rows[1])))


def export(folder: Path, out: Path, half: bool = True) -> None:
    """A trained model folder as it is shipped: float16, with what belongs to it."""
    ModelFolder(folder).copy_to(ModelFolder(out), half)
