"""Rules: the automaton of each row, and which symbols a row may write where: those with which a valid whole exists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.core.automaton import Automaton
from anyorder.core.ragged import joined

FREE = -1  # a row without a rule; a position that is no part of what the rule is about
ENTRIES = 1 << 24  # edges × entries looked at together


class Reach(NamedTuple):
    """What stands on canvases: the states of each row's automaton around each position."""

    tokens: Tensor  # (N, L) what stands
    before: Tensor  # (N, L, Q) float: states that what stands on the left can lead to
    after: Tensor  # (N, L, Q) float: states behind position i from which what stands on the right can be read to an end
    possible: Tensor  # (N,) bool: is there a valid whole?


@dataclass(eq=False)
class Rules:
    """The rules of N rows. They travel with the rows: `take` and `join` as a state's.

    A rule is about the positions of a part; what stands outside is not read. Several parts are each in the language.
    """

    automata: tuple[Automaton, ...]
    of: Tensor  # (N,) int64: which automaton each row has, FREE: none
    part: Tensor  # (N, L) int64: which part each position belongs to, ascending; FREE: to none
    mask_id: int
    pad_id: int
    _reach: Reach | None = field(default=None, repr=False)  # of the canvas looked at last

    def take(self, rows: Tensor) -> Rules:
        """These rows."""
        reach = None if self._reach is None else Reach(*(x.index_select(0, rows) for x in self._reach))
        return Rules(self.automata, self.of[rows], self.part[rows], self.mask_id, self.pad_id, reach)

    def trim(self, width: int) -> Rules:
        """The first `width` columns; the others are padding."""
        return Rules(self.automata, self.of, self.part[:, :width], self.mask_id, self.pad_id)

    @staticmethod
    def joined(rules: Sequence[Rules | None], tokens: Sequence[Tensor], mask_id: int, pad_id: int) -> Rules | None:
        """The rules of the rows of several canvases, one after the other; None where no row has any."""
        automata = tuple(dict.fromkeys(a for r in rules if r is not None for a in r.automata))
        if not automata:
            return None
        of, part = [], []
        for r, y in zip(rules, tokens, strict=True):
            free = torch.full((len(y),), FREE, device=y.device)
            number = [] if r is None else [automata.index(a) for a in r.automata]
            table = torch.tensor([*number, FREE], device=y.device)  # the last is that of FREE, −1
            of.append(free if r is None else table[r.of])
            part.append(torch.full_like(y, FREE) if r is None else r.part)
        return Rules(automata, torch.cat(of), joined(part, FREE), mask_id, pad_id)

    def without(self, symbols: Sequence[int]) -> Rules:
        """Rules whose valid wholes have none of these symbols."""
        automata = tuple(_without(a, tuple(symbols)) for a in self.automata)
        return Rules(automata, self.of, self.part, self.mask_id, self.pad_id)

    # ------------------------------------------------------------------ tables of all automata, padded

    @cached_property
    def _states(self) -> int:
        return max(a.states for a in self.automata)

    @cached_property
    def _any(self) -> Tensor:
        """(Q, Q), or (N, Q, Q) where rows have several automata."""
        tables = torch.zeros(len(self.automata) + 1, self._states, self._states)  # of a free row: nothing
        for n, a in enumerate(self.automata):
            tables[n, : a.states, : a.states] = a.any
        tables = tables.to(self.of.device)
        return tables[0] if len(self.automata) == 1 else tables[self.of]

    @cached_property
    def _accept(self) -> Tensor:
        """(N, Q) float."""
        accept = torch.zeros(len(self.automata) + 1, self._states)
        for n, a in enumerate(self.automata):
            accept[n, : a.states] = a.accept.float()
        return accept.to(self.of.device)[self.of]

    @cached_property
    def _starts(self) -> Tensor:
        """(N, L) bool: does a part begin here, and is it not the first?"""
        last = self.part.cummax(-1).values
        before = torch.cat([torch.full_like(last[:, :1], FREE), last[:, :-1]], 1)
        return (self.part > before) & (before >= 0)

    def rows_of(self, n: Tensor) -> Iterable[tuple[Automaton, Tensor | None]]:
        """The automata of entries with rows n (M,), and which entries (m,) have it; None: all."""
        of = self.of[n]
        present = [g for g in torch.unique(of).tolist() if g != FREE]
        for g in present:
            here = (of == g).nonzero()[:, 0]
            yield self.automata[g], None if len(here) == len(n) else here

    # ------------------------------------------------------------------ reachability

    def reach(self, tokens: Tensor) -> Reach:
        """Forward and backward reachability of canvases (N, L), computed anew only where positions changed."""
        old, width = self._reach, tokens.shape[1]
        if old is None or old.tokens.shape != tokens.shape:
            before = torch.zeros(*tokens.shape, self._states, device=tokens.device)
            after, possible = torch.zeros_like(before), torch.zeros(len(tokens), dtype=torch.bool)
            first, last = 0, width - 1
        else:
            changed: list[bool] = (tokens != old.tokens).any(0).tolist()
            if True not in changed:
                return old
            first, last = changed.index(True), width - 1 - changed[::-1].index(True)
            before, after, possible = old.before.clone(), old.after.clone(), old.possible
        fresh = old is None or old.tokens.shape != tokens.shape
        outside, masked = self.outside(tokens), tokens == self.mask_id
        move = _Moves(self, tokens)
        start = torch.zeros(len(tokens), self._states, device=tokens.device)
        start[:, 0] = 1.0
        starts, some = self._starts, self._starts.any(0).tolist()
        here = before[:, first].clone() if first else start
        for i in range(first, width):
            if some[i] and (fresh or i > first):
                ends = (here * self._accept).amax(-1, keepdim=True)
                here = torch.where(starts[:, i, None], start * ends, here)
            if not fresh and i > last and torch.equal(here, before[:, i]):
                break
            before[:, i] = here
            here = self._step(here, outside[:, i], masked[:, i], move(i), back=False)
        else:
            possible = ((here * self._accept).amax(-1) > 0) | (self.of == FREE)
        here = self._accept if last == width - 1 else after[:, last].clone()
        for i in range(last, -1, -1):
            if not fresh and i < first and torch.equal(here, after[:, i]):
                break
            after[:, i] = here
            here = self._step(here, outside[:, i], masked[:, i], move(i), back=True)
            if some[i]:
                here = torch.where(starts[:, i, None], self._accept * here[:, :1], here)
        self._reach = Reach(tokens.clone(), before, after, possible)
        return self._reach

    def outside(self, tokens: Tensor) -> Tensor:
        """(N, L) positions that the rule does not read."""
        return (self.part == FREE) | (tokens == self.pad_id)

    def _step(self, here: Tensor, outside: Tensor, masked: Tensor, where: Tensor, back: bool) -> Tensor:
        """The states (N, Q) on the other side of a column: any symbol's where it is masked, else its symbol's."""
        table = self._any
        if table.dim() == 2:
            free = here @ (table.T if back else table)
        else:
            free = (torch.bmm(table, here[..., None])[..., 0]) if back else torch.bmm(here[:, None], table)[:, 0]
        padded = torch.nn.functional.pad(here, (0, 1))
        fixed = padded.gather(1, where) if back else torch.zeros_like(padded).scatter_add_(1, where, here)[:, :-1]
        return torch.where(outside[:, None], here, torch.where(masked[:, None], free, fixed).clamp_(max=1))

    # ------------------------------------------------------------------ symbols

    def allowed(self, tokens: Tensor, n: Tensor, i: Tensor) -> Iterable[tuple[Automaton, Tensor | None, Tensor]]:
        """For the entries (n, i) of each automaton: (m, C) bool, the classes with which a valid whole exists.

        What stands at (n, i) itself does not matter: the question is what might stand there.
        """
        reach = self.reach(tokens)
        for automaton, some in self.rows_of(n):
            rows, columns = (n, i) if some is None else (n[some], i[some])
            a = reach.before[rows, columns].T.contiguous()  # (Q, m)
            b = reach.after[rows, columns].T.contiguous()
            c, q, r = (x.to(tokens.device) for x in automaton.edges)
            parts = []
            for start in range(0, a.shape[1], size := max(1, ENTRIES // max(1, len(c)))):
                x, y = a[:, start : start + size], b[:, start : start + size]
                both = x.index_select(0, q).mul_(y.index_select(0, r))  # (E, m)
                found = torch.zeros(len(automaton.next), x.shape[1], device=tokens.device).index_add_(0, c, both)
                parts.append(found > 0)
            ok = torch.cat(parts, 1).T
            outside = self.part[rows, columns] == FREE
            yield automaton, some, ok | outside[:, None]

    def restrict(self, x: Tensor, tokens: Tensor, n: Tensor, i: Tensor, never: float) -> Tensor:
        """Logits x (M, W) of entries (n, i), `never` where no valid whole exists; changes `x`."""
        for automaton, some, ok in self.allowed(tokens, n, i):
            no = ~fitted(ok, automaton, x.shape[1])
            if some is None:
                x.masked_fill_(no, never)
            else:
                x[some] = x[some].masked_fill_(no, never)
        return x


class _Moves:
    """Where the symbol that stands in a column leads from each state: (N, Q), Q: nowhere."""

    def __init__(self, rules: Rules, tokens: Tensor) -> None:
        self.rules, self.tokens = rules, tokens
        self.known: dict[int, Tensor] = {}

    def __call__(self, i: int) -> Tensor:
        if i not in self.known:
            q, rules = self.rules._states, self.rules
            out = torch.full((len(self.tokens), q), q, device=self.tokens.device)
            for automaton, some in rules.rows_of(torch.arange(len(self.tokens), device=self.tokens.device)):
                symbol = self.tokens[:, i] if some is None else self.tokens[some, i]
                inside = symbol < automaton.symbols
                kind = automaton.kind.to(symbol.device)[symbol.clamp_max(automaton.symbols - 1)]
                to = automaton.next.to(symbol.device)[kind]  # (m, Q of it)
                to = torch.where((to < automaton.states) & inside[:, None], to, q)
                if some is None:
                    out[:, : automaton.states] = to
                else:
                    out[some, : automaton.states] = to
            self.known[i] = out
        return self.known[i]


def fitted(ok: Tensor, automaton: Automaton, width: int) -> Tensor:
    """(m, C) of classes → (m, width) of symbols; what the automaton does not know is no part of any valid whole."""
    kind = automaton.kind.to(ok.device)
    if width <= len(kind):
        return ok.index_select(1, kind[:width])
    return torch.nn.functional.pad(ok.index_select(1, kind), (0, width - len(kind)))


@lru_cache(maxsize=1024)
def _without(automaton: Automaton, symbols: tuple[int, ...]) -> Automaton:
    return automaton.without(symbols)
