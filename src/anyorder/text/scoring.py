"""What was found becomes hypotheses with scores: of their paths, or of whole texts, however they were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.core import Cost, begin, marginal, token_scores
from anyorder.errors import PlanError
from anyorder.text.batching import batches, padded
from anyorder.text.plan import WHOLE
from anyorder.text.results import Hypothesis
from anyorder.text.search import alive
from anyorder.text.words import FORWARDS

if TYPE_CHECKING:
    from anyorder.text.generator import Generator
    from anyorder.text.plan import Plan
    from anyorder.text.rows import Batch, Whole
    from anyorder.text.search import Found

AROUND = 4  # symbols that a model may put around a source and a target


def hypotheses(generator: Generator, batch: Batch, found: Found, plan: Plan) -> list[list[Hypothesis]]:
    """What was found on each row of a batch, with the score that the plan chooses by."""
    where = alive(found)
    kept = generator.stands(found.tokens)
    numbers = (found.tokens, kept, found.logp, found.score, found.logp.sum(-1))
    tokens, stands, logp, score, sums = (x.tolist() for x in numbers)  # all at once
    written = plan.rescore in (None, "written") and not generator.causal  # the path of the symbols that still stand
    each: list[Hypothesis] = []
    for n, k in where:
        canvas, path = batch.canvases[n], None if found.path is None else found.path(k)
        width, prior = len(canvas.tokens), canvas.log_length
        ids, each_logp = (tuple(compress(x[n][k][:width], stands[n][k])) for x in (tokens, logp))
        worth = plan.worth(prior + sums[n][k] if written else score[n][k], len(ids) + generator.causal)
        each.append(Hypothesis("", ids, (), each_logp, worth, score[n][k], prior, path))
    if plan.rescore in WHOLE:
        pairs = [(batch.sources[n], h.ids) for (n, _), h in zip(where, each, strict=True)]
        each = [replace(h, score=s) for h, s in zip(each, generator.judge(pairs, plan), strict=True)]
    elif plan.rescore == "marginal":
        values = marginals(generator, batch, found, where, plan)
        each = [replace(h, score=plan.worth(s, len(h.ids))) for h, s in zip(each, values, strict=True)]
    out: list[list[Hypothesis]] = [[] for _ in batch.canvases]
    for (n, _), h in zip(where, each, strict=True):
        out[n].append(h)
    return out


def judge(generator: Generator, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], plan: Plan) -> list[float]:
    """log p of whole pairs, by this model ("pll"), a causal one within it ("forwards") or beside it ("ar"), or by the
    mean of these two ("both"): models that were trained apart make other mistakes."""
    if plan.rescore == "both":
        own = judge(generator, pairs, replace(plan, rescore="forwards"))
        beside = judge(generator, pairs, replace(plan, rescore="ar"))
        return [(a + b) / 2 for a, b in zip(own, beside, strict=True)]
    scorer = generator.forwards if plan.rescore == FORWARDS else generator.whole or generator
    if plan.rescore == "ar":
        if generator.beside is None:
            raise PlanError(f"{generator.name} has no autoregressive model beside it to rescore with: give one")
        scorer = generator.beside()
    each = zip(scorer.score(pairs), pairs, strict=True)
    return [plan.worth(score, len(target) + scorer.causal) for score, (_, target) in each]


def log_probs(generator: Generator, wholes: Sequence[Whole]) -> list[Tensor]:
    """log p of each symbol that counts, given all the others (causal: those before it); on the host."""
    model, cost = generator.model, Cost()
    out: list[Tensor] = [torch.zeros(0) for _ in wholes]
    for part in batches([len(w.source) + len(w.tokens) + AROUND for w in wholes]):
        some = [wholes[i] for i in part]
        tokens = padded([w.tokens for w in some], model.pad_id)
        columns = torch.arange(tokens.shape[1])
        span = torch.tensor([(w.start, w.stop) for w in some])
        counts = (columns >= span[:, :1]) & (columns < span[:, 1:])
        unique = {tuple(w.source): None for w in some}
        index = {source: n for n, source in enumerate(unique)}
        source = torch.tensor([index[tuple(w.source)] for w in some], device=generator.device)
        context = generator.encode(list(unique)).take(source)
        state = begin(tokens.to(source.device), model.mask_id, model.pad_id, open=counts.to(source.device))
        values = token_scores(model, context, state, masked=not generator.causal, cost=cost).cpu()
        for n, i in enumerate(part):
            out[i] = values[n, counts[n]]
    generator.spend(cost)
    return out


def marginals(
    generator: Generator, batch: Batch, found: Found, where: Sequence[tuple[int, int]], plan: Plan
) -> list[float]:
    """log p(L|X) + log p(Y|L, X) of hypotheses (row, k), by paths of the plan's decoder that are forced to Y."""
    model, decoder, samples, cost = generator.model, generator.decoder(plan), plan.samples, Cost()
    sizes = [len(batch.canvases[n].tokens) for n, _ in where]
    out = [batch.canvases[n].log_length for n, _ in where]
    widths = [len(batch.sources[n]) + AROUND + size for (n, _), size in zip(where, sizes, strict=True)]
    for part in batches(widths, copies=samples):
        rows = torch.tensor([where[i][0] for i in part], dtype=torch.int64, device=generator.device)
        written = padded([found.tokens[where[i]][: sizes[i]].tolist() for i in part], model.pad_id).to(rows.device)
        may_change = batch.state.open[rows, : written.shape[1]]
        state = begin(written, model.mask_id, model.pad_id, open=may_change, seed=batch.state.seed[rows])
        values = marginal(model, batch.context.take(rows), state, decoder, samples, cost)
        for i, value in zip(part, values.tolist(), strict=True):
            out[i] += value
    generator.spend(cost)
    return out
