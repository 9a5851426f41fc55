"""Joint draws: symbols of several positions at once, of all that a rule allows together.

    p(y_z | Y, X, A) = ∏_{i∈z} p(y_i | Y, X) · [a valid whole exists with y_z] / Z

Which symbols are still possible depends on those drawn before only by the set of states that the automaton may be in,
so one sweep from left to right finds the sets, one back sums (or maximises) over what follows each, and a second one
to the right draws. Greedy symbols are the best joint assignment.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.core.automaton import Automaton
from anyorder.core.rules import Reach, Rules, fitted
from anyorder.core.state import State
from anyorder.core.symbols import NEVER, Symbols

MOST_SETS = 1 << 12  # of states told apart at a position; a row that needs more is drawn from left to right
MOST_ENTRIES = 1 << 25  # sets × classes × states held at once
DONE, DEAD = -2, -1  # in the place of a set: nothing is left to draw; no valid whole
_BITS = 52  # that a float64 holds exactly


class _Layer(NamedTuple):
    """The sets of states that the rows' automata may be in before a column, and what each class makes of them."""

    column: int
    row: Tensor  # (m,) which row each set is of
    entry: Tensor  # (m,) which entry of z the column is, −1: none
    to: Tensor  # (m, C) which set of the next layer a class leads to, DONE, or DEAD
    new: Tensor  # (k,) rows whose first coordinate this is: their sets are the last k


