"""Designs: stretches of a protein, a nucleic acid or a molecule written anew, everything else fixed."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor

from anyorder.core import Coordinates, Cost, Decoder, Feature, State, Symbols, View, begin, decode, everywhere, fixed
from anyorder.core import random as at_random
from anyorder.core.decode import Result
from anyorder.core.devices import device_of
from anyorder.errors import PlanError, TextError
from anyorder.machine import side_by_side
from anyorder.options import known, number
from anyorder.text import keywords
from anyorder.text.batching import batches, padded, seeds
from anyorder.text.effects import PROTEIN, RNA, from_sequence
from anyorder.text.plan import Plan, planned
from anyorder.text.rows import Canvas, Input

if TYPE_CHECKING:
    from anyorder.text.language_model import LanguageModel

CHAINS = 8192  # tokens of the chains that take their steps together
ROUNDS = 8  # rounds of drawing without enough new designs, then it is said how many there are


@dataclass(frozen=True)
class Stretch:
    """Positions [start, stop) of the parent that are written anew, and how many symbols may stand there then."""

    start: int
    stop: int
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Design:
    """One design."""

    sequence: str
    mutant: str  # its substitutions in the usual notation; where its length differs, the stretches that replace others
    identity: float  # share of the parent's symbols that it kept in place
    logp: float  # joint log p of what was written, in the order it was written
    symbol_logp: tuple[float | None, ...]  # log p of each symbol when it was written; None where it was fixed
    pll: float | None = None  # pseudo log-likelihood of the whole, where it was asked for

    def __str__(self) -> str:
        return self.sequence


@dataclass(frozen=True)
class Chain:
    """A Gibbs chain as protein_gibbs_sampler runs it, by its names: each iteration draws some positions anew."""

    num_iters: int = 10  # iterations
    num_positions: int = 0  # positions an iteration; 0: all that may change
    in_order: bool = False  # go through the positions in turn; otherwise they are drawn at random
    leader_length: int = 0  # symbols at the beginning that stay
    rollover_from_start: bool = False  # in turn: begin again at the first symbol and not behind the leader
    top_k: int = 0  # draw among that many of the most probable; 0: among all
    burnin: int = 0  # iterations at first that draw among all, whatever top_k says
    mask: bool = True  # hide the chosen positions from the model; False: they are drawn while it sees them

    def __post_init__(self) -> None:
        for name, least in (("num_iters", 1), ("num_positions", 0), ("leader_length", 0), ("top_k", 0), ("burnin", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise PlanError(f"{name} is a whole number of at least {least}; got {value!r}")
        if self.burnin and not self.top_k:
            raise PlanError("burnin says when top_k begins: without top_k it could have no effect")
        if self.rollover_from_start and not (self.in_order and self.leader_length):
            raise PlanError("rollover_from_start is for chains in_order with a leader_length")

    def decoders(self, temperature: float, allowed: Tensor) -> Iterator[Decoder]:
        """D(C(random or in turn, fixed(k), everywhere), Symbols(τ, top-k), steps) before and after the burn-in."""
        open_ = int(allowed.any(-1).sum())
        k = min(self.num_positions or open_, open_)
        for first, steps in ((True, min(self.burnin, self.num_iters)), (False, max(0, self.num_iters - self.burnin))):
            if steps:
                order = _in_turn(k, 0 if first else self.burnin) if self.in_order else at_random
                symbols = Symbols(temperature, top_k=(self.top_k or None) if not first else None, allowed=allowed)
                yield Decoder(Coordinates(order, fixed(k), everywhere), symbols, steps=steps, hide=self.mask)


def _in_turn(k: int, before: int) -> Feature:
    """φ_i: positions in turn, k a step, from the first on, after `before` steps."""

    def score(state: State, view: View) -> Tensor:
        begun = (state.step + before)[:, None] * k
        return -((state.place - begun) % state.length[:, None]).to(state.logp.dtype)

    return Feature("in-turn", score, blind=True)


# ---------------------------------------------------------------------- what may change


def read_stretches(text: str, size: int, offset: int = 1) -> tuple[Stretch, ...]:
    """ "95-102,30" or, with a range of new lengths, "95-102:6-10"; positions count from `offset`."""
    out = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?(?:\s*:\s*(\d+)(?:\s*-\s*(\d+))?)?\s*", part)
        if not found:
            raise TextError(f"{part.strip()!r} is no stretch: write for instance 95-102 or 95-102:6-10")
        first, last, low, high = (None if x is None else int(x) for x in found.groups())
        assert first is not None
        start, stop = first - offset, (first if last is None else last) - offset + 1
        if start < 0 or stop > size or stop <= start:
            raise TextError(f"{part.strip()}: the sequence goes from {offset} to {size + offset - 1}")
        lengths = (stop - start,) if low is None else tuple(range(low, (low if high is None else high) + 1))
        if not lengths or min(lengths) < 1:
            raise TextError(f"{part.strip()}: a stretch has at least one symbol, and its lengths go upwards")
        out.append(Stretch(start, stop, lengths))
    out.sort(key=lambda s: s.start)
    for a, b in itertools.pairwise(out):
        if b.start < a.stop:
            raise TextError(f"{text}: two stretches overlap")
    return tuple(out)


@dataclass(frozen=True)
class Alphabet:
    """The symbols that a model's tokenizer cuts sequences into."""

    ids: Mapping[str, int]  # the symbols that may be written, as they read
    pieces: tuple[str, ...]  # the parent's symbols …
    parent: tuple[int, ...]  # … and their ids

    @classmethod
    def of(cls, writer: LanguageModel, parent: str) -> Alphabet:
        """The alphabet in which a parent reads symbol by symbol; letters where the vocabulary is letters."""
        ids = writer._encode(parent)
        special = set(writer.model.special_ids)
        names = {i: str(writer.tokenizer.decode([i])).replace(" ", "") for i in range(len(writer.tokenizer))}
        known = {name: i for i, name in names.items() if name and i not in special}
        pieces = tuple(names.get(i, "") for i in ids)
        if "".join(pieces) != parent or not ids:
            raise TextError(
                f"{writer.name} does not read this sequence symbol by symbol: {parent[:40]!r} becomes "
                f"{' '.join(pieces[:20])!r}"
            )
        for usual in (PROTEIN, RNA):
            if all(len(p) == 1 for p in pieces) and known.keys() >= set(usual) >= set(parent):
                known = {c: known[c] for c in usual}
        return cls(known, pieces, tuple(ids))

    def some(self, text: str) -> set[int]:
        """The ids of symbols that are written together ("DE") or, if they are longer, with spaces ("Cl Br")."""
        names = text.split() if " " in text.strip() or text in self.ids else list(text)
        if strange := [name for name in names if name not in self.ids]:
            raise TextError(f"the model does not write {', '.join(strange)}; it writes {' '.join(self.ids)}")
        return {self.ids[name] for name in names}


