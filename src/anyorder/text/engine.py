"""The engine: rows take steps in batches, decoded or searched over, for bulk work and for the server alike.

`Write` makes rows of inputs and reads hypotheses off where the rows ended; `Rows` are written by one decoder; a `Batch`
is where rows of equal decoders take steps together. Bulk work gives each batch all its rows at once (`write`); the
server's scheduler lets rows join and leave batches at every step. What a row gives does not depend on either.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from anyorder.core import Beam, Cost, Decoder, Running, Searching, State, Step, View, done, unroll
from anyorder.core.model import without
from anyorder.core.prefix_beam import Seen, Texts, every_slot_anew
from anyorder.core.ragged import joined
from anyorder.machine import side_by_side
from anyorder.options import takes
from anyorder.text.batching import ALIKE, CACHED, TOKEN_BUDGET, Progress, batches, evenly, windows
from anyorder.text.effort import expected
from anyorder.text.results import ALTERNATIVES, SYMBOLS, Found, Hypothesis, Path
from anyorder.text.rows import Batch as Prepared
from anyorder.text.rows import Input, row_size

if TYPE_CHECKING:
    from anyorder.text.generator import Generator
    from anyorder.text.plan import Plan

Listener = Callable[[int, Step, int], None]  # (which row of the work, a step, which row of the step that is)
SEPARATE = ("seed", "most_passes", "most_memory")  # options in which rows of one batch may differ
Written = list[list[list[Hypothesis]]]  # for each input and each of its canvases the hypotheses, order by order

# ---------------------------------------------------------------- rows, and batches of them


@dataclass(frozen=True, eq=False)
class Finished:
    """Where a row ended: K hypotheses (1 unless a beam searched), as the row alone would have them."""

    tokens: Tensor  # (K, L) with padding at the end
    logp: Tensor  # (K, L)
    score: Tensor  # (K,)
    path: tuple[Tensor, Tensor, Tensor] | None = None  # position, symbol, log p (K, T) each, of a beam
    read: tuple[Seen, Texts] | None = None  # texts that were read off slots, and what they were read from


@dataclass(eq=False)
class Rows:
    """Rows that one decoder writes. Rows with equal keys may share a batch."""

    key: Hashable
    model: Any
    decoder: Decoder
    context: Any  # of all rows that were prepared together …
    state: State  # … before their first step
    at: Sequence[int]  # which of them these are
    numbers: Sequence[int]  # as the listener knows them
    beam: int = 1
    positions: int = 1
    prefixes: int = 1  # texts of a prefix beam, on canvases of slots
    blank: int = 0  # the blank of such a canvas
    top: int = 0  # best symbols that the listener wants to see of each position
    listener: Listener | None = None
    cost: Cost = field(default_factory=Cost)  # of the batch that the rows are in; their own, if no others have the key
    heard: dict[int, int] = field(default_factory=dict)  # steps that the listener was told of, by place
    finished: dict[int, Finished] = field(default_factory=dict)  # by place in `at`
    owner: Any = None  # whose they are; the scheduler's

    def __len__(self) -> int:
        return len(self.at)

    @property
    def width(self) -> int:
        """Tokens of a row with its padding, its source's included; fewer count where one column is run at a step."""
        return width(self.state, self.context)


class Row(NamedTuple):
    """One of some rows, by its place."""

    rows: Rows
    place: int


