"""Scores: which Y to return. Path log p(G|X) is in the results; here are the others, and `best`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from anyorder.core.cost import Cost
from anyorder.core.decode import decode
from anyorder.core.decoder import Decoder
from anyorder.core.devices import inference
from anyorder.core.edit import Replace
from anyorder.core.look import Reader
from anyorder.core.model import Model
from anyorder.core.noise import BEGIN, EXPLORE, JUDGE, combine, uniform
from anyorder.core.settings import whole_number
from anyorder.core.state import State
from anyorder.core.step import Step
from anyorder.core.symbols import Symbols

Normalise = Literal["sum", "mean"]


def token_scores(model: Model, context: Any, state: State, *, masked: bool, cost: Cost | None = None) -> Tensor:
    """log p of each open symbol in place (N, L), 0 elsewhere.

    masked=True conditions every position on all the others, itself masked (folded into rows, in chunks); False is
    one pass over the canvas as it is, which for a causal model is its own log-likelihood.
    """
    reader = Reader(model, Symbols(), Cost() if cost is None else cost)
    conditionals: Literal["masked", "visible"] = "masked" if masked else "visible"
    with inference(state.tokens.device):
        view = reader.look(context, state, state.open, reads=frozenset({"current"}), conditionals=conditionals)
    assert view.current is not None
    return view.current


def pll(model: Model, context: Any, state: State, cost: Cost | None = None) -> Tensor:
    """Pseudo log-likelihood Σ_i log p(y_i | y_≠i, X) over the open positions: (N,)."""
    return token_scores(model, context, state, masked=True, cost=cost).sum(-1)


def log_likelihood(model: Model, context: Any, state: State, cost: Cost | None = None) -> Tensor:
    """Σ_i log p(y_i | y_<i, X) of a causal model, in one pass: (N,). Include <eos> in the canvas to count it."""
    return token_scores(model, context, state, masked=False, cost=cost).sum(-1)


def check_marginal(decoder: Decoder) -> None:
    """Raises ValueError where a decoder's paths do not sum to a p(Y|X) that forced paths estimate."""
    if not decoder.coordinates.among.blank or type(decoder.edit) is not Replace or decoder.symbols.may_mask:
        raise ValueError(
            "log p(Y|X) sums over paths that write every position once; this decoder goes back to written positions "
            "(or may leave some), so other symbols could have stood there in between: use a decoder among the masked "
            "positions"
        )
    if "logp" in decoder.coordinates.reads:
        raise ValueError("coordinates chosen by the proposed symbol's log p would be chosen by Y: use another order")


def marginal(
    model: Model, context: Any, state: State, decoder: Decoder, samples: int, cost: Cost | None = None
) -> Tensor:
    """Monte Carlo log p(Y|X) of written canvases over `samples` generation paths each: (N,).

    Z is drawn from the decoder's coordinates while the symbols are forced to Y, so that
    E_Z[∏_t p(y_{z_t} | Y^{t}, X)] = Σ_Z ∏_t p(z_t | Y^t)·p(y_{z_t} | Y^t, X) = p(Y|X).
    """
    whole_number("samples of a Monte Carlo estimate", samples)
    check_marginal(decoder)
    n = len(state.tokens)
    rows = torch.arange(n, device=state.tokens.device).repeat_interleave(samples)
    many = state.take(rows)
    draw = torch.arange(len(rows), device=rows.device) % samples
    forced = torch.where(many.open, many.tokens, -1)
    allowed = decoder.symbols.allowed
    allowed = allowed[many.row] if allowed is not None and allowed.dim() == 3 else allowed
    symbols = replace(decoder.symbols, forced=forced, allowed=allowed, temperature=0.0)
    blank = replace(
        many,
        tokens=many.tokens.masked_fill(many.open, many.mask_id),
        logp=torch.zeros_like(many.logp),
        step=torch.zeros_like(many.step),
        memory={},
        view=None,
        score=torch.zeros_like(many.score),
        seed=combine(many.seed, draw, JUDGE),  # other paths than the one that Y may have come by
        row=torch.arange(len(rows), device=rows.device),
    )

    def check(step: Step) -> None:
        if step.judged is not None:
            c = decoder.coordinates
            c.check_says(step.before, step.judged, decoder.candidates(step.before), of_y=False)

    result = decode(model, context.take(rows), blank, replace(decoder, symbols=symbols), watch=check)
    if cost is not None:
        cost.add(result.cost)
    log_path = result.logp.sum(-1).view(n, samples)
    return log_path.logsumexp(-1) - math.log(samples)


def any_order_bound(
    model: Model, context: Any, state: State, samples: int, cost: Cost | None = None
) -> tuple[Tensor, Tensor]:
    """A lower bound of log p(Y|X) of written canvases, Monte Carlo over orders, and its standard error: (N,) each.

    E_σ Σ_t log p(y_σt | y_σ<t, X) = L·E_k E_{|M|=k} 1/k Σ_{i∈M} log p(y_i | Y∖M, X), the NELBO of masked diffusion with
    its sign turned. Numbers of masks k are stratified over 1 … L; draws come in antithetic pairs, the masks M of an
    order with k left, and those of the same order reversed with L + 1 − k.
    """
    whole_number("samples of a Monte Carlo estimate", samples, 2)
    pairs, n = samples // 2, len(state.tokens)
    draw = torch.arange(2 * pairs, device=state.tokens.device).repeat(n)
    rows = torch.arange(n, device=draw.device).repeat_interleave(2 * pairs)
    pair, turned = draw // 2, draw % 2 == 1
    length = state.length[rows]
    key = combine(state.seed[rows], pair, JUDGE)
    k = 1 + ((pair + uniform(key, BEGIN)) / pairs * length).long().clamp_max(length - 1)
    order = uniform(key[:, None], range(state.tokens.shape[1]), EXPLORE).masked_fill(~state.open[rows], torch.inf)
    rank = order.argsort(-1).argsort(-1)  # (M, L) of open positions 0 … L − 1
    size = torch.where(turned, length + 1 - k, k)
    hidden = torch.where(turned[:, None], rank >= (length - size)[:, None], rank < size[:, None]) & state.open[rows]
    many = state.take(rows).but(memory={}, view=None, row=torch.arange(len(rows), device=rows.device))
    symbols = Symbols(forced=torch.where(many.open, many.tokens, -1))
    blank = symbols.start(many.but(tokens=many.tokens.masked_fill(hidden, many.mask_id)))
    reader = Reader(model, symbols, Cost() if cost is None else cost)
    with torch.inference_mode():
        logp = reader.look(context.take(rows), blank, hidden).logp
    value = (torch.where(hidden, logp, 0.0).sum(-1) * length / size).view(n, pairs, 2).mean(-1)
    error = value.std(-1) / pairs**0.5 if pairs > 1 else torch.full_like(value[:, 0], torch.nan)
    return value.mean(-1), error


def best(scores: Tensor, lengths: Tensor, *, normalise: Normalise = "mean", penalty: float | None = None) -> Tensor:
    """The index (B,) of the best of C candidates, from scores and lengths (B, C).

    normalise="mean" divides by the length, "sum" compares as they are; `penalty` α divides by L^α instead.
    """
    exponent = penalty if penalty is not None else (1.0 if normalise == "mean" else 0.0)
    return (scores / lengths.clamp_min(1).to(scores.dtype) ** exponent).argmax(-1)
