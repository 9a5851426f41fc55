"""Languages of texts, built from parts: a nondeterministic automaton over UTF-8 bytes, made deterministic and small."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import torch

from anyorder.core import Automaton
from anyorder.errors import RuleError

BYTES = 256
MOST_NODES = 100_000  # of the nondeterministic automaton
MOST_WORK = 5_000_000  # nodes looked at while it is made deterministic
MOST_TEXT_STATES = 20_000  # of the deterministic one, before it is made small
TOP = 0x10FFFF
Ranges = tuple[tuple[int, int], ...]  # code points, ascending, both ends included
ALL: Ranges = ((0, 0xD7FF), (0xE000, TOP))  # every character: halves of surrogate pairs are none


class Builder:
    """A nondeterministic automaton under construction."""

    def __init__(self) -> None:
        self.empty: list[list[int]] = []  # node → nodes that are reached by nothing
        self.ways: list[list[tuple[int, int, int]]] = []  # node → (first byte, last byte, node)

    def node(self) -> int:
        """A new node."""
        if len(self.ways) >= MOST_NODES:
            raise RuleError(f"this rule needs more than {MOST_NODES:,} parts: make it simpler (fewer repetitions)")
        self.empty.append([])
        self.ways.append([])
        return len(self.ways) - 1

    def skip(self, a: int, b: int) -> None:
        """From a to b by nothing."""
        self.empty[a].append(b)

    def read(self, a: int, first: int, last: int, b: int) -> None:
        """From a to b by a byte."""
        self.ways[a].append((first, last, b))


Part = Callable[[Builder, int], int]  # writes itself behind a node, and says where it ends


def nothing(b: Builder, start: int) -> int:
    """No text at all: not even the empty one."""
    return b.node()


def empty(b: Builder, start: int) -> int:
    """The empty text."""
    return start


def literal(text: str) -> Part:
    """This text."""

    def part(b: Builder, start: int) -> int:
        for byte in text.encode():
            end = b.node()
            b.read(start, byte, byte, end)
            start = end
        return start

    return part


def one_of(ranges: Ranges) -> Part:
    """One character of these ranges."""
    sequences = [s for lo, hi in clipped(ranges) for s in utf8(lo, hi)]

    def part(b: Builder, start: int) -> int:
        end = b.node()
        for sequence in sequences:
            at = start
            for k, (first, last) in enumerate(sequence):
                to = end if k == len(sequence) - 1 else b.node()
                b.read(at, first, last, to)
                at = to
        return end

    return part


def sequence(parts: Iterable[Part]) -> Part:
    """One part after the other."""
    parts = list(parts)

    def part(b: Builder, start: int) -> int:
        for each in parts:
            start = each(b, start)
        return start

    return part


def either(parts: Iterable[Part]) -> Part:
    """One of the parts."""
    parts = list(parts)

    def part(b: Builder, start: int) -> int:
        end = b.node()
        for each in parts:
            first = b.node()
            b.skip(start, first)
            b.skip(each(b, first), end)
        return end

    return part


def repeated(inner: Part, least: int, most: int | None) -> Part:
    """The part so many times; most None: any number."""

    def part(b: Builder, start: int) -> int:
        for _ in range(least):
            again = b.node()  # so that every repetition counts
            b.skip(start, again)
            start = inner(b, again)
        if most is None:
            loop, end = b.node(), b.node()
            b.skip(start, loop)
            b.skip(inner(b, loop), loop)
            b.skip(loop, end)
            return end
        end = b.node()
        for _ in range(most - least):
            b.skip(start, end)
            again = b.node()
            b.skip(start, again)
            start = inner(b, again)
        b.skip(start, end)
        return end

    return part


def within(automaton: Automaton) -> Part:
    """A language that is made already."""
    kinds: dict[int, list[int]] = defaultdict(list)
    for byte, kind in enumerate(automaton.kind.tolist()):
        kinds[kind].append(byte)
    table, accept = automaton.next.tolist(), automaton.accept.tolist()

    def part(b: Builder, start: int) -> int:
        nodes, end = [b.node() for _ in accept], b.node()
        b.skip(start, nodes[0])
        for kind, row in enumerate(table):
            for q, r in enumerate(row):
                if r < len(accept):
                    for byte in kinds[kind]:
                        b.read(nodes[q], byte, byte, nodes[r])
        for q, ok in enumerate(accept):
            if ok:
                b.skip(nodes[q], end)
        return end

    return part


def automaton_of(part: Part) -> Automaton:
    """The smallest deterministic automaton over bytes; too many states are refused with the number."""
    b = Builder()
    start = b.node()
    end = part(b, start)
    closures: dict[int, frozenset[int]] = {}

    def closure(nodes: Iterable[int]) -> frozenset[int]:
        out: set[int] = set()
        for node in nodes:
            if node not in closures:
                seen, todo = {node}, [node]
                while todo:
                    for other in b.empty[todo.pop()]:
                        if other not in seen:
                            seen.add(other)
                            todo.append(other)
                closures[node] = frozenset(n for n in seen if b.ways[n] or n == end)
            out |= closures[node]
        return frozenset(out)

    cuts = sorted({0, BYTES, *(x for way in b.ways for lo, hi, _ in way for x in (lo, hi + 1))})
    kind = [k for k, (lo, hi) in enumerate(pairwise(cuts)) for _ in range(lo, hi)]
    classes = {lo: k for k, lo in enumerate(cuts[:-1])}
    first = closure([start])
    number, todo, table = {first: 0}, [first], list[dict[int, int]]()
    work = 0
    for nodes in todo:  # grows while it is read
        work += sum(len(b.ways[node]) for node in nodes)
        to: dict[int, set[int]] = defaultdict(set)
        for node in nodes:
            for lo, hi, other in b.ways[node]:
                for k in range(classes[lo], kind[hi] + 1):
                    to[k].add(other)
        row = {}
        for k, others in to.items():
            target = closure(others)
            if target not in number:
                number[target] = len(number)
                todo.append(target)
            row[k] = number[target]
        table.append(row)
        if len(number) > MOST_TEXT_STATES or work > MOST_WORK:
            raise RuleError(f"this rule is too large ({len(number):,} states and more): make it simpler")
    step = torch.full((len(cuts) - 1, len(number)), len(number))
    for q, row in enumerate(table):
        for k, r in row.items():
            step[k, q] = r
    accept = torch.tensor([end in nodes for nodes in todo])
    return Automaton(torch.tensor(kind), step, accept).smallest()


# ---------------------------------------------------------------------- characters


def clipped(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in order and joined, without halves of surrogate pairs."""
    out: list[tuple[int, int]] = []
    for a, z in sorted(ranges):
        for lo, hi in ((max(a, 0), min(z, 0xD7FF)), (max(a, 0xE000), min(z, TOP))):
            if lo <= hi:
                if out and lo <= out[-1][1] + 1:
                    out[-1] = (out[-1][0], max(out[-1][1], hi))
                else:
                    out.append((lo, hi))
    return tuple(out)


