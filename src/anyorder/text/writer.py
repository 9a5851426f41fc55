"""Writer: fill, infill, generate and score text with a masked or diffusion language model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import torch
from torch import Tensor

from anyorder.core import Cost, Decoder, State, begin, token_scores, unroll
from anyorder.text.batching import batches, padded, search, seeds, total
from anyorder.text.plan import Plan
from anyorder.text.results import Moment, TextError
from anyorder.traces.record import record
from anyorder.traces.trace import Trace

MASKS = ("[MASK]", "<mask>")  # how people write a mask, whatever the model's own is
GAP = "{}"


@dataclass(frozen=True)
class Filling:
    """One way to fill a text."""

    text: str
    tokens: tuple[str, ...]  # the tokens that were written, left to right
    ids: tuple[int, ...]
    logp: float  # log p of all of them jointly, in the order they were written
    score: float  # what fillings are ranked by

    @property
    def probability(self) -> float:
        return math.exp(self.logp)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TextScore:
    """The pseudo log-likelihood of a text."""

    text: str
    tokens: tuple[str, ...]
    logp: tuple[float, ...]  # log p of each token given all others

    @property
    def total(self) -> float:
        return sum(self.logp)

    @property
    def perplexity(self) -> float:
        """exp(−PLL/n), the pseudo-perplexity."""
        return math.exp(-self.total / max(1, len(self.logp)))


@dataclass
class Writer:
    """A masked language model with its tokenizer (Hugging Face's interface)."""

    model: Any
    tokenizer: Any
    name: str = "model"
    cost: Cost = field(default_factory=Cost)

    @overload
    def fill(self, texts: str, n: int = 5, **options: Any) -> list[Filling]: ...
    @overload
    def fill(self, texts: Sequence[str], n: int = 5, **options: Any) -> list[list[Filling]]: ...

    def fill(self, texts: str | Sequence[str], n: int = 5, **options: Any) -> list[Filling] | list[list[Filling]]:
        """Fill every mask of a text jointly; the n best fillings by joint probability.

        Options are those of `Plan`; the default writes the surest position first, with a beam of max(n, 8).
        """
        plan = Plan(**{"order": "negent", "beam": max(n, 8), **options})
        many = [texts] if isinstance(texts, str) else list(texts)
        canvases = [self._canvas(text) for text in many]
        for text, ids in zip(many, canvases, strict=True):
            if self.model.mask_id not in ids:
                raise TextError(
                    f"there is no mask in {text!r}: write {self.tokenizer.mask_token} where a word is missing"
                )
        found = [sorted(f, key=lambda x: -x.score)[:n] for f in self._fillings(canvases, plan)]
        return found[0] if isinstance(texts, str) else found

    def infill(self, text: str, length: int | Iterable[int] = range(1, 6), n: int = 1, **options: Any) -> list[Filling]:
        """Fill gaps of unknown length, each written {}: every length is tried, the best chosen by score.

        The score is the mean pseudo log-likelihood of the whole text, so that lengths compare and what follows the gap
        counts. Options are those of `Plan`.
        """
        plan = Plan(**{"order": "negent", "beam": max(n, 4), **options})
        lengths = [length] if isinstance(length, int) else list(length)
        gaps = text.count(GAP)
        if not gaps:
            raise TextError(f"there is no gap in {text!r}: write {GAP} where text is missing")
        if not lengths or min(lengths) < 1:
            raise TextError(f"gap lengths must be at least 1, got {lengths}")
        mask = str(self.tokenizer.mask_token)
        texts = []
        for choice in itertools.product(lengths, repeat=gaps):
            parts = text.split(GAP)
            joined = [p + " ".join([mask] * k) for p, k in zip(parts, choice, strict=False)]
            texts.append("".join(joined) + parts[-1])
        canvases = [self._canvas(t) for t in texts]
        fillings = [f for group in self._fillings(canvases, plan) for f in group]
        scores = self._pll([self._encode(f.text) for f in fillings])
        ranked = [replace(f, score=float(s.sum()) / max(1, len(s))) for f, s in zip(fillings, scores, strict=True)]
        return sorted(ranked, key=lambda f: -f.score)[:n]

    def generate(self, length: int, n: int = 1, prompt: str = "", **options: Any) -> list[Filling]:
        """n texts of `length` tokens after `prompt`. Sampled by default: order random, temperature 1."""
        if length < 1:
            raise TextError(f"length must be at least 1, got {length}")
        plan = Plan(**{"order": "uniform", "temperature": 1.0, **options})
        ids = self._encode(prompt) if prompt else []
        start, end = self._wrap(ids)
        canvas = [*start, *[self.model.mask_id] * length, *end]
        found = self._fillings([canvas] * n, plan, samples=True)
        return [group[0] for group in found]

    @overload
    def score(self, texts: str) -> TextScore: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, texts: Sequence[str]) -> list[TextScore]: ...

    def score(self, texts: str | Sequence[str]) -> TextScore | list[TextScore]:
        """Pseudo log-likelihood, and log p of each token given all others."""
        many = [texts] if isinstance(texts, str) else list(texts)
        ids = [self._encode(text) for text in many]
        for text, row in zip(many, ids, strict=True):
            if not row:
                raise TextError(f"there is nothing to score in {text!r}")
        rows = zip(many, ids, self._pll(ids), strict=True)
        out = [TextScore(text, self._names(row), tuple(p.tolist())) for text, row, p in rows]
        return out[0] if isinstance(texts, str) else out

    def stream(self, text: str, **options: Any) -> Iterator[Moment]:
        """Watch the masks of a text being filled: a `Moment` a step."""
        state, decoder = self._one(text, Plan(**{"order": "negent", **options}))
        for taken in unroll(self.model, self.model.encode(None), state, decoder):
            tokens = taken.state.tokens[0]
            written = tuple(taken.z[0].nonzero()[:, 0].tolist())
            yield Moment(int(taken.before.step[0]), self._strings(tokens), written, self._text(tokens.tolist()))

    def trace(self, text: str, **options: Any) -> Trace:
        """How the masks of a text are filled greedily, step by step, with alternatives."""
        plan = Plan(**{"order": "negent", **options})
        state, decoder = self._one(text, plan)
        cost = Cost()
        steps = list(unroll(self.model, self.model.encode(None), state, decoder, cost=cost, alternatives=5))
        end = self._text(steps[-1].state.tokens[0].tolist())
        return record(steps, 0, self._strings, cost, recipe=plan.name, text=end)

    # ------------------------------------------------------------------ canvases

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _wrap(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """What the tokenizer puts around a text: ([CLS] + ids, [SEP]) for a BERT."""
        special = list(self.tokenizer.encode(""))
        head = self._head(special)
        return special[:head] + ids, special[head:]

    @staticmethod
    def _head(special: list[int]) -> int:
        return (len(special) + 1) // 2

    def _canvas(self, text: str) -> list[int]:
        """The ids of a text with its masks, special tokens around it."""
        for name in MASKS:
            text = text.replace(name, str(self.tokenizer.mask_token))
        start, end = self._wrap(self._encode(text))
        return start + end

    def _state(self, canvases: Sequence[Sequence[int]], plan: Plan, copies: Sequence[int] | None = None) -> State:
        tokens = padded(canvases, self.model.pad_id)
        keys = seeds(plan.seed, [[*row, c] for row, c in zip(canvases, copies or [0] * len(canvases), strict=True)])
        return begin(tokens, self.model.mask_id, self.model.pad_id, seed=keys)

    def _one(self, text: str, plan: Plan) -> tuple[State, Decoder]:
        return self._state([self._canvas(text)], plan), plan.decoder(self.model.special_ids)

    def _fillings(self, canvases: list[list[int]], plan: Plan, samples: bool = False) -> list[list[Filling]]:
        """The fillings of each canvas, through the engine in batches."""
        decoder = plan.decoder(self.model.special_ids)
        out: list[list[Filling]] = [[] for _ in canvases]
        for part in batches([len(c) for c in canvases], copies=plan.beam):
            state = self._state([canvases[i] for i in part], plan, part if samples else None)
            found = search(self.model, self.model.encode(None), state, decoder, plan.beam, plan.positions)
            self.cost = total([self.cost, found.cost])
            for n, i in enumerate(part):
                where = state.open[n].nonzero()[:, 0]
                for k in range(found.tokens.shape[1]):
                    score = float(found.score[n, k])
                    if score > -math.inf:
                        ids = found.tokens[n, k].tolist()
                        new = found.tokens[n, k, where].tolist()
                        logp = float(found.logp[n, k, where].sum())
                        out[i].append(Filling(self._text(ids), self._names(new), tuple(new), logp, score))
        return out

    def _pll(self, rows: Sequence[list[int]]) -> list[Tensor]:
        """log p of each token of each text given all its others."""
        out: list[Tensor] = [torch.zeros(0) for _ in rows]
        for part in batches([len(r) + 2 for r in rows]):
            wrapped = [self._wrap(rows[i]) for i in part]
            tokens = padded([a + b for a, b in wrapped], self.model.pad_id)
            special = [len(a) - len(rows[i]) for i, (a, _) in zip(part, wrapped, strict=True)]
            open_ = torch.zeros_like(tokens, dtype=torch.bool)
            for n, i in enumerate(part):
                open_[n, special[n] : special[n] + len(rows[i])] = True
            state = begin(tokens, self.model.mask_id, self.model.pad_id, open=open_)
            cost = Cost()
            values = token_scores(self.model, self.model.encode(None), state, masked=True, cost=cost)
            self.cost = total([self.cost, cost])
            for n, i in enumerate(part):
                out[i] = values[n, open_[n]]
        return out

    # ------------------------------------------------------------------ ids and strings

    def _names(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.tokenizer.convert_ids_to_tokens(list(ids)))

    def _strings(self, ids: Tensor) -> tuple[str | None, ...]:
        kept = [i for i in ids.tolist() if i != self.model.pad_id]
        return tuple(None if i == self.model.mask_id else name for i, name in zip(kept, self._names(kept), strict=True))

    def _text(self, ids: Sequence[int]) -> str:
        """Text with the blanks that are left shown as ___."""
        parts: list[str] = []
        for masked, group in itertools.groupby(ids, key=lambda i: i == self.model.mask_id):
            if masked:
                parts += ["___" for _ in group]
            else:
                parts.append(self.tokenizer.decode(list(group), skip_special_tokens=True))
        return " ".join(p for p in parts if p)
