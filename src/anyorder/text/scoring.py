"""What was found becomes hypotheses with scores: of their paths, or of whole texts, however they were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from anyorder import recipes
from anyorder.core import Cost, Symbols, begin, decode, marginal, token_scores
from anyorder.core.devices import inference
from anyorder.core.slots import chain, emissions, states
from anyorder.errors import PlanError
from anyorder.models import prefix_tree
from anyorder.models.prefix_tree import Tree
from anyorder.text.batching import batches, padded
from anyorder.text.plan import WHOLE
from anyorder.text.results import Found, Hypothesis, alive
from anyorder.text.rows import Scored
from anyorder.text.words import FORWARDS

if TYPE_CHECKING:
    from anyorder.text.generator import Generator
    from anyorder.text.plan import Plan
    from anyorder.text.rows import Batch, Whole

AROUND = 4  # symbols that a model may put around a source and a target


def hypotheses(generator: Generator, batch: Batch, found: Found, plan: Plan) -> list[list[Hypothesis]]:
    """What was found on each row of a batch, with the score that the plan chooses by."""
    where = alive(found)
    kept = found.tokens.ne(generator.model.pad_id) if found.read else generator.model.stands(found.tokens)
    numbers = (found.tokens, kept, found.logp, found.score, found.logp.sum(-1))
    tokens, stands, logp, score, sums = (x.tolist() for x in numbers)  # all at once
    # The path of the symbols that still stand; of a text that was read, the mass of its alignments.
    written = plan.rescore in (None, "written") and not (generator.causal or found.read)
    each: list[Hypothesis] = []
    for n, k in where:
        canvas, path = batch.canvases[n], None if found.path is None else found.path(k)
        width, prior = len(canvas.tokens), canvas.log_length
        ids, each_logp = (tuple(compress(x[n][k][:width], stands[n][k])) for x in (tokens, logp))
        worth = plan.worth(prior + sums[n][k] if written else score[n][k], len(ids) + generator.causal)
        each.append(Hypothesis("", ids, (), each_logp, worth, score[n][k], prior, path))
    if plan.rescore in WHOLE or (plan.rescore == "marginal" and generator.model.slotted):
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
    if generator.model.slotted and plan.rescore == "pll":
        raise PlanError(f"{generator.name} gives log p(Y|X) as it is, on its slots: rescore 'marginal', not 'pll'")
    scorer = generator.forwards if plan.rescore == FORWARDS else generator.whole or generator
    if plan.rescore == "ar":
        if generator.beside is None:
            raise PlanError(f"{generator.name} has no autoregressive model beside it to rescore with: give one")
        scorer = generator.beside()
    each = zip(scorer.score(pairs), pairs, strict=True)
    return [plan.worth(score, len(target) + (scorer.causal or scorer.model.slotted)) for score, (_, target) in each]


def log_probs(generator: Generator, wholes: Sequence[Whole]) -> list[Tensor]:
    """log p of each symbol that counts, given all the others (causal: those before it); on the host."""
    if generator.causal:
        whole = in_trees(generator, [(w.source, w.tokens[: w.stop]) for w in wholes])
        return [values[w.start :] for w, values in zip(wholes, whole, strict=True)]
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
        values = token_scores(model, context, state, masked=True, cost=cost).cpu()
        for n, i in enumerate(part):
            out[i] = values[n, counts[n]]
    generator.spend(cost)
    return out


def in_trees(generator: Generator, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Tensor]:
    """log p of each symbol given those before it, of texts by a causal model; what texts of one source share is run
    once, and so is the source."""
    model, cost = generator.model, Cost()
    out: list[Tensor] = [torch.zeros(0) for _ in pairs]
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, (source, _) in enumerate(pairs):
        groups.setdefault(tuple(source), []).append(i)
    whose, sources = list(groups.values()), list(groups)
    trees = [Tree.of([pairs[i][1] for i in some], model.special.eos) for some in whose]
    for part in batches([len(source) + len(tree.symbols) for source, tree in zip(sources, trees, strict=True)]):
        context = generator.encode([sources[n] for n in part])
        texts = [[pairs[i][1] for i in whose[n]] for n in part]
        with inference(generator.device):
            found = prefix_tree.log_probs(model, context, [trees[n] for n in part], texts)
        for n, each in zip(part, found, strict=True):
            for i, values in zip(whose[n], each, strict=True):
                out[i] = values
        cost.add(Cost(1, len(part), sum(len(trees[n].symbols) for n in part)))
    generator.spend(cost)
    return out


def on_slots(generator: Generator, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Scored]:
    """log p(Y | X) of whole texts, summed over their alignments: of each symbol after those before it, then of the end.

    One pass over a blank canvas for each source, however many texts it has. −∞ where the slots are too few.
    """
    model, s, cost = generator.model, generator.model.special, Cost()
    out = [Scored(tuple(target), ()) for _, target in pairs]
    unique = list(dict.fromkeys(tuple(source) for source, _ in pairs))
    whose: dict[tuple[int, ...], list[int]] = {source: [] for source in unique}
    for k, (source, _) in enumerate(pairs):
        whose[tuple(source)].append(k)
    for part in batches([3 * len(source) + AROUND for source in unique]):
        sources = [unique[i] for i in part]
        each = [k for source in sources for k in whose[source]]
        row = torch.tensor([n for n, source in enumerate(sources) for _ in whose[source]], device=generator.device)
        texts = padded([pairs[k][1] for k in each], s.pad).to(row.device)
        banned = torch.tensor(generator.model.special_ids, device=row.device)
        with inference(row.device):
            context = generator.encode(sources)
            slots = model.slots(context.summary)
            inside = torch.arange(int(slots.max()), device=row.device) < slots[:, None]
            hidden = model.hidden(context, torch.where(inside, s.mask, s.pad))  # (N, S, D)
            of = states(texts, texts.ne(s.pad).sum(1), s.blank)
            width, most = hidden.shape[1], of.columns.shape[1]
            logp = hidden.new_empty(len(each), width, most)
            for n in range(len(sources)):
                logits = model.logits(hidden[n]).index_fill(1, banned, -torch.inf)
                mine = (row == n).nonzero()[:, 0]
                known = torch.log_softmax(logits, 1)[:, of.columns[mine].flatten()]  # (S, texts · (M + 1))
                logp[mine] = known.view(width, len(mine), most).transpose(0, 1)
            values = chain(emissions(logp, of), of, slots[row])
        cost.forwards, cost.canvases = cost.forwards + 1, cost.canvases + len(sources)
        cost.head_rows += int(slots.sum())
        for k, found in zip(each, values.tolist(), strict=True):
            out[k] = Scored((*out[k].ids, s.eos), tuple(found[: len(out[k].ids) + 1]))
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


class Written(NamedTuple):
    """A text that is there already, and the order in which it is written again."""

    ids: Sequence[int]
    canvas: Sequence[int]  # mask_id where a symbol of `ids` is written
    order: str  # a strategy
    seed: int


def paths(generator: Generator, items: Sequence[Written]) -> list[float]:
    """Σ log p of the symbols of each text as they are written in its order: the chain rule."""
    model, cost, out = generator.model, Cost(), [0.0] * len(items)
    for order in dict.fromkeys(item.order for item in items):
        mine = [n for n, item in enumerate(items) if item.order == order]
        for part in batches([len(items[n].ids) for n in mine]):
            some = [items[mine[i]] for i in part]
            tokens = padded([item.canvas for item in some], model.pad_id).to(generator.device)
            ids = padded([item.ids for item in some], model.pad_id).to(generator.device)
            written = (tokens == model.mask_id) & (ids != model.mask_id)
            seeds = torch.tensor([item.seed for item in some], device=generator.device)
            state = begin(tokens, model.mask_id, model.pad_id, open=written, seed=seeds)
            symbols = Symbols(forced=torch.where(written, ids, -1), ban=tuple(model.special_ids))
            decoder = replace(recipes.STRATEGIES[order], symbols=symbols)
            found = decode(model, model.encode(None), state, decoder)
            cost.add(found.cost)
            for i, value in zip(part, found.logp.sum(-1).tolist(), strict=True):
                out[mine[i]] = value
    generator.spend(cost)
    return out