def outside(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Every character that is not in these ranges."""
    out, at = [], 0
    for lo, hi in sorted(ranges):
        if lo > at:
            out.append((at, lo - 1))
        at = max(at, hi + 1)
    return clipped([*out, (at, TOP)] if at <= TOP else out)


def common(a: Iterable[tuple[int, int]], b: Iterable[tuple[int, int]]) -> Ranges:
    """The characters in both."""
    return outside([*outside(a), *outside(b)])


def utf8(lo: int, hi: int) -> list[list[tuple[int, int]]]:
    """The bytes of the characters lo … hi as sequences of ranges of bytes."""
    for most in (0x7F, 0x7FF, 0xFFFF):  # characters of one length each
        if lo <= most < hi:
            return utf8(lo, most) + utf8(most + 1, hi)
    first, last = chr(lo).encode(), chr(hi).encode()
    return list(_byte_ranges(first, last))


def _byte_ranges(first: Sequence[int], last: Sequence[int]) -> Iterable[list[tuple[int, int]]]:
    if len(first) == 1:
        yield [(first[0], last[0])]
        return
    low, high = [0x80] * (len(first) - 1), [0xBF] * (len(first) - 1)
    if first[0] == last[0]:
        yield from ([(first[0], first[0]), *rest] for rest in _byte_ranges(first[1:], last[1:]))
        return
    a, z = first[0], last[0]
    if list(first[1:]) != low:
        yield from ([(a, a), *rest] for rest in _byte_ranges(first[1:], high))
        a += 1
    tail = None
    if list(last[1:]) != high:
        tail = [[(z, z), *rest] for rest in _byte_ranges(low, last[1:])]
        z -= 1
    if a <= z:
        yield [(a, z), *((0x80, 0xBF) for _ in low)]
    yield from tail or []