class Batch:
    """Rows of equal decoders under way. They join whenever they come, take steps together, and leave when done."""

    def __init__(self, like: Rows) -> None:
        self.like = like
        self.steps = search_of(like)
        self.inside: dict[int, Row] = {}  # by number
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self.inside)

    @property
    def size(self) -> int:
        """Tokens of a step, with padding."""
        return self.steps.width * len(self.inside) * self.like.beam

    def join(self, rows: Sequence[Row]) -> None:
        """All of them at once: the rows under way are copied a single time."""
        contexts, states, known = [], [], []
        together: dict[tuple[int, int], list[Row]] = {}  # rows that were prepared together are taken together
        for row in rows:
            together.setdefault((id(row.rows.context), id(row.rows.state)), []).append(row)
        for some in together.values():
            prepared, at = some[0].rows, [row.rows.at[row.place] for row in some]
            known += some
            whole = at == list(range(len(prepared.state.tokens)))
            index = torch.tensor(at, dtype=torch.int64, device=prepared.state.tokens.device)
            contexts.append(prepared.context if whole else without(prepared.context, index))
            states.append(prepared.state if whole else prepared.state.take(index).trim())
        numbers = [next(self._numbers) for _ in known]
        self.inside |= dict(zip(numbers, known, strict=True))
        context, state = (some[0].join(*some[1:]) if len(some) > 1 else some[0] for some in (contexts, states))
        self.steps.join(context, state, torch.tensor(numbers, dtype=torch.int64, device=state.tokens.device))

    def step(self) -> list[Row]:
        """One step of every row; those that are done leave, and are returned."""
        out = []
        for number, finished in self.steps.step(self._tell).items():
            row = self.inside.pop(number, None)
            if row is None:  # it was dropped
                continue
            row.rows.finished[row.place] = finished
            out.append(row)
        return out

    def drop(self, over: Callable[[Row], bool]) -> None:
        """Rows that are over leave, wherever they are."""
        if any(map(over, self.inside.values())):
            self.inside = {n: row for n, row in self.inside.items() if not over(row)}
            here = self.steps.numbers.tolist()
            kept = [i for i, n in enumerate(here) if n in self.inside]
            self.steps.only(torch.tensor(kept, dtype=torch.int64, device=self.steps.numbers.device))

    def _tell(self, taken: Step) -> None:
        """Listeners hear of the steps of their rows."""
        if all(row.rows.listener is None for row in self.inside.values()):
            return
        for n, number in enumerate(taken.rows.tolist()):
            rows, place = self.inside[number]
            if rows.listener is not None:
                t = int(taken.before.step[n])
                if t == rows.heard.get(place, 0):  # a row that began anew repeats itself
                    rows.heard[place] = t + 1
                    rows.listener(rows.numbers[place], taken, n)


# ---------------------------------------------------------------- decoding and searching behind one interface


class Stepping(Protocol):
    """Rows of one decoder as the core runs them, known by numbers."""

    @property
    def numbers(self) -> Tensor:
        """(n,) the numbers of the rows inside."""
        ...

    @property
    def width(self) -> int:
        """Tokens of a row with padding."""
        ...

    def join(self, context: Any, state: State, numbers: Tensor) -> None:
        """Let rows in."""
        ...

    def step(self, seen: Callable[[Step], None]) -> dict[int, Finished]:
        """One step of every row; those that are done leave, and are returned by number."""
        ...

    def only(self, keep: Tensor) -> None:
        """All but the rows at these places (m,) leave."""
        ...


def search_of(rows: Rows) -> Stepping:
    """How rows are written: the one place that chooses between decoding and the searches of the core."""
    if rows.prefixes > 1:
        return _Prefixes(rows)
    return _Search(rows) if rows.beam > 1 or rows.positions > 1 else _Decoding(rows)


class _Decoding:
    """One hypothesis a row."""

    def __init__(self, rows: Rows) -> None:
        self.running, self.top = Running(rows.model, rows.decoder, rows.cost), rows.top
        self._early: dict[int, Finished] = {}  # rows that were done when they came

    @property
    def numbers(self) -> Tensor:
        return self.running.rows

    @property
    def width(self) -> int:
        return width(self.running.state, self.running.context)

    def join(self, context: Any, state: State, numbers: Tensor) -> None:
        self.running.join(context, state, numbers)
        inside = set(self.numbers.tolist())
        self._early |= {r: _finished(state, n) for n, r in enumerate(numbers.tolist()) if r not in inside}

    def step(self, seen: Callable[[Step], None]) -> dict[int, Finished]:
        out, self._early = self._early, {}
        if not len(self.numbers):
            return out
        taken = self.running.step(self.top)
        seen(taken)
        ended: list[int] = done(self.running.decoder, taken.state).nonzero()[:, 0].tolist()
        if ended:
            out |= {int(taken.rows[n]): _finished(taken.state, n) for n in ended}
            self.running.leave()
        return out

    def only(self, keep: Tensor) -> None:
        self.running.only(keep)


