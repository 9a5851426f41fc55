"""Translate token ids in bulk: what validation BLEU and distillation need, over the core's decoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from anyorder.core import Decoder, Length, Symbols, UntilEos, beam, begin, best, canvas, decode
from anyorder.data.ragged import Ragged
from anyorder.models.translation import Source
from anyorder.recipes import autoregressive, mask_predict


def translate(
    model: Any,
    sources: Ragged,
    source_lang: int,
    target_lang: int,
    lengths: Length | None = None,  # p(L|X), for masked models that have no length predictor
    steps: int = 10,
    candidates: int = 4,  # lengths tried at once
    beam_size: int = 1,  # of an autoregressive model
    budget: int = 8192,  # tokens in one batch, all candidates together
    progress: Callable[[int], None] = lambda done: None,
) -> list[list[int]]:
    """The translation of each row: mask-predict in a constant number of steps, or autoregressive to </s>."""
    out: list[list[int]] = [[] for _ in range(len(sources))]
    causal = model.kind == "autoregressive"
    for rows in _buckets(sources.lengths, budget // (beam_size if causal else candidates)):
        tokens, source_lengths = sources.padded(rows, model.pad_id)
        context = model.encode(Source(tokens, source_lang, target_lang))
        if causal:
            ids = _autoregressive(model, context, source_lengths, beam_size)
        else:
            ids = _masked(model, context, source_lengths, lengths, steps, candidates)
        for row, translation in zip(rows.tolist(), ids.tolist(), strict=True):
            out[row] = [i for i in translation if i not in (model.pad_id, model.symbols.eos)]
        progress(len(rows))
    return out


def _buckets(lengths: Tensor, budget: int) -> Iterator[Tensor]:
    """Rows of like lengths together, longest first."""
    order = lengths.argsort(descending=True, stable=True)
    while len(order):
        n = max(1, budget // (2 * int(lengths[order[0]]) + 4))
        yield order[:n]
        order = order[n:]


def text_symbols(model: Any, ends: bool) -> Symbols:
    """Greedy choice among symbols of text, and </s> if the target `ends` with one."""
    s = model.symbols
    return Symbols(ban=tuple({s.bos, s.pad, s.unk, s.mask} | (set() if ends else {s.eos})))


def _autoregressive(model: Any, context: Any, source_lengths: Tensor, beam_size: int) -> Tensor:
    longest = min(2 * int(source_lengths.max()) + 10, model.architecture.positions)
    decoder: Decoder = replace(autoregressive(longest, model.symbols.eos), symbols=text_symbols(model, ends=True))
    assert isinstance(decoder.length, UntilEos)
    n = len(source_lengths)
    state = begin(canvas(torch.full((n,), longest), model.mask_id, model.pad_id), model.mask_id, model.pad_id)
    if beam_size == 1:
        return decode(model, context, state, decoder).tokens
    return beam(model, context, state, decoder, beam_size, length_penalty=1.0).tokens[:, 0]


def _masked(model: Any, context: Any, source_lengths: Tensor, p: Length | None, steps: int, n: int) -> Tensor:
    limit = model.architecture.positions - 2
    if p is not None:
        lengths, logp = p.propose(source_lengths, n)
    elif hasattr(model, "log_length"):
        logp, lengths = model.log_length(context)[:, 1:limit].topk(min(n, limit - 1), 1)
        lengths = lengths + 1
    else:
        raise ValueError("a masked model without a length predictor needs length counts")
    lengths = lengths.clamp(max=limit)
    n = lengths.shape[1]
    row = torch.arange(len(lengths)).repeat_interleave(n)
    flat = lengths.flatten()
    state = begin(canvas(flat, model.mask_id, model.pad_id), model.mask_id, model.pad_id, score=logp.flatten())
    decoder = replace(mask_predict(steps), symbols=text_symbols(model, ends=False))
    result = decode(model, context.take(row), state, decoder)
    total = result.logp.sum(1).view(-1, n) + logp  # log p(L|X) + Σ log p(y), of the symbols as last written
    chosen = best(total, lengths)
    return result.tokens.view(len(lengths), n, -1)[torch.arange(len(lengths)), chosen]


def bleu(hypotheses: list[str], references: list[str]) -> float:
    """Corpus BLEU on raw text, sacreBLEU's default."""
    import sacrebleu

    return float(sacrebleu.corpus_bleu(hypotheses, [references]).score)