def rules(some: str | Sequence[str] | None, size: int, offset: int) -> list[tuple[range | None, str]]:
    """ "C" or "95-102:C": the letters of a rule and its positions (None: everywhere)."""
    out: list[tuple[range | None, str]] = []
    for rule in [some] if isinstance(some, str) else some or ():
        where, colon, letters = rule.rpartition(":")
        if not colon:
            out.append((None, letters))
            continue
        for stretch in read_stretches(where, size, offset):
            out.append((range(stretch.start, stretch.stop), letters))
    return out


@dataclass
class Designer:
    """Draws designs of one parent."""

    writer: LanguageModel
    parent: str
    stretches: tuple[Stretch, ...]
    alphabet: Alphabet
    allow: list[tuple[range | None, str]] = field(default_factory=list)
    ban: list[tuple[range | None, str]] = field(default_factory=list)
    near: int | None = None  # substitutions of a design at most
    seed: int = 0
    offset: int = 1

    def __post_init__(self) -> None:
        self.start, self.end = self.writer._wrap([])
        if self.near is not None and any(s.lengths != (s.stop - s.start,) for s in self.stretches):
            raise PlanError("near counts substitutions, so the stretches keep their lengths: leave the ranges out")
        if self.near is not None and self.near < 1:
            raise PlanError(f"near is at least 1; got {self.near}")

    def lengths(self, copy: int) -> tuple[int, ...]:
        """The lengths of a design's stretches, drawn from their ranges."""
        rng = random.Random(f"{self.seed} lengths {copy}")
        return tuple(rng.choice(s.lengths) for s in self.stretches)

    def layout(self, lengths: Sequence[int]) -> list[int | None]:
        """For each symbol of a design the parent's position that it stands for; None where it is one symbol more."""
        out: list[int | None] = []
        at = 0
        for s, n in zip(self.stretches, lengths, strict=True):
            out += range(at, s.start)
            out += [s.start + j if j < s.stop - s.start else None for j in range(n)]
            at = s.stop
        return [*out, *range(at, len(self.alphabet.parent))]

    def region(self, lengths: Sequence[int]) -> list[bool]:
        """Which symbols of a design are written anew."""
        out: list[bool] = []
        at = 0
        for s, n in zip(self.stretches, lengths, strict=True):
            out += [False] * (s.start - at) + [True] * n
            at = s.stop
        return out + [False] * (len(self.alphabet.parent) - at)

    def allowed(self, lengths: Sequence[int], vocabulary: int) -> Tensor:
        """(L, V) bool: what may stand at each column of a canvas; nothing where it is fixed."""
        region, layout = self.region(lengths), self.layout(lengths)
        out = torch.zeros(len(self.start) + len(region) + len(self.end), vocabulary, dtype=torch.bool)
        for j, (new, place) in enumerate(zip(region, layout, strict=True)):
            if new:
                some = self._letters(place)
                if not some:
                    raise TextError(f"position {self.offset + (place or 0)}: the rules leave no symbol to write")
                out[len(self.start) + j, sorted(some)] = True
        return out

    def _letters(self, place: int | None) -> set[int]:
        some = set(self.alphabet.ids.values())

        def here(rule: list[tuple[range | None, str]]) -> list[set[int]]:
            return [
                self.alphabet.some(c) for where, c in rule if where is None or (place is not None and place in where)
            ]

        if chosen := here(self.allow):
            some &= set().union(*chosen)
        return some - set().union(*here(self.ban))

    def canvas(self, copy: int, lengths: Sequence[int], blank: bool) -> tuple[list[int], list[bool]]:
        """A canvas and which of its columns are open; `blank` masks these, otherwise the parent stands there."""
        region, layout = self.region(lengths), self.layout(lengths)
        if self.near is not None:
            places = [j for j, new in enumerate(region) if new]
            kept = random.Random(f"{self.seed} near {copy}").sample(places, min(self.near, len(places)))
            region = [j in kept for j in range(len(region))]
        mask = self.writer.model.mask_id
        ids = [
            mask if new and (blank or place is None) else self.alphabet.parent[place or 0]
            for new, place in zip(region, layout, strict=True)
        ]
        sides = [False] * len(self.start), [False] * len(self.end)
        return [*self.start, *ids, *self.end], [*sides[0], *region, *sides[1]]

    def made(self, lengths: Sequence[int], open_: Sequence[bool], ids: Sequence[int], logp: Sequence[float]) -> Design:
        """A canvas that was written, as a design."""
        a, b = len(self.start), len(self.start) + len(self.region(lengths))
        names = {i: name for name, i in self.alphabet.ids.items()} | dict(
            zip(self.alphabet.parent, self.alphabet.pieces, strict=True)
        )
        inner, layout = ids[a:b], self.layout(lengths)
        written = [p if o else None for p, o in zip(logp[a:b], open_[a:b], strict=True)]
        same = sum(p is not None and i == self.alphabet.parent[p] for i, p in zip(inner, layout, strict=True))
        identity = same / max(len(inner), len(self.alphabet.parent))
        sequence = "".join(names[i] for i in inner)
        return Design(
            sequence,
            self._mutant(lengths, sequence, inner, names),
            identity,
            sum(x or 0.0 for x in written),
            tuple(written),
        )

    def _mutant(self, lengths: Sequence[int], sequence: str, inner: Sequence[int], names: Mapping[int, str]) -> str:
        pieces, parts, shift = self.alphabet.pieces, list[str](), 0
        aligned = all(n == s.stop - s.start for s, n in zip(self.stretches, lengths, strict=True))
        if aligned and all(len(p) == 1 for p in pieces) and len(sequence) == len(self.parent):
            return from_sequence(self.parent, sequence, self.offset).mutant
        for s, n in zip(self.stretches, lengths, strict=True):
            new = "".join(names[i] for i in inner[s.start + shift : s.start + shift + n])
            first, last = (f"{pieces[j]}{j + self.offset}" for j in (s.start, s.stop - 1))
            if new != "".join(pieces[s.start : s.stop]):
                parts.append(f"{first}_{last}delins{new}")
            shift += n - (s.stop - s.start)
        return ":".join(parts) or "WT"

    # ------------------------------------------------------------------ drawing

    def draw(self, copies: Sequence[int], plan: Plan) -> list[Design]:
        """One design for each copy, by a plan (orders, temperatures, beams as everywhere)."""
        out: dict[int, Design] = {}
        for lengths, some in self._alike(copies).items():
            canvases = [self.canvas(copy, lengths, blank=True) for copy in some]
            decoder = self.writer.generator.decoder(plan)
            allowed = self.allowed(lengths, self._width)
            ruled = replace(decoder, symbols=replace(decoder.symbols, allowed=allowed))
            options = {"beam": plan.beam, "positions": plan.positions, "seed": self.seed}
            inputs = [Input(canvases=(Canvas(tuple(c), copy=k),)) for k, (c, _) in zip(some, canvases, strict=True)]
            found = self.writer.generator.generate(inputs, Plan.of(ruled, **options))
            for copy, (_, open_), hypotheses in zip(some, canvases, found, strict=True):
                best = max(hypotheses, key=lambda h: h.score)
                out[copy] = self.made(lengths, open_, best.ids, best.logp)
        return [out[copy] for copy in copies]

    def run(self, copies: Sequence[int], chain: Chain, temperature: float) -> list[Design]:
        """One design for each copy: the state in which its chain ends."""
        cost, out = Cost(), dict[int, Design]()
        for lengths, some in self._alike(copies).items():
            canvases = [self.canvas(copy, lengths, blank=False) for copy in some]
            lead = 0 if chain.rollover_from_start else len(self.start) + chain.leader_length
            canvases = [(c, [o and j >= lead for j, o in enumerate(open_)]) for c, open_ in canvases]
            if not any(canvases[0][1]):
                raise PlanError(f"leader_length {chain.leader_length} leaves no position to change")
            allowed = self.allowed(lengths, self._width) & torch.tensor(canvases[0][1])[:, None]
            rows = [(c, o, copy) for (c, o), copy in zip(canvases, some, strict=True)]
            parts = [[rows[j] for j in part] for part in batches([len(c) for c, _ in canvases], CHAINS)]
            work = partial(self._chains, chain=chain, temperature=temperature, allowed=allowed)
            for part, (result, spent) in zip(parts, side_by_side(work, parts), strict=True):
                cost.add(spent)
                for (_, open_, copy), ids, logp in zip(part, result.tokens.tolist(), result.logp.tolist(), strict=True):
                    out[copy] = self.made(lengths, open_, ids, logp)
        self.writer.generator.spend(cost)
        return [out[copy] for copy in copies]

    def _chains(
        self, rows: Sequence[tuple[list[int], list[bool], int]], chain: Chain, temperature: float, allowed: Tensor
    ) -> tuple[Result, Cost]:
        """Where the chains of rows (canvas, open columns, copy) of one length end, and what they cost."""
        model, cost = self.writer.model, Cost()
        device = device_of(model)
        tokens = padded([c for c, _, _ in rows], model.pad_id).to(device)
        open_ = torch.tensor([o for _, o, _ in rows], device=device)
        keys = seeds(self.seed, [[*c, copy] for c, _, copy in rows]).to(device)
        state = begin(tokens, model.mask_id, model.pad_id, open=open_, seed=keys)
        result = None
        for stage, decoder in enumerate(chain.decoders(temperature, allowed.to(device))):
            fresh = state if result is None else state.but(tokens=result.tokens, logp=result.logp, seed=keys + stage)
            result = decode(model, model.encode(None), fresh, decoder)
            cost.add(result.cost)
        assert result is not None
        return result, cost

    @property
    def _width(self) -> int:
        return int(self.writer.model.logits(self._hidden).shape[-1])

    @property
    def _hidden(self) -> Tensor:
        with torch.inference_mode():
            ids = [[*self.start, *self.alphabet.parent[:1], *self.end]]
            tokens = torch.tensor(ids, device=device_of(self.writer.model))
            return self.writer.model.hidden(self.writer.model.encode(None), tokens)[0, :1]  # type: ignore[no-any-return]

    def _alike(self, copies: Sequence[int]) -> dict[tuple[int, ...], list[int]]:
        out: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for copy in copies:
            out[self.lengths(copy)].append(copy)
        return out