@dataclass
class _Joined:
    """Rows on slots that joined together, and are read together."""

    seen: Seen
    numbers: list[int]  # consecutive
    going: set[int]


class _Prefixes(_Decoding):
    """Rows on slots: what passes saw of them is searched by a prefix beam, once all that joined together have ended."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.beam, self.blank = rows.prefixes, rows.blank
        self.anew = every_slot_anew(rows.decoder) and not rows.top
        self.running.reader.at_most = not rows.top
        self._joined: list[_Joined] = []

    def join(self, context: Any, state: State, numbers: Tensor) -> None:
        known = numbers.tolist()
        self._joined.append(_Joined(Seen(state, SYMBOLS), known, set(known)))
        super().join(context, state, numbers)

    def step(self, seen: Callable[[Step], None]) -> dict[int, Finished]:
        over, self._early = set(self._early), {}
        if len(self.numbers):
            state = self.running.state
            assert state is not None
            wanted = not self.anew or 1 in (state.remaining or (1,))
            taken = self.running.step(SYMBOLS if wanted else 0)
            seen(taken)
            if wanted:
                self._see(taken)
            over |= set(taken.rows[done(self.running.decoder, taken.state)].tolist())
            self.running.leave()
        out: dict[int, Finished] = {}
        for group in self._joined:
            group.going -= over
            if not group.going:
                found = group.seen.texts(self.beam, self.blank)
                for n, number in enumerate(group.numbers):
                    read = (group.seen, found) if self.top else None
                    out[number] = Finished(found.tokens[n], found.logp[n], found.score[n], read=read)
        self._joined = [group for group in self._joined if group.going]
        return out

    def _see(self, taken: Step) -> None:
        for group in self._joined:
            first, last = group.numbers[0], group.numbers[-1]
            mine = (taken.rows >= first) & (taken.rows <= last)
            some = taken if bool(mine.all()) else taken._replace(
                rows=taken.rows[mine], z=taken.z[mine], view=taken.view.take(mine.nonzero()[:, 0])
            )  # fmt: skip
            if len(some.rows):
                group.seen.add(some._replace(rows=some.rows - first))

    def only(self, keep: Tensor) -> None:
        super().only(keep)
        here = set(self.numbers.tolist()) | set(self._early)
        for group in self._joined:
            group.going &= here


class _Search:
    """K hypotheses a row, which compete among themselves."""

    def __init__(self, rows: Rows) -> None:
        self.searching = Searching(rows.model, rows.decoder, rows.beam, rows.positions, cost=rows.cost)
        self._joined = False  # have rows joined since the last step? They may have nothing to write

    @property
    def numbers(self) -> Tensor:
        return self.searching.rows

    @property
    def width(self) -> int:
        return width(self.searching.state, self.searching.context)

    def join(self, context: Any, state: State, numbers: Tensor) -> None:
        self.searching.join(context, state, numbers)
        self._joined = True

    def step(self, seen: Callable[[Step], None]) -> dict[int, Finished]:
        joined, self._joined = self._joined, False
        if not joined or not bool((ended := self.searching.done()).all()):
            self.searching.step()
            ended = self.searching.done()
        if not bool(ended.any()):
            return {}
        out = {}
        found, numbers, state = self.searching.found(), self.searching.rows, self.searching.state
        assert state is not None
        for n in ended.nonzero()[:, 0].tolist():
            end = int(found.tokens[n, 0].ne(state.pad_id).sum())
            path = (found.path[n], found.symbol[n], found.gain[n])
            out[int(numbers[n])] = Finished(found.tokens[n, :, :end], found.logp[n, :, :end], found.score[n], path)
        self.searching.only((~ended).nonzero()[:, 0])
        return out

    def only(self, keep: Tensor) -> None:
        self.searching.only(keep)


def _finished(state: State, n: int) -> Finished:
    end = int((state.tokens[n] != state.pad_id).sum())
    return Finished(state.tokens[n, None, :end], state.logp[n, None, :end], state.score[n, None])


def width(state: State | None, context: Any) -> int:
    """Tokens of a row with its padding, its source's included; fewer count where one column is run at a step."""
    if state is None:
        return 0
    whole = state.tokens.shape[1] + int(getattr(context, "width", 0))
    return max(1, whole // CACHED) if getattr(context, "cached", False) else whole


def alone(taken: Step, n: int) -> Step:
    """The n-th row of a step, as a step of its own: what a trace tells of it, and nothing that only decisions read."""
    at = torch.tensor([n], device=taken.rows.device)
    before, state = (one.but(view=None, memory={}).take(at) for one in (taken.before, taken.state))
    view = taken.view._replace(hidden=None, full=None).take(at)
    return Step(torch.zeros_like(at), before, taken.z[at], taken.logz[at], view, state, None, taken.written[at])


# ---------------------------------------------------------------- inputs that are written


class Piece(NamedTuple):
    """Rows of a `Write` that were prepared together, to be written by one order."""

    plan: Plan
    prepared: Prepared
    inputs: list[int]  # the input of each row
    rows: Rows
    kept: _Kept | None  # the path of the one row, where paths are kept


@dataclass(eq=False)
class Write:
    """Inputs to be written by every order of a plan."""

    generator: Generator
    inputs: Sequence[Input]
    plan: Plan
    keep: bool = False  # keep paths, for traces: each row is written alone
    scores: bool = True
    listener: Listener | None = None
    pieces: list[Piece] = field(default_factory=list)

    def clear(self) -> None:
        """Forget rows that were made: they are made anew."""
        self.pieces.clear()

    @property
    def rows(self) -> list[Rows]:
        """The rows to write, once they are prepared."""
        return [piece.rows for piece in self.pieces]

    def add(self, prepared: Prepared, rows: Sequence[int], inputs: Sequence[int]) -> None:
        """Prepared rows that are this work's, and the input of each: written by every order, together or each alone."""
        groups = [([row], [n]) for row, n in zip(rows, inputs, strict=True)] if self.keep else [(rows, inputs)]
        for own, which in groups:
            for one, decoder in self.generator.decoders(self.plan, self.scores or self.keep):
                self._add(one, decoder, prepared, list(own), list(which))

    def _add(self, one: Plan, decoder: Decoder, prepared: Prepared, own: list[int], inputs: list[int]) -> None:
        generator, known = self.generator, sum(map(len, self.rows))
        learned = id(generator.learned.get(one.order)) if isinstance(one.order, str) else None
        kept = _Kept(self.listener, shared=generator.causal and not one.searches) if self.keep else None
        separate = kept and (kept.shared or object())
        given = (getattr(one, name) for name in takes("stream") if name not in SEPARATE)
        words = tuple(tuple(value) if isinstance(value, list) else value for value in given)
        slots = one.prefix_beam or 1
        top = (SYMBOLS if slots > 1 else ALTERNATIVES) if self.keep else 0
        key = (id(generator.model), words, one.beam, one.positions, slots, learned, decoder.scored, separate)
        rows = Rows(
            key, generator.model, decoder, prepared.context, prepared.state, own, range(known, known + len(own)),
            one.beam, one.positions, slots, generator.model.special.blank if slots > 1 else 0,
            top, kept or self.listener,
        )  # fmt: skip
        whole = self.keep or one.rescore == "marginal"  # are more of the rows needed later than their names?
        self.pieces.append(Piece(one, prepared.take(own) if whole else named(prepared, own), inputs, rows, kept))

    def run(self, piece: Piece) -> list[list[Hypothesis]]:
        """Write the rows of a piece by themselves; the hypotheses of each."""
        run([piece.rows])
        self.generator.spend(piece.rows.cost)
        return self.hypotheses(piece)

    def hypotheses(self, piece: Piece) -> list[list[Hypothesis]]:
        """The hypotheses of each row of a piece, once all have ended."""
        rows, pad = piece.rows, piece.prepared.state.pad_id
        ends = [rows.finished[n] for n in range(len(rows))]
        tokens, logp = joined([e.tokens[None] for e in ends], pad), joined([e.logp[None] for e in ends])
        path = partial(self._path, piece, ends[0]) if self.keep else None
        scores = joined([e.score[None] for e in ends], -torch.inf)
        found = Found(tokens, logp, scores, rows.cost, path, read=rows.prefixes > 1)
        return self.generator.hypotheses(piece.prepared, found, piece.plan)

    def _path(self, piece: Piece, end: Finished, k: int) -> Path:
        recipe = "autoregressive" if self.generator.causal else piece.plan.name
        first, kept = piece.prepared.state, piece.kept
        assert kept is not None
        cost = kept.cost if kept.shared else piece.rows.cost
        if end.read is not None:
            return _read(recipe, first, cost, kept.steps, *end.read, piece.rows.blank, k)
        if end.path is None:
            return Path(recipe, first, cost, steps=tuple(kept.steps))
        tokens, logp, score, path, symbol, gain = (x[None] for x in (end.tokens, end.logp, end.score, *end.path))
        return Path(recipe, first, cost, beam=(Beam(tokens, logp, score, path, symbol, gain, cost), k))

    def finish(self, written: Sequence[list[list[Hypothesis]]] | None = None) -> Written:
        """The hypotheses of all pieces (made here, if they are not given), input by input and canvas by canvas."""
        written = list(map(self.hypotheses, self.pieces)) if written is None else written
        out: Written = [[] for _ in self.inputs]
        for piece, rows in zip(self.pieces, written, strict=True):
            for n, place, some in zip(piece.inputs, piece.prepared.places, rows, strict=True):
                out[n] += [[] for _ in range(len(out[n]), place.canvas + 1)]
                out[n][place.canvas] += some
        return out


def _read(
    recipe: str, first: State, cost: Cost, steps: list[Step], seen: Seen, texts: Texts, blank: int, k: int
) -> Path:
    """How the k-th text on the slots of one row was written: its last step puts there what the search chose."""
    canvases, logp = seen.canvases(texts, blank)
    *before, last = steps
    end = last.state.but(tokens=canvases[k : k + 1], logp=logp[k : k + 1], score=texts.score[0, k : k + 1])
    new = last.z | (end.tokens != last.state.tokens)
    view = View(end.tokens, end.logp, top_token=seen.symbols, top_logp=seen.logp)
    return Path(recipe, first, cost, (*before, last._replace(state=end, view=view, z=new, written=new)))


@dataclass(eq=False)
class _Kept:
    """Keeps the steps of one row, and tells the listener.

    Rows that are written from left to right share batches: each has its own part of a step, which looks at one symbol.
    """

    listener: Listener | None
    shared: bool
    steps: list[Step] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)  # of the row, where it shares a batch

    def __call__(self, row: int, taken: Step, n: int) -> None:
        self.steps.append(alone(taken, n))
        if self.shared:
            self.cost.add(Cost(1, 1, 1))
        if self.listener is not None:
            self.listener(row, taken, n)