def drawn_together(
    state: State, symbols: Symbols, tokens: Tensor, n: Tensor, i: Tensor, logp: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Symbols (M,) of entries (n, i), sorted by row, of canvases `tokens` in which they are masked; from log p (M, V).

    Also log p of each given those on its left, so that their sum is log p(y_z), and the log of what the rule left:
    log Z with the first, 0 with the others.
    """
    rules = state.rules
    assert rules is not None
    reach = rules.reach(tokens)
    token, out, mass = torch.zeros_like(n), torch.zeros_like(logp[:, 0]), torch.zeros_like(logp[:, 0])
    for automaton, some in rules.rows_of(n):
        at = torch.arange(len(n), device=n.device) if some is None else some
        todo = [at]
        while todo:
            at = todo.pop()
            part = _Part(rules, automaton, reach, state, symbols, n[at], i[at], logp[at])
            found = part.draw()
            if found is None and len(part.rows) > 1:  # fewer rows at a time; a row by itself decides for itself
                half = part.which < len(part.rows) // 2
                todo += [at[half], at[~half]]
            else:
                token[at], out[at], mass[at] = part.one_by_one() if found is None else found
    return token, out, mass


class _Part:
    """The entries of rows that share an automaton."""

    def __init__(
        self, rules: Rules, automaton: Automaton, reach: Reach, state: State, symbols: Symbols, n: Tensor, i: Tensor,
        logp: Tensor,
    ) -> None:  # fmt: skip
        self.automaton, self.state, self.symbols, self.n, self.i = automaton, state, symbols, n, i
        self.rows, self.which = torch.unique_consecutive(n, return_inverse=True)  # (R,), (M,)
        self.tokens = reach.tokens[self.rows]
        self.masked = self.tokens == state.mask_id
        self.outside = rules.outside(reach.tokens)[self.rows]
        self.starts = rules._starts[self.rows]
        q = automaton.states
        self.before, self.after = reach.before[self.rows, :, :q], reach.after[self.rows, :, :q]
        device = n.device
        self.kind, self.any, self.accept = (x.to(device) for x in (automaton.kind, automaton.any, automaton.accept))
        self.edges = [x.to(device) for x in automaton.edges]
        self.next = automaton.next.to(device)
        entry = torch.full_like(self.tokens, -1)
        entry[self.which, i] = torch.arange(len(n), device=device)
        self.entry = entry  # (R, L) which entry a position is, −1: none
        self.begins = (entry >= 0).long().argmax(-1)  # (R,) the first coordinate
        self.ends = entry.shape[1] - 1 - (entry >= 0).flip(1).long().argmax(-1)
        self.plain = self._known(logp)  # (M, V)
        self.hot = symbols.temperature
        self.tempered = self._tempered(self.plain) if self.hot else self.plain

    def _known(self, logp: Tensor) -> Tensor:
        """log p of the symbols that the automaton knows, −inf of those that are never written."""
        width = len(self.kind)
        if logp.shape[1] < width:
            logp = torch.nn.functional.pad(logp, (0, width - logp.shape[1]), value=-torch.inf)
        return logp[:, :width].masked_fill(logp[:, :width] < NEVER / 2, -torch.inf)

    def _tempered(self, logp: Tensor) -> Tensor:
        return (logp / max(self.hot, 1e-30)).log_softmax(-1)

    def by_class(self, x: Tensor, most: bool) -> Tensor:
        """log Σ exp (or the largest) of x (M, V) over each class: (M, C)."""
        classes = len(self.next)
        if most:
            out = torch.full((len(x), classes), -torch.inf, dtype=x.dtype, device=x.device)
            return out.scatter_reduce(1, self.kind.expand(len(x), -1), x, "amax")
        top = x.amax(-1, keepdim=True).clamp_min(-1e30)
        sums = torch.zeros(classes, len(x), dtype=torch.float64, device=x.device)
        return (sums.index_add_(0, self.kind, (x - top).exp().double().T.contiguous()).log().T + top).to(x.dtype)

    # ------------------------------------------------------------------ sets of states

    def moved(self, sets: Tensor, row: Tensor, i: int) -> Tensor:
        """Sets (m, Q) behind column i, which is no coordinate; valid states only."""
        free = (sets @ self.any).clamp_(max=1)
        symbol = self.tokens[row, i]
        to = self.next[self.kind[symbol.clamp_max(len(self.kind) - 1)]]
        padded = torch.nn.functional.pad(sets, (0, 1))
        fixed = torch.zeros_like(padded).scatter_add_(1, to, sets)[:, :-1].clamp_(max=1)
        new = torch.where(self.masked[row, i, None], free, fixed)
        return torch.where(self.outside[row, i, None], sets, new) * self.after[row, i]

    def entered(self, sets: Tensor, row: Tensor, i: int) -> Tensor:
        """Sets (m, Q) before column i: where a part begins there, the start, if the one before it can end."""
        if i >= self.starts.shape[1] or not bool(self.starts[row, i].any()):
            return sets
        start = torch.zeros_like(sets)
        start[:, 0] = (sets * self.accept).amax(-1)
        return torch.where(self.starts[row, i, None], start, sets)

    def expanded(self, sets: Tensor, row: Tensor, i: int) -> Tensor:
        """Sets (m, C, Q) behind column i, if a symbol of each class is written there; valid states only."""
        c, q, r = self.edges
        out = sets.new_zeros(len(sets), len(self.next) * self.automaton.states)
        out.index_add_(1, c * self.automaton.states + r, sets[:, q])
        new = out.view(len(sets), len(self.next), self.automaton.states).clamp_(max=1)
        new = torch.where(self.outside[row, i, None, None], sets[:, None], new)
        return new * self.after[row, i, None]

    def distinct(self, sets: Tensor, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sets (m, Q) without repetition, and which of them each was: (k, Q), (k,), (m,)."""
        q = sets.shape[1]
        power = 2.0 ** (torch.arange(q, device=sets.device) % _BITS).double()
        weights = torch.zeros(q, (q + _BITS - 1) // _BITS, dtype=torch.float64, device=sets.device)
        weights[torch.arange(q), torch.arange(q) // _BITS] = power
        codes = torch.cat([row[:, None].double(), sets.double() @ weights], 1)
        unique, inverse = torch.unique(codes, dim=0, return_inverse=True)
        first = torch.full((len(unique),), len(sets), device=sets.device)
        first = first.scatter_reduce(0, inverse, torch.arange(len(sets), device=sets.device), "amin")
        return sets[first], row[first], inverse

    # ------------------------------------------------------------------ the draw

    def draw(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Symbols, log p of each given those on its left, and what the rule left, (M,) each; None: too many sets."""
        layers = self._layers()
        if layers is None:
            return None
        token = torch.zeros_like(self.n)
        logp, mass = torch.zeros_like(self.plain[:, 0]), torch.zeros_like(self.plain[:, 0])
        total, drawn = self._values(layers)
        at = torch.full((len(self.rows),), DEAD, device=self.n.device)  # which set of a layer each row is in
        for k, layer in enumerate(layers):
            at[layer.new] = len(layer.row) - len(layer.new) + torch.arange(len(layer.new), device=at.device)
            rows = (at >= 0).nonzero()[:, 0]
            here = at[rows]
            writes = layer.entry[here] >= 0
            e, to = layer.entry[here[writes]], layer.to[here[writes]]  # (k,), (k, C)
            x = self.tempered[e] + drawn[k + 1][to].index_select(1, self.kind)
            token[e] = y = self._pick(x, e)
            there = to.gather(1, self.kind[y][:, None])[:, 0]
            given = total[k][here[writes]]
            logp[e] = self.plain[e].gather(1, y[:, None])[:, 0] + total[k + 1][there] - given
            mass[e] = torch.where(self.begins[rows[writes]] == layer.column, given, 0.0)
            at[rows[writes]] = there
            at[rows[~writes]] = layer.to[here[~writes], 0]
        return token, logp, mass

    def _pick(self, x: Tensor, e: Tensor) -> Tensor:
        """A symbol for each entry e (k,), from weights x (k, V)."""
        if not self.hot:
            return x.argmax(-1)
        drawing = Symbols(1.0, self.symbols.top_k, self.symbols.top_p)
        return drawing.draw(x.log_softmax(-1).clamp_min(2 * NEVER), self.state, self.n[e], self.i[e])

    def _layers(self) -> list[_Layer] | None:
        """A layer for every column from the first coordinate to the last; None where there are too many sets."""
        classes, q = self.next.shape
        sets, row = self.before.new_zeros(0, q), self.begins.new_zeros(0)
        out: list[_Layer] = []
        for i in range(int(self.begins.min()), int(self.ends.max()) + 1):
            new = (self.begins == i).nonzero()[:, 0]
            sets, row = torch.cat([sets, self.before[new, i]]), torch.cat([row, new])
            if len(sets) > MOST_SETS or len(sets) * classes * q > MOST_ENTRIES:
                return None
            of, entry = row, self.entry[row, i]
            to = torch.full((len(sets), classes), DEAD, device=row.device)
            writes, passes = (entry >= 0).nonzero()[:, 0], (entry < 0).nonzero()[:, 0]
            wide = self.expanded(sets[writes], row[writes], i)
            m, c = (wide.amax(-1) > 0).nonzero(as_tuple=True)
            passed = self.moved(sets[passes], row[passes], i)
            sets, row = torch.cat([wide[m, c], passed]), torch.cat([row[writes[m]], row[passes]])
            sets, row, which = self.distinct(self.entered(sets, row, i + 1), row)
            going = self.ends[row] > i
            number = torch.where(going, going.long().cumsum(0) - 1, DONE)
            to[writes[m], c] = number[which[: len(m)]]
            to[passes] = number[which[len(m) :], None]
            out.append(_Layer(i, of, entry, to, new))
            sets, row = sets[going], row[going]
        return out

    def _values(self, layers: list[_Layer]) -> tuple[list[Tensor], list[Tensor]]:
        """What follows each set of each layer, as the log of a sum, and as it is drawn: tempered, or the best alone.

        The last two of a layer are what follows when nothing is left to draw (DONE), and what is impossible (DEAD).
        """
        plain, tempered = self.by_class(self.plain, False), self.by_class(self.tempered, not self.hot)
        ends = plain.new_tensor([0.0, -torch.inf])
        totals, drawns = [ends], [ends]
        for layer in reversed(layers):
            e, t, d = layer.entry.clamp_min(0), totals[0][layer.to], drawns[0][layer.to]
            best = (tempered[e] + d).logsumexp(-1) if self.hot else (tempered[e] + d).amax(-1)
            writes = layer.entry >= 0
            totals.insert(0, torch.cat([torch.where(writes, (plain[e] + t).logsumexp(-1), t[:, 0]), ends]))
            drawns.insert(0, torch.cat([torch.where(writes, best, d[:, 0]), ends]))
        return totals, drawns

    def one_by_one(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where too many sets would have to be told apart: each symbol given those on its left, of what they leave."""
        token = torch.zeros_like(self.n)
        logp, mass = torch.zeros_like(self.plain[:, 0]), torch.zeros_like(self.plain[:, 0])
        sets, row = self.before[:, 0], torch.arange(len(self.rows), device=self.n.device)
        for i in range(self.entry.shape[1]):
            e = self.entry[:, i]
            here = (e >= 0).nonzero()[:, 0]
            new = self.moved(sets, row, i)
            if len(here):
                wide = self.expanded(sets[here], here, i)  # (k, C, Q)
                ok = fitted(wide.amax(-1) > 0, self.automaton, len(self.kind))
                left = self.plain[e[here]].masked_fill(~ok, -torch.inf)
                y = self._pick(self.tempered[e[here]].masked_fill(~ok, -torch.inf), e[here])
                token[e[here]], mass[e[here]] = y, left.logsumexp(-1)
                logp[e[here]] = left.gather(1, y[:, None])[:, 0] - mass[e[here]]
                new[here] = wide[torch.arange(len(here)), self.kind[y]]
            sets = self.entered(new, row, i + 1)
        return token, logp, mass
