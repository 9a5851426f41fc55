"""Automaton: a regular language over the model's symbols, with symbols of like behaviour merged into classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from anyorder.core.noise import mix
from anyorder.errors import RuleError

MOST_STATES = 2000  # of an automaton: its (Q, Q) tables are read at every step


@dataclass(frozen=True, eq=False)
class Automaton:
    """A deterministic automaton, started in state 0: which sequences of symbols are in the language.

    `&`, `|` and `~` combine languages; every operation gives the smallest automaton of its language.
    """

    kind: Tensor  # (V,) int64: the class of each symbol
    next: Tensor  # (C, Q) int64: where a class leads, Q: nowhere
    accept: Tensor  # (Q,) bool: may the sequence end here?

    @property
    def states(self) -> int:
        """Q."""
        return len(self.accept)

    @property
    def symbols(self) -> int:
        """V."""
        return len(self.kind)

    @property
    def empty(self) -> bool:
        """Is no sequence at all in the language?"""
        return not bool(self.accept.any())

    @classmethod
    def of(cls, ways: Mapping[int, Mapping[int, int]], start: int, accept: Iterable[int], symbols: int) -> Automaton:
        """From transitions {state: {symbol: state}}."""
        accepting = set(accept)
        states = {start, *ways, *accepting, *(t for way in ways.values() for t in way.values())}
        number = {s: n for n, s in enumerate([start, *sorted(states - {start})])}
        step = torch.full((symbols, len(number)), len(number))
        for s, way in ways.items():
            for symbol, t in way.items():
                step[symbol, number[s]] = number[t]
        return cls.of_steps(step, torch.tensor([s in accepting for s in number]))

    @classmethod
    def of_steps(cls, step: Tensor, accept: Tensor) -> Automaton:
        """From `step` (V, Q): where each symbol leads from each state, Q or −1: nowhere. The start is state 0."""
        step = torch.where(step < 0, len(accept), step)
        columns, kind = torch.unique(step, dim=0, return_inverse=True)
        return cls(kind, columns, accept.bool()).smallest()

    # ------------------------------------------------------------------ languages

    @classmethod
    def anything(cls, symbols: int) -> Automaton:
        """Every sequence, the empty one too."""
        return cls(torch.zeros(symbols, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int64), torch.tensor([True]))

    @classmethod
    def words(cls, words: Iterable[Sequence[int]], symbols: int) -> Automaton:
        """One of these words, and nothing else."""
        ways: dict[int, dict[int, int]] = {0: {}}
        ends = set()
        for word in words:
            state = 0
            for symbol in word:
                state = ways[state].setdefault(int(symbol), len(ways))
                ways.setdefault(state, {})
            ends.add(state)
        return cls.of(ways, 0, ends, symbols)

    @classmethod
    def containing(cls, words: Iterable[Sequence[int]], symbols: int) -> Automaton:
        """At least one of these words stands somewhere in the sequence."""
        patterns = sorted({tuple(int(s) for s in word) for word in words})
        if not patterns or () in patterns:
            return cls.anything(symbols) if patterns else ~cls.anything(symbols)
        prefixes = {word[:n]: 0 for word in patterns for n in range(len(word) + 1)}
        number = {prefix: n for n, prefix in enumerate(sorted(prefixes, key=len))}  # () is 0
        whole, end = set(patterns), len(number)
        used = sorted({symbol for word in patterns for symbol in word})
        step = torch.zeros(symbols, end + 1, dtype=torch.int64)  # any other symbol: back to the start
        step[:, end] = end
        for prefix, n in number.items():
            for symbol in used:
                text = (*prefix, symbol)
                found = any(text[len(text) - len(w) :] == w for w in whole if len(w) <= len(text))
                suffix = next(text[k:] for k in range(len(text) + 1) if text[k:] in number)
                step[symbol, n] = end if found else number[suffix]
        accept = torch.zeros(end + 1, dtype=torch.bool)
        accept[end] = True
        return cls.of_steps(step, accept)

    @classmethod
    def alphabets(cls, allowed: Tensor) -> Automaton:
        """Sequences of exactly L symbols, position i one of `allowed[i]`: (L, V) bool."""
        length = len(allowed)
        step = torch.full((allowed.shape[1], length + 1), length + 1)
        step[:, :length] = torch.where(allowed.T, torch.arange(1, length + 1), length + 1)
        accept = torch.zeros(length + 1, dtype=torch.bool)
        accept[length] = True
        return cls.of_steps(step, accept)

    def __and__(self, other: Automaton) -> Automaton:
        """In both languages."""
        return self._product(other, lambda a, b: a & b, both=True)

    def __or__(self, other: Automaton) -> Automaton:
        """In either language."""
        return self._product(other, lambda a, b: a | b, both=False)

    def __invert__(self) -> Automaton:
        """Every sequence that is not in the language."""
        q = self.states  # one more state: what leads nowhere, and stays there
        sink = torch.full((len(self.next), 1), q)
        return Automaton(self.kind, torch.cat([self.next, sink], 1), ~_more(self.accept, False)).smallest()

    def without(self, symbols: Iterable[int]) -> Automaton:
        """The sequences that have none of these symbols."""
        gone = [s for s in set(symbols) if 0 <= s < self.symbols]
        nowhere = torch.full((1, self.states), self.states)
        kind = self.kind.clone()
        kind[gone] = len(self.next)
        return Automaton(kind, torch.cat([self.next, nowhere]), self.accept).smallest()

    def ending(self, symbol: int) -> Automaton:
        """The sequences followed by `symbol` and anything after it, or ended without it: texts that a causal model
        writes on a canvas that is long enough."""
        q = self.states
        end = torch.full((len(self.next), 1), q)
        kind, steps = self.kind.clone(), torch.cat([self.next + (self.next == q), end], 1)
        stop = torch.where(_more(self.accept, True), q, q + 1)[None]
        kind[symbol] = len(steps)
        return Automaton(kind, torch.cat([steps, stop]), _more(self.accept, True)).smallest()

    def _product(self, other: Automaton, accepts: Callable[[Tensor, Tensor], Tensor], both: bool) -> Automaton:
        if self.symbols != other.symbols:
            raise ValueError(f"languages of {self.symbols} and of {other.symbols} symbols cannot be combined")
        pairs, kind = torch.unique(self.kind * len(other.next) + other.kind, return_inverse=True)
        mine, theirs = self.next[pairs // len(other.next)], other.next[pairs % len(other.next)]  # (C, Qa), (C, Qb)
        a, b = self.states, other.states
        mine, theirs = (torch.cat([x, torch.full((len(x), 1), n)], 1) for x, n in ((mine, a), (theirs, b)))
        known: dict[int, int] = {0: 0}  # state a·(Qb + 1) + b → its number
        todo, rows = [0], []
        while todo:  # a level of the search at a time
            at = torch.tensor(todo)
            p, q = at // (b + 1), at % (b + 1)
            go_p, go_q = mine[:, p], theirs[:, q]  # (C, n)
            dead = ((go_p == a) | (go_q == b)) if both else ((go_p == a) & (go_q == b))
            code = torch.where(dead, -1, go_p * (b + 1) + go_q)
            todo = [c for c in torch.unique(code).tolist() if c >= 0 and c not in known]
            for c in todo:
                known[c] = len(known)
            check_states(len(known))
            rows.append(code)
        codes = torch.cat(rows, 1)  # (C, Q) in the order of their numbers
        table = torch.full(((a + 1) * (b + 1) + 1,), len(known))
        keys = torch.tensor(list(known))
        table[keys] = torch.arange(len(known))
        accept = accepts(_more(self.accept, False)[keys // (b + 1)], _more(other.accept, False)[keys % (b + 1)])
        return Automaton(kind, table[codes], accept).smallest()

    def smallest(self) -> Automaton:
        """The same language with the fewest states (Moore), and classes that differ from each other."""
        step, accept, q = self.next, self.accept, self.states
        forward, backward = _closure(step, torch.arange(q) == 0), _closure_back(step, accept)
        useful = forward & backward
        if not bool(useful[0]):
            nowhere = torch.ones(1, 1, dtype=torch.int64)
            return Automaton(torch.zeros_like(self.kind), nowhere, torch.tensor([False]))
        number = torch.full((q + 1,), int(useful.sum()))
        number[:q][useful] = torch.arange(int(useful.sum()))
        step, accept = number[step[:, useful]], accept[useful]
        step = torch.unique(step, dim=0) if len(step) > 4096 else step
        block = torch.unique(accept, return_inverse=True)[1]
        count = int(block.max()) + 1
        salt = mix(torch.arange(len(step))[:, None] << 32)  # (C, 1)
        while True:  # states are alike while every class leads them to states that are alike: fingerprints of 64 bits
            codes = mix(torch.cat([block, torch.tensor([-1])]) + 1)[step]  # (C, Q)
            _, new = torch.unique(mix(codes + salt).sum(0) + mix(block), return_inverse=True)
            if int(new.max()) + 1 == count:
                break
            block, count = new, int(new.max()) + 1
        first = torch.full((count,), len(block)).scatter_reduce(0, block, torch.arange(len(block)), "amin")
        order = first.argsort()  # the start comes first
        rank = torch.empty_like(order).scatter(0, order, torch.arange(count))
        blocks = torch.cat([rank[block], torch.tensor([count])])
        kind_step = blocks[number[self.next[:, useful]]][:, first[order]]
        columns, merged = torch.unique(kind_step, dim=0, return_inverse=True)
        kinds, kind = torch.unique(merged[self.kind], return_inverse=True)  # classes that no symbol is of are dropped
        return Automaton(kind, columns[kinds], accept[first[order]])

    # ------------------------------------------------------------------ what is known of it

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """(E,) each: class, state and where that leads, of all that lead anywhere."""
        c, q = (self.next < self.states).nonzero(as_tuple=True)
        return c, q, self.next[c, q]

    @cached_property
    def any(self) -> Tensor:
        """(Q, Q) float: does some symbol lead from one state to the other?"""
        _, q, r = self.edges
        out = torch.zeros(self.states, self.states)
        out[q, r] = 1.0
        return out

    def lengths(self, longest: int) -> Tensor:
        """(longest + 1,) bool: is there a sequence of 0, 1, … `longest` symbols?"""
        at, out = torch.zeros(self.states), torch.zeros(longest + 1, dtype=torch.bool)
        at[0] = 1.0
        for n in range(longest + 1):
            out[n] = bool((at * self.accept).any())
            at = (at @ self.any).clamp_(max=1)
        return out

    @cached_property
    def shortest(self) -> int | None:
        """Symbols of the shortest sequence; None where there is none."""
        found = self.lengths(self.states).nonzero()
        return int(found[0]) if len(found) else None

    @cached_property
    def longest(self) -> int | None:
        """Symbols of the longest sequence; None where there is no longest (or none at all)."""
        found = self.lengths(2 * self.states).nonzero()
        most = int(found[-1]) if len(found) else None
        return most if most is not None and most < self.states else None

    def accepts(self, sequence: Sequence[int]) -> bool:
        """Is this sequence in the language?"""
        state = 0
        for symbol in sequence:
            if not 0 <= symbol < self.symbols:
                return False
            state = int(self.next[self.kind[symbol], state])
            if state == self.states:
                return False
        return bool(self.accept[state])


def check_states(count: int, most: int = MOST_STATES) -> None:
    """Raises RuleError where an automaton gets too large."""
    if count > most:
        raise RuleError(f"this rule needs more than {most:,} states: make it simpler (fewer or shorter repetitions)")


def _more(accept: Tensor, value: bool) -> Tensor:
    """accept (Q,) with one more state."""
    return torch.cat([accept, torch.tensor([value])])


def _closure(step: Tensor, start: Tensor) -> Tensor:
    """(Q,) bool: states that can be reached from `start`."""
    seen = new = start
    while bool(new.any()):
        to = torch.zeros(len(seen) + 1, dtype=torch.bool)
        to[step[:, new].flatten()] = True
        new = to[:-1] & ~seen
        seen = seen | new
    return seen


def _closure_back(step: Tensor, accept: Tensor) -> Tensor:
    """(Q,) bool: states from which an accepting one can be reached."""
    seen = accept
    while True:
        more = seen | torch.cat([seen, torch.tensor([False])])[step].any(0)
        if bool((more == seen).all()):
            return seen
        seen = more
