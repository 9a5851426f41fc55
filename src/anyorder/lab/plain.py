"""The loops that others write, re-implemented plainly: one row at a time (the paper's code), or full logits and
per-row Python (LLaDA-like samplers). They decode with the same rules as ours, so that outputs must be identical."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.core.order import LEAST
from anyorder.core.symbols import NEVER
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.translation import Source


@dataclass(frozen=True)
class Job:
    """One canvas to fill: a source and a target length."""

    source: list[int]
    length: int


def _context(model: Any, jobs: Sequence[Job], direction: tuple[int, int]) -> Any:
    width = max(len(j.source) for j in jobs)
    rows = [j.source + [model.pad_id] * (width - len(j.source)) for j in jobs]
    return model.encode(Source(torch.tensor(rows), *direction))


def _blank(model: Any, jobs: Sequence[Job]) -> Tensor:
    width = max(j.length for j in jobs)
    rows = [[model.mask_id] * j.length + [model.pad_id] * (width - j.length) for j in jobs]
    return torch.tensor(rows)


def _hidden(model: Any, context: Any, tokens: Tensor) -> Tensor:
    """The target's states, (N, L, D), from a pass that computes every column: of a joint model the source's too."""
    if not isinstance(model, MaskedTranslation):
        states: Tensor = model.hidden(context, tokens)
        return states
    start = context.embedded.shape[1] + 1
    return model.states(context, tokens)[:, start : start + tokens.shape[1]]


def _features(model: Any, logits: Tensor, tokens: Tensor, ban: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Full logits (…, V) → allowed log p (…, V), entropy (…), log p of the symbols in place (…)."""
    current = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    allowed = logits.clone()
    allowed[..., list(ban)] = NEVER
    logp = allowed.log_softmax(-1)
    return logp, -(logp.exp() * logp).sum(-1), current


@torch.inference_mode()
def paper_easy_first(
    model: Any, jobs: Sequence[Job], direction: tuple[int, int], ban: Sequence[int]
) -> list[list[int]]:
    """One sentence and one length at a time; two full passes per step: one for the position, one for its symbol."""
    out = []
    for job in jobs:
        context, tokens = _context(model, [job], direction), _blank(model, [job])
        for _ in range(job.length):
            _, entropy, current = _features(model, model.logits(_hidden(model, context, tokens)[0]), tokens[0], ban)
            want = -entropy - current.clamp_min(LEAST)
            i = int(want.masked_fill(tokens[0] != model.mask_id, -torch.inf).argmax())
            hidden = tokens.clone()
            hidden[0, i] = model.mask_id
            logp, _, _ = _features(model, model.logits(_hidden(model, context, hidden)[0]), hidden[0], ban)
            tokens[0, i] = logp[i].argmax()
        out.append(tokens[0].tolist())
    return out


@torch.inference_mode()
def paper_annealed(
    model: Any, jobs: Sequence[Job], direction: tuple[int, int], ban: Sequence[int], steps: int
) -> list[list[int]]:
    """o_t from L to 1, least2most: one sentence and one length at a time, the full vocabulary at every position."""
    out = []
    for job in jobs:
        context, tokens = _context(model, [job], direction), _blank(model, [job])
        chosen, unlikely = torch.arange(job.length), torch.zeros(job.length)
        for t in range(steps):
            if t:
                k = max(1, job.length * (steps - t) // steps)
                chosen = unlikely.argsort(descending=True, stable=True)[:k]
                tokens[0, chosen] = model.mask_id
            logp, _, current = _features(model, model.logits(_hidden(model, context, tokens)[0]), tokens[0], ban)
            best = logp.max(-1)
            tokens[0, chosen] = best.indices[chosen]
            unlikely = -current.index_copy(0, chosen, best.values[chosen]).clamp_min(LEAST)
        out.append(tokens[0].tolist())
    return out


@torch.inference_mode()
def paper_beam(
    model: Any, jobs: Sequence[Job], direction: tuple[int, int], ban: Sequence[int], K: int
) -> list[list[int]]:
    """Easy-first beam search, one sentence and one length at a time, two full passes per step."""
    out = []
    for job in jobs:
        context = _context(model, [job], direction).take(torch.zeros(K, dtype=torch.int64))
        beams, scores = [_blank(model, [job])[0].tolist()], [0.0]
        for _ in range(job.length):
            tokens = torch.tensor(beams)
            here = context.take(torch.arange(len(beams)))
            _, entropy, current = _features(model, model.logits(_hidden(model, here, tokens)), tokens, ban)
            want = (-entropy - current.clamp_min(LEAST)).masked_fill(tokens != model.mask_id, -torch.inf)
            where = want.argmax(-1)
            logp, _, _ = _features(model, model.logits(_hidden(model, here, tokens)), tokens, ban)
            found: dict[tuple[int, ...], float] = {}
            for b, beam in enumerate(beams):
                best = logp[b, where[b]].topk(K)
                for value, symbol in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                    new = beam.copy()
                    new[int(where[b])] = symbol
                    score = scores[b] + value
                    if score > found.get(tuple(new), -torch.inf):
                        found[tuple(new)] = score
            ranked = sorted(found.items(), key=lambda item: -item[1])[:K]
            beams, scores = [list(new) for new, _ in ranked], [score for _, score in ranked]
        out.append(beams[0])
    return out


@torch.inference_mode()
def full_logits_easy_first(
    model: Any, jobs: Sequence[Job], direction: tuple[int, int], ban: Sequence[int]
) -> list[list[int]]:
    """A LLaDA-style loop: the whole batch, full logits at all positions, the position of each row chosen in Python."""
    context, tokens = _context(model, jobs, direction), _blank(model, jobs)
    for _ in range(max(job.length for job in jobs)):
        logp, entropy, current = _features(model, model.logits(_hidden(model, context, tokens)), tokens, ban)
        want = -entropy - current.clamp_min(LEAST)
        for n in range(len(jobs)):
            masked = tokens[n] == model.mask_id
            if bool(masked.any()):
                i = want[n].masked_fill(~masked, -torch.inf).topk(1).indices
                tokens[n, i] = logp[n, i].argmax(-1)
    return [row[: job.length] for row, job in zip(tokens.tolist(), jobs, strict=True)]


@torch.inference_mode()
def full_logits_annealed(
    model: Any, jobs: Sequence[Job], direction: tuple[int, int], ban: Sequence[int], steps: int
) -> list[list[int]]:
    """The same loop for o_t from L to 1, least2most."""
    context, tokens = _context(model, jobs, direction), _blank(model, jobs)
    chosen = [torch.arange(job.length) for job in jobs]
    unlikely: list[Tensor] = []
    for t in range(steps):
        if t:
            for n, job in enumerate(jobs):
                k = max(1, job.length * (steps - t) // steps)
                chosen[n] = unlikely[n][: job.length].argsort(descending=True, stable=True)[:k]
                tokens[n, chosen[n]] = model.mask_id
        logp, _, current = _features(model, model.logits(_hidden(model, context, tokens)), tokens, ban)
        best = logp.max(-1)
        unlikely = []
        for n in range(len(jobs)):
            tokens[n, chosen[n]] = best.indices[n, chosen[n]]
            unlikely.append(-current[n].index_copy(0, chosen[n], best.values[n, chosen[n]]).clamp_min(LEAST))
    return [row[: job.length] for row, job in zip(tokens.tolist(), jobs, strict=True)]
