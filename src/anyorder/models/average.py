"""The mean of models' weights: one model that costs as much as one, between those that it is made of.

Models that grew out of each other lie in one valley of the loss, and the mean of two such models is often better than
either (checkpoint averaging; model soups, Wortsman et al. 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyorder.errors import ModelError
from anyorder.files import whole_folder
from anyorder.models.folder import LENGTHS, ModelFolder
from anyorder.models.weights import own_weights, set_weights


def average(folders: Sequence[ModelFolder], out: str | Path, half: bool = False) -> None:
    """Write a new folder with the mean of these models; one that is given twice counts twice.

    The first says what kind of model it is: its vocabulary, its length counts, and weights that the others have not (a
    masked model's length predictor). Learned orders belong to the hidden states of one model and do not come along.
    """
    apart = {folder.path.resolve(): folder for folder in folders}
    if len(apart) < 2:
        raise ModelError("a mean is of two models or more")
    first, loaded = folders[0], {path: _checked(folder) for path, folder in apart.items()}
    models = [loaded[folder.path.resolve()] for folder in folders]
    weights = [own_weights(model) for model in models]
    tokenizer = first.tokenizer()
    for folder, model, theirs in zip(folders[1:], models[1:], weights[1:], strict=True):
        if folder.tokenizer().fingerprint != tokenizer.fingerprint:
            raise ModelError(f"{folder.name} has another vocabulary than {first.name}: their mean would be no model")
        if (model.languages, model.special) != (models[0].languages, models[0].special):
            raise ModelError(f"{folder.name} has other languages or special symbols than {first.name}")
        _check_shapes(first.name, weights[0], folder.name, theirs)
    stories = [folder.story or {} for folder in folders]
    directions = {(story.get("stage") or {}).get("direction") or "" for story in stories}
    if len(directions) > 1:
        raise ModelError("some of these models translate in one direction only, others do not: they have no mean")
    mean = {}
    for name, own in weights[0].items():
        each = [w[name] for w in weights if name in w]
        mean[name] = sum(each[1:], own.clone()) / len(each)
    set_weights(models[0], mean)
    story = {
        "mean_of": [folder.name for folder in folders],
        "distilled": any(story.get("distilled") for story in stories),
        "stage": {"direction": directions.pop()},
    }
    with whole_folder(out) as new:
        ModelFolder(new).save(models[0], half=half, tokenizer=tokenizer, story=story)
        if (first.path / LENGTHS).exists():
            (new / LENGTHS).write_bytes((first.path / LENGTHS).read_bytes())


def _checked(folder: ModelFolder) -> Any:
    if not folder.ours:
        raise ModelError(f"{folder.path} is no model of anyorder: a mean is made of our own model folders")
    return folder.model()


def _check_shapes(first: str, mine: dict[str, Any], second: str, theirs: dict[str, Any]) -> None:
    """Refuse weights that are not the same layers: one model may have more of them, not each some of its own."""
    if mine.keys() - theirs.keys() and theirs.keys() - mine.keys():
        odd = sorted(mine.keys() ^ theirs.keys())[0]
        raise ModelError(f"{first} and {second} are made of different layers ({odd!r} is in one of them only)")
    for name in mine.keys() & theirs.keys():
        if mine[name].shape != theirs[name].shape:
            shapes = " and ".join(str(tuple(w[name].shape)) for w in (mine, theirs))
            raise ModelError(f"{first} and {second} are of different sizes ({name!r} is {shapes})")
