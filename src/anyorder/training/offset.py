"""The blank's offset: how much its logit is lowered, chosen on validation sentences once a model is trained.

A loss over alignments is content with texts a little short; a constant taken off one logit mends most of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from anyorder.models.folder import TRAINED, ModelFolder, save_model
from anyorder.training.checkpoint import write_atomically

OFFSETS = (0.0, 0.25, 0.5, 0.75, 1.0)
NAME = "blank_offset"  # in training.json


def choose_offset(folder: ModelFolder, validate: Callable[[Any], dict[str, float]]) -> float:
    """Lower the blank of the model in `folder` by what gives the highest mean BLEU; once, which its story tells."""
    story = folder.story or {}
    if NAME in story:
        return float(story[NAME])
    model = folder.model()
    bias, blank = model.decoder.proj_bias, model.special.blank
    own, found = bias[blank].clone(), {}
    for offset in OFFSETS:
        with torch.no_grad():
            bias[blank] = own - offset
        scores = validate(model)
        found[offset] = sum(scores.values()) / len(scores)
    best = max(found, key=lambda offset: found[offset])
    with torch.no_grad():
        bias[blank] = own - best
    save_model(model, folder.path)
    told = {**story, NAME: best, "bleu_by_offset": {str(o): round(b, 2) for o, b in found.items()}}
    write_atomically(folder.path / TRAINED, json.dumps(told, indent=1).encode() + b"\n")
    return best