def longest_run(sequence: str) -> int:
    """The longest run of one letter."""
    return max((len(list(run)) for _, run in itertools.groupby(sequence)), default=0)


def design(
    writer: LanguageModel,
    parent: str,
    redesign: str,
    n: int = 1,
    *,
    allow: str | Sequence[str] | None = None,
    ban: str | Sequence[str] | None = None,
    near: int | None = None,
    most_run: int | None = None,
    duplicates: bool = False,
    pll: bool = True,
    offset: int = 1,
    chain: Chain | None = None,
    **options: Unpack[keywords.Design],
) -> list[Design]:
    """n designs; `options` are those of a plan. Designs that break a guard, or were drawn before, are replaced."""
    number("n", n)
    alphabet, seed = Alphabet.of(writer, parent), int(options.pop("seed", 0))
    size = len(alphabet.parent)
    designer = Designer(
        writer, parent, read_stretches(redesign, size, offset), alphabet,
        rules(allow, size, offset), rules(ban, size, offset), near, seed, offset,
    )  # fmt: skip
    temperature = float(options.get("temperature", 1.0))
    usual = {name: one.of("design")[0] for name, one in known().items()}
    others = sorted(name for name, value in options.items() if name != "temperature" and value != usual.get(name))
    if chain is not None and others:
        raise PlanError(f"a chain has its own order and steps: {', '.join(others)} could have no effect")
    plan = None if chain is not None else planned("design", None, options, seed=seed)
    certain = plan is not None and plan.order != "uniform" and not plan.temperature and not plan.order_temperature
    if certain and n > 1 and near is None:
        raise PlanError("temperature 0 gives one and the same design: raise it, or take n=1")
    guard = max(most_run or 0, longest_run(parent)) if most_run else None
    found: list[Design] = []
    seen, why, copy, idle = set[str](), Counter[str](), 0, 0
    while len(found) < n and idle < ROUNDS:
        copies = range(copy, copy + n - len(found))
        copy, before = copies.stop, len(found)
        drawn = designer.draw(copies, plan) if plan is not None else designer.run(copies, chain or Chain(), temperature)
        for one in drawn:
            if guard and longest_run(one.sequence) > guard:
                why[f"have a run of more than {guard} of one letter"] += 1
            elif not duplicates and one.sequence in seen:
                why["were drawn before"] += 1
            else:
                seen.add(one.sequence)
                found.append(one)
        idle = idle + 1 if len(found) == before else 0
    if len(found) < n:
        reasons = " and ".join(f"{count} {what}" for what, count in why.items())
        raise PlanError(
            f"only {len(found)} of {n} designs were found in {copy} draws: {reasons} (raise the temperature, ask for "
            "fewer, or allow duplicates)"
        )
    if not pll:
        return found
    scores = writer.score([one.sequence for one in found])
    return [replace(one, pll=s.total) for one, s in zip(found, scores, strict=True)]