def named(prepared: Prepared, rows: Sequence[int]) -> Prepared:
    """Some rows of a batch by name, without their part of its tensors."""
    sources, canvases, places = ([x[i] for i in rows] for x in (prepared.sources, prepared.canvases, prepared.places))
    return replace(prepared, sources=sources, canvases=canvases, places=places)  # type: ignore[arg-type]


# ---------------------------------------------------------------- bulk


def run(many: Sequence[Rows]) -> None:
    """Write rows with equal keys by themselves, in one batch from the first step to the last."""
    batch = Batch(many[0])
    batch.join([Row(rows, place) for rows in many for place in range(len(rows))])
    while len(batch):
        batch.step()


def write(
    generator: Generator, inputs: Sequence[Input], plan: Plan, keep: bool, scores: bool, told: Progress
) -> Written:
    """Any number of inputs, in windows: rows of like canvases under the token budget, batches side by side on cores."""
    out: Written = [[] for _ in inputs]
    for window in windows([one.size for one in inputs]):
        some = [i for group in window for i in group]
        if generator.causal and not keep:
            written = _cached(generator, [inputs[i] for i in some], plan, scores, told)
        else:
            written = _alike(generator, [inputs[i] for i in some], window, plan, keep, scores, told)
        for i, hypotheses in zip(some, written, strict=True):
            out[i] = hypotheses
    return out


