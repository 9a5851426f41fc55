"""argmax over G: length-conditioned beam search over K hypotheses × K′ positions × K″ symbols (section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from anyorder.core.cost import Cost
from anyorder.core.count import fixed
from anyorder.core.decoder import Decoder, done
from anyorder.core.devices import inference
from anyorder.core.edit import Replace
from anyorder.core.look import Reader
from anyorder.core.model import Model, without
from anyorder.core.noise import DESCEND, combine, mix
from anyorder.core.settings import whole_number
from anyorder.core.state import State, View


@dataclass(frozen=True, eq=False)
class Held:
    """A context, and the row of it that each of M hypotheses has."""

    context: Any
    row: Tensor  # (M,) int64
    size: int  # rows of the context

    @classmethod
    def all(cls, context: Any, rows: Tensor) -> Held:
        """Each hypothesis has the row in its own place, as `rows` (M,) = 0, 1, 2 … say."""
        return cls(context, rows, len(rows))

    def of(self, hypotheses: Tensor) -> Any:
        """The context of these hypotheses (m,): the one that is held, if they are all of its rows in their order."""
        rows = self.row[hypotheses]
        everything = torch.arange(self.size, device=rows.device)
        return self.context if torch.equal(rows, everything) else self.context.take(rows)


NO = -torch.inf
_PATH = ("path", "path symbol", "path gain")  # where a hypothesis remembers how it was written


@dataclass(frozen=True, eq=False)
class Beam:
    """The K best hypotheses of each row, best first. A hypothesis that does not exist has score −inf."""

    tokens: Tensor  # (N, K, L)
    logp: Tensor  # (N, K, L) log p of each symbol when it was written
    score: Tensor  # (N, K) s(h) = log p(L|X) + Σ log p(z) + log p(y), after the length penalty
    path: Tensor  # (N, K, T) int64: the position written at each step, −1 after a hypothesis's end
    symbol: Tensor  # (N, K, T) int64: what was written there
    gain: Tensor  # (N, K, T) its log p
    cost: Cost


def beam(
    model: Model,
    context: Any,
    state: State,
    decoder: Decoder,
    K: int,
    K1: int = 1,
    K2: int | None = None,
    *,
    coordinate_score: bool = True,
    length_penalty: float = 0.0,
    merge: bool = True,
) -> Beam:
    """The K best (Y, Z) paths of each of N rows, by s(h).

    `context` is what `model.encode` gave, `state` where to begin, both N rows: one per input and target length.
    Each hypothesis is expanded with its own K1 = K′ best positions, each position with K2 = K″ symbols
    (default: K, or all there are).
    `coordinate_score=False` leaves log p(z) out of s(h); at τ = 0 positions are ranked but certain, and add nothing.
    Hypotheses with the same Y are merged, the best kept (merge=False keeps them all). `length_penalty` α divides final
    scores by L^α.
    """
    searching = Searching(model, decoder, K, K1, K2, coordinate_score=coordinate_score, merge=merge)
    searching.join(context, state)
    while not bool(searching.done().all()):
        searching.step()
    return searching.found(length_penalty)


class Searching:
    """Beams under way, as `Running`: rows join whenever they come, each with K hypotheses that compete for its places.

    What a row finds depends neither on when it joined nor on the rows beside it.
    """

    def __init__(
        self,
        model: Model,
        decoder: Decoder,
        K: int,
        K1: int = 1,
        K2: int | None = None,
        *,
        coordinate_score: bool = True,
        merge: bool = True,
        cost: Cost | None = None,
    ) -> None:
        whole, K2 = K2 is None, K if K2 is None else K2
        for name, value in (("K", K), ("K1", K1), ("K2", K2)):
            whole_number(f"{name} of a beam search", value)
        if decoder.coordinates.count != fixed(1) or not isinstance(decoder.edit, Replace):
            raise ValueError("beam search writes one position a step: use count fixed(1) and the plain replacing edit")
        if not decoder.scored:
            raise ValueError("beam search compares hypotheses by their scores: it needs a decoder that is `scored`")
        if decoder.steps is None and decoder.symbols.may_mask:
            raise ValueError("hypotheses that may write <mask> end after a number of steps: give the decoder `steps`")
        self.decoder, self.K, self.K1, self.K2 = decoder, K, K1, K2
        self.coordinate_score, self.merge = coordinate_score, merge
        self.cost = Cost() if cost is None else cost
        self.reader = Reader(model, decoder.symbols, self.cost, at_most=whole)
        self.held: Held | None = None
        self.state: State | None = None  # (n·K, L), the hypotheses of a row one after the other
        self.rows = torch.zeros(0, dtype=torch.int64)  # (n,) the number by which each row is known; on its device

    @property
    def context(self) -> Any:
        """What is known of the inputs, a row for each hypothesis that was looked at last."""
        return None if self.held is None else self.held.context

    def join(self, context: Any, state: State, rows: Tensor | None = None) -> None:
        """Further rows, and the number (n,) by which each will be known: 0, 1, 2 … if none are given."""
        device, N = state.tokens.device, len(state.tokens)
        rows = torch.arange(N, device=device) if rows is None else rows
        state = self.decoder.start(state)
        if state.budget is not None:
            masks, left = state.masked.sum(-1), state.budget - state.step
            for r in (left < masks).nonzero()[:1, 0].tolist():
                many, few = int(masks[r]), int(left[r])
                raise ValueError(f"row {r}: {many} masks, one written a step, do not fit into {few} steps")
        family = torch.arange(N, device=device).repeat_interleave(self.K)  # which row a hypothesis belongs to
        first = torch.arange(N * self.K, device=device) % self.K == 0
        beams = state.take(family)
        beams = beams.but(score=torch.where(first, beams.score, NO))
        before = 0 if self.state is None or not len(self.rows) else self.state.memory[_PATH[0]].shape[1]
        none = beams.seed.new_full((len(family), before), -1)  # steps of others, before these came
        begun = dict(zip(_PATH, (none, none, none.to(beams.logp.dtype)), strict=True))
        beams, context = beams.but(memory=beams.memory | begun), context.take(family)
        if self.state is None or self.held is None or not len(self.rows):
            self.state, self.rows = beams, rows
        else:
            context = self.held.of(_places(self.state)).join(context)
            self.state, self.rows = self.state.join(beams), torch.cat([self.rows, rows])
        self.held = Held.all(context, _places(self.state))

    def step(self) -> None:
        """One step of every row that is not done."""
        assert self.state is not None and self.held is not None
        with inference(self.state.tokens.device):
            how = (self.decoder, self._region(), self.K, self.K1, self.K2, self.coordinate_score, self.merge)
            self.state, self.held = _advance(self.reader, self.held, self.state, *how)

    def done(self) -> Tensor:
        """(n,) rows none of whose hypotheses has anything left to write."""
        return ~self._region().any(-1).view(len(self.rows), self.K).any(-1)

    def only(self, keep: Tensor) -> None:
        """The rows at these places (m,) stay, all others leave."""
        assert self.state is not None and self.held is not None
        flat = (keep[:, None] * self.K + torch.arange(self.K, device=keep.device)).flatten()
        state, self.rows = self.state.take(flat).trim(), self.rows[keep]
        self.held = Held.all(without(self.held.context, self.held.row[flat]), _places(state))
        seen = (state.memory[_PATH[0]] >= 0).any(0).nonzero()  # steps before the oldest row came are nobody's
        start = int(seen[0]) if len(seen) else state.memory[_PATH[0]].shape[1]
        self.state = state.but(memory=state.memory | {key: state.memory[key][:, start:] for key in _PATH})

    def found(self, length_penalty: float = 0.0) -> Beam:
        """The hypotheses of every row as they are now, best first."""
        assert self.state is not None
        beams, N, K = self.state, len(self.rows), self.K
        score = beams.score / beams.length.clamp_min(1) ** length_penalty if length_penalty else beams.score
        order = score.view(N, K).argsort(dim=-1, descending=True, stable=True)
        flat = (order + torch.arange(N, device=order.device)[:, None] * K).flatten()
        width = beams.tokens.shape[1]
        tokens, logp = beams.tokens[flat].view(N, K, width), beams.logp[flat].view(N, K, width)
        own = (beams.memory[_PATH[0]][flat] < 0).int().argsort(dim=-1, stable=True)  # a row's own steps come first
        path, symbol, gain = (beams.memory[key][flat].gather(-1, own).view(N, K, own.shape[1]) for key in _PATH)
        return Beam(tokens, logp, score[flat].view(N, K), path, symbol, gain, self.cost)

    def _region(self) -> Tensor:
        """(n·K, L) where each hypothesis may be written next; nowhere, if it is done or does not exist."""
        assert self.state is not None
        going = ~done(self.decoder, self.state) & (self.state.score > NO)
        return self.decoder.candidates(self.state) & going[:, None]


def _advance(
    reader: Reader,
    held: Held,
    s: State,
    decoder: Decoder,
    region: Tensor,
    K: int,
    K1: int,
    K2: int,
    with_z: bool,
    merge: bool,
) -> tuple[State, Held]:
    """One step of every beam, among the positions `region` (N·K, L) of each: the new state, and its context."""
    c = decoder.coordinates
    active, judged = region.any(-1), View(s.tokens, s.logp)
    if c.reads:
        held = Held.all(held.of(_places(s)), _places(s))
        judged = reader.look(held.context, s, region, reads=c.reads, conditionals=c.conditionals, top=K2)
    x = c.logits(s, judged, region)
    if c.calm is None:  # nothing but noise: a position is drawn, not searched for
        x = c.order(s, judged).masked_fill(~region, NO)
    k1 = min(K1, x.shape[1])
    value, u = (part[:, :k1] for part in x.sort(dim=-1, descending=True, stable=True))  # (M, K′); ties: the left one
    logz = c.log_probs(s, judged, region).gather(-1, u) if with_z and c.tau else torch.zeros_like(value)
    logz = torch.where(value == NO, NO, logz)
    logy, symbol, held = _expand(reader, held, s, judged, u, value > NO, decoder, K2)  # (M, K′, K″) twice

    candidate = s.score[:, None, None] + logz[..., None] + logy
    candidate = torch.where(active[:, None, None], candidate, NO)
    stays = torch.where(active, NO, s.score)  # a finished hypothesis competes as it is; a dead one stays dead
    candidate[:, 0, 0] = torch.where(active, candidate[:, 0, 0], stays)
    symbol = torch.where(active[:, None, None], symbol, s.tokens.gather(1, u)[..., None])
    wide = k1 * logy.shape[-1]
    flat = candidate.reshape(-1, K * wide)  # (N, K·K′·K″)
    flat = flat.masked_fill(flat.isnan(), NO)
    if merge:
        flat = _merge(flat, _fingerprints(s, u, symbol).reshape(flat.shape))
    best, pick = (part[:, :K] for part in flat.sort(dim=-1, descending=True, stable=True))  # (N, K)
    if best.shape[1] < K:
        best = torch.nn.functional.pad(best, (0, K - best.shape[1]), value=NO)
        pick = torch.nn.functional.pad(pick, (0, K - pick.shape[1]))
    parents = (torch.arange(len(flat), device=u.device)[:, None] * K + pick // wide).flatten()
    inner = (pick % wide).flatten()
    where = u[parents, inner // logy.shape[-1], None]  # (M, 1) the position written
    written = symbol[parents, inner // logy.shape[-1], inner % logy.shape[-1], None]
    gain = logy[parents, inner // logy.shape[-1], inner % logy.shape[-1], None]
    was_active = active[parents, None]
    new = s.take(parents)
    z = torch.zeros_like(new.open).scatter(1, where, was_active)
    latest = (torch.where(was_active, where, -1), written, gain)
    grown = {key: torch.cat([new.memory[key], value], 1) for key, value in zip(_PATH, latest, strict=True)}
    new = new.but(
        tokens=torch.where(z, written, new.tokens),
        logp=torch.where(z, gain.nan_to_num(0.0, 0.0, 0.0), new.logp),
        score=best.flatten(),
        seed=combine(new.seed.view(-1, K), range(K), DESCEND).flatten() if K > 1 else new.seed,
        step=s.step + 1,
        memory=new.memory | c.remember(new, judged.take(parents), z) | grown,
        view=None,
    )
    return decoder.length.finish(new), replace(held, row=held.row[parents * k1 + inner // logy.shape[-1]])


def _places(s: State) -> Tensor:
    """(M,) the numbers of the hypotheses of a state."""
    return torch.arange(len(s.tokens), device=s.tokens.device)


def _expand(
    reader: Reader, held: Held, s: State, judged: View, u: Tensor, ok: Tensor, decoder: Decoder, K2: int
) -> tuple[Tensor, Tensor, Held]:
    """log p and symbol (M, K′, K″) of the best symbols at positions u (M, K′), each conditioned on itself masked; and
    the context that was looked at, which may have memorised what it saw, with a row for each of M·K′ continuations."""
    c = decoder.coordinates
    filled = ok & ~s.masked.gather(1, u)
    seen = judged.top_logp is not None and (c.conditionals == "masked" or not bool(filled.any()))
    if seen:
        assert judged.top_logp is not None and judged.top_token is not None
        index = u[..., None].expand(-1, -1, judged.top_logp.shape[-1])
        held = replace(held, row=held.row.repeat_interleave(u.shape[1]))
        return judged.top_logp.gather(1, index), judged.top_token.gather(1, index), held
    m, k = ok.nonzero(as_tuple=True)  # one folded row for each (hypothesis, position)
    rows = s if len(m) == len(s.tokens) and u.shape[1] == 1 else s.take(m)  # mostly all of them, once each
    at = torch.zeros(len(m), s.tokens.shape[1], dtype=torch.bool, device=u.device).scatter(1, u[m, k, None], True)
    context = held.of(m)
    view = reader.look(context, rows, at, hide=at if decoder.hide else None, top=K2)
    assert view.top_logp is not None and view.top_token is not None
    shape = (*u.shape, view.top_logp.shape[-1])
    logy, symbol = view.top_logp.new_full(shape, NO), torch.zeros(shape, dtype=torch.int64, device=u.device)
    logy[m, k], symbol[m, k] = view.top_logp[at], view.top_token[at]
    row = torch.zeros_like(u)  # of a hypothesis that is done: it is not looked at again, any will do
    row[m, k] = torch.arange(len(m), device=u.device)
    return logy, symbol, Held(context, row.flatten(), len(m))


def _fingerprints(s: State, u: Tensor, symbol: Tensor) -> Tensor:
    """A 64-bit fingerprint of every candidate's tokens (M, K′, K″), from its parent's and the one change."""
    i = torch.arange(s.tokens.shape[1], device=u.device)
    code = mix(s.tokens + (i << 32))  # (M, L)
    parent = code.sum(-1)[:, None, None] - code.gather(1, u)[..., None]
    return parent + mix(symbol + (u << 32)[..., None])


def _merge(flat: Tensor, prints: Tensor) -> Tensor:
    """Candidates (N, C) with all but the best of each fingerprint dead."""
    order = flat.argsort(dim=-1, descending=True, stable=True)
    sorted_prints, by_print = prints.gather(-1, order).sort(dim=-1, stable=True)  # stable: the best comes first
    again = torch.zeros_like(sorted_prints, dtype=torch.bool)
    again[:, 1:] = sorted_prints[:, 1:] == sorted_prints[:, :-1]
    again = torch.zeros_like(again).scatter(-1, by_print, again)  # back to order of score
    again = torch.zeros_like(again).scatter(-1, order, again)  # back to the candidates' own order
    return flat.masked_fill(again, NO)
