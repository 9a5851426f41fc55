"""A prefix beam (Graves & Jaitly 2014): the texts that are likeliest on a canvas of slots, from what passes saw of it.

Hypotheses are texts, not alignments: each carries the mass of all alignments of the slots so far that read as it,
apart by whether they end in a blank. That mass is over the slots' distributions as they are, so no pass is made.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.core.coordinates import everywhere
from anyorder.core.cost import Cost
from anyorder.core.count import whole
from anyorder.core.decode import Running
from anyorder.core.decoder import Decoder
from anyorder.core.devices import inference
from anyorder.core.model import Model
from anyorder.core.noise import mix
from anyorder.core.slots import best_alignment, emissions, states
from anyorder.core.state import State
from anyorder.core.step import Step

NO = float("-inf")


class Texts(NamedTuple):
    """B texts of each of N rows, the likeliest first."""

    tokens: Tensor  # (N, B, M) int64, `pad` behind each text
    logp: Tensor  # (N, B, M) log p of each symbol at the slot where it was first said
    score: Tensor  # (N, B) log of the mass of its alignments; −∞ where there are fewer texts


def prefix_beam(symbols: Tensor, logp: Tensor, slots: Tensor, blank: int, pad: int, beam: int) -> Texts:
    """The likeliest texts, from K symbols of each slot (N, S, K) with their log p; `slots` (N,) of the S are a row's.

    Exact where the K symbols are all there are and no prefix falls out of the beam.
    """
    (rows, width, _), device = symbols.shape, symbols.device
    blanks = logp.masked_fill(symbols != blank, NO).amax(-1)  # (N, S)
    logp = logp.masked_fill((symbols == blank) | (symbols == pad), NO)
    text = torch.full((rows, 1, width), pad, device=device)  # (N, B, M), B grows up to `beam`
    each = torch.zeros(rows, 1, width, dtype=logp.dtype, device=device)
    length = torch.zeros(rows, 1, dtype=torch.int64, device=device)
    last, code = torch.full((rows, 1), pad, device=device), torch.zeros(rows, 1, dtype=torch.int64, device=device)
    closed = torch.zeros(rows, 1, dtype=logp.dtype, device=device)  # mass that ends in a blank …
    said = torch.full_like(closed, NO)  # … and in the last symbol
    for t in range(width):
        x, w, b = symbols[:, t], logp[:, t], blanks[:, t, None]  # (N, K), (N, K), (N, 1)
        both = torch.logaddexp(closed, said)
        same = last[:, :, None] == x[:, None]  # (N, B, K)
        more = torch.where(same, closed[:, :, None], both[:, :, None]) + w[:, None]  # the text and x
        again = said + w[:, None].masked_fill(~same, NO).amax(-1)  # its last symbol once more
        codes = mix(code[:, :, None] * 31 + x[:, None] + 1)
        found = codes.flatten(1)[:, :, None] == code[:, None]  # (N, B·K, B) a text in the beam already
        found &= ((length > 0) & (both > NO))[:, None]
        joins = more.flatten(1)[:, :, None].masked_fill(~found, NO).amax(1)  # from one place at most
        more = more.flatten(1).masked_fill(found.any(-1), NO).view_as(more)
        end = torch.cat([both + b, more.new_full(more.shape, NO).flatten(1)], 1)
        now = torch.cat([torch.logaddexp(again, joins), more.flatten(1)], 1)
        total = torch.logaddexp(end, now)  # (N, B + B·K)
        kept = total.sort(dim=1, descending=True, stable=True).indices[:, :beam]
        inside = (t < slots)[:, None]  # a row whose slots are over stays as it is
        kept = torch.where(inside, kept, torch.arange(kept.shape[1], device=device))
        B, K = same.shape[1:]
        new = kept >= B
        parent, k = torch.where(new, (kept - B) // K, kept).clamp_max(B - 1), (kept - B).clamp_min(0) % K
        symbol, gain = x.gather(1, k), w.gather(1, k)
        text, each = (z.gather(1, parent[:, :, None].expand(-1, -1, width)) for z in (text, each))
        length, last, code = (z.gather(1, parent) for z in (length, last, code))
        place = torch.where(new & inside, length, width)[:, :, None]  # behind the end: nowhere
        text = F.pad(text, (0, 1)).scatter(2, place, symbol[:, :, None])[:, :, :-1]
        each = F.pad(each, (0, 1)).scatter(2, place, gain[:, :, None])[:, :, :-1]
        length = length + (new & inside).long()
        last = torch.where(new & inside, symbol, last)
        code = torch.where(new & inside, codes.flatten(1).gather(1, (kept - B).clamp_min(0)), code)
        spare = kept.shape[1] - B
        closed, said = (
            torch.where(inside, after.gather(1, kept), F.pad(before, (0, max(0, spare)), value=NO)[:, : kept.shape[1]])
            for after, before in ((end, closed), (now, said))
        )
    return _sorted(Texts(text, each, torch.logaddexp(closed, said)), int(length.max()) if rows else 0)


def _sorted(found: Texts, width: int) -> Texts:
    """Without the columns that no text has."""
    return Texts(found.tokens[:, :, :width], found.logp[:, :, :width], found.score)


class Seen:
    """The K most probable symbols of each slot in the pass in which it was last written; given slots are certain."""

    def __init__(self, state: State, symbols: int) -> None:
        size, device = (*state.tokens.shape, symbols), state.tokens.device
        self.symbols = torch.full(size, state.pad_id, device=device)  # (N, S, K)
        self.logp = torch.full(size, NO, device=device)
        self.symbols[:, :, 0], self.logp[:, :, 0] = state.tokens, torch.where(state.open, NO, 0.0)
        self.slots, self.pad, self.prior = state.tokens.ne(state.pad_id).sum(1), state.pad_id, state.score.clone()

    def add(self, taken: Step) -> None:
        """What a step saw, where it wrote: a step that only masks again, or waits, writes and looks at nothing."""
        view = taken.view
        if not bool(taken.z.any()):
            return
        assert view.top_token is not None and view.top_logp is not None
        (n, i), k = taken.z.nonzero(as_tuple=True), min(view.top_token.shape[-1], self.symbols.shape[-1])
        row = taken.rows[n]
        self.symbols[row, i, :k], self.logp[row, i, :k] = view.top_token[n, i, :k], view.top_logp[n, i, :k]

    def texts(self, beam: int, blank: int) -> Texts:
        """The likeliest texts; their scores begin at those of the rows."""
        with inference(self.symbols.device):
            found = prefix_beam(self.symbols, self.logp, self.slots, blank, self.pad, beam)
        return found._replace(score=found.score + self.prior[:, None])

    def canvases(self, found: Texts, blank: int) -> tuple[Tensor, Tensor]:
        """The most probable alignment of each text of row 0, and log p of its slots: (B, S) each."""
        text = found.tokens[0]
        s = states(text, text.ne(self.pad).sum(1), blank)
        here = self.symbols[0, :, :, None, None] == s.columns[None, None]  # (S, K, B, M + 1)
        logp = self.logp[0, :, :, None, None].masked_fill(~here, NO).amax(1).transpose(0, 1)
        e, slots = emissions(logp, s), self.slots[:1].expand(len(text))
        path = best_alignment(e, s, slots)
        return s.symbols.gather(1, path), e.gather(2, path[:, :, None])[:, :, 0]


def every_slot_anew(decoder: Decoder) -> bool:
    """Does each pass write every slot, so that the last pass alone is searched?"""
    return decoder.coordinates.count is whole and decoder.coordinates.among is everywhere


def texts(
    model: Model, context: Any, state: State, decoder: Decoder, beam: int, blank: int, symbols: int = 8
) -> tuple[Texts, Cost]:
    """Run a decoder, and search the distributions in which it wrote each slot last for the likeliest texts."""
    cost, seen, anew = Cost(), Seen(state, symbols), every_slot_anew(decoder)
    running = Running(model, decoder, cost)
    running.reader.at_most = True
    running.join(context, state)
    while len(running.rows):
        assert running.state is not None
        wanted = not anew or 1 in (running.state.remaining or (1,))
        taken = running.step(symbols if wanted else 0)
        if wanted:
            seen.add(taken)
        running.leave()
    return seen.texts(beam, blank), cost