def _alike(
    generator: Generator, inputs: Sequence[Input], window: list[list[int]], plan: Plan, keep: bool, scores: bool,
    told: Progress,
) -> Written:  # fmt: skip
    """Rows of like canvases, or each alone where its path is kept. Sources of like length are encoded together."""
    work, ends = Write(generator, inputs, plan, keep, scores), list(itertools.accumulate(map(len, window)))
    groups = [range(end - len(group), end) for group, end in zip(window, ends, strict=True)]
    encoded = side_by_side(lambda group: generator.prepare([inputs[n] for n in group], plan), groups)
    for group, prepared in zip(groups, encoded, strict=True):
        for rows in [list(range(len(prepared)))] if keep else prepared.parts(plan.beam):
            work.add(prepared, rows, [group[prepared.places[row].input] for row in rows])
    left = Counter(n for piece in work.pieces for n in set(piece.inputs))
    written = []
    for piece, found in zip(work.pieces, side_by_side(work.run, work.pieces), strict=True):
        written.append(found)
        left.subtract(set(piece.inputs))
        told(sum(not left[n] for n in set(piece.inputs)))
    return work.finish(written)


def _cached(generator: Generator, inputs: Sequence[Input], plan: Plan, scores: bool, told: Progress) -> Written:
    """Rows whose keys and values are kept: a pass runs one column of each, so rows of all sizes take it together."""
    sizes = [row_size(len(one.source), one.longest) for one in inputs]
    parts = evenly(sizes, TOKEN_BUDGET * CACHED, plan.beam)

    def write_part(some: list[int]) -> Written:
        work = Write(generator, [inputs[i] for i in some], plan, False, scores)
        for group in batches([one.size for one in work.inputs], alike=ALIKE):
            prepared = generator.prepare([work.inputs[n] for n in group], plan)
            work.add(prepared, range(len(prepared)), [group[place.input] for place in prepared.places])
        run(work.rows)
        generator.spend(work.rows[0].cost)
        return work.finish()

    out: Written = [[] for _ in inputs]
    for some, written in zip(parts, side_by_side(write_part, parts), strict=True):
        for i, hypotheses in zip(some, written, strict=True):
            out[i] = hypotheses
        told(len(some))
    return out


def steps_of(generator: Generator, given: Input, plan: Plan) -> Iterator[Step]:
    """Every step of one input's likeliest canvas, as it is taken."""
    decoders = generator.decoders(plan, True)
    expected(generator, [given], decoders).allow(plan, generator.name)
    prepared = generator.prepare([given], plan).take([0])
    yield from unroll(generator.model, prepared.context, prepared.state, decoders[0][1])
