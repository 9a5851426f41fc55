"""Writer: fill, infill, generate and score text with a masked or diffusion language model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from torch import Tensor

from anyorder.core import Cost, unroll
from anyorder.errors import TextError
from anyorder.text.generator import Generator
from anyorder.text.plan import WRITING, Plan, planned
from anyorder.text.results import Filling, Hypothesis, Moment, TextScore
from anyorder.text.rows import Canvas, Input
from anyorder.text.scoring import Whole
from anyorder.traces.trace import Trace

MASKS = ("[MASK]", "<mask>")  # how people write a mask, whatever the model's own is
GAP = "{}"
MANY = (*WRITING, "beam", "positions")  # options for those who write several fillings


@dataclass
class Writer:
    """A masked language model with its tokenizer (Hugging Face's interface)."""

    model: Any
    tokenizer: Any
    name: str = "model"
    generator: Generator = field(init=False, repr=False)  # ids in, hypotheses out

    def __post_init__(self) -> None:
        self.generator = Generator(self.model, name=self.name)

    @property
    def cost(self) -> Cost:
        """Of everything this writer has done."""
        return self.generator.cost

    @overload
    def fill(self, texts: str, n: int = 5, **options: Any) -> list[Filling]: ...
    @overload
    def fill(self, texts: Sequence[str], n: int = 5, **options: Any) -> list[list[Filling]]: ...

    def fill(self, texts: str | Sequence[str], n: int = 5, **options: Any) -> list[Filling] | list[list[Filling]]:
        """Fill every mask of a text jointly; the n best fillings by joint probability.

        Options are what makes a decoder (order, steps, …), beam and positions; the default writes the surest position
        first, with a beam of max(n, 8).
        """
        plan = planned("fill", MANY, None, {"order": "negent", "beam": max(n, 8), **options})
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
        counts. Options are those of `fill`.
        """
        plan = planned("infill", MANY, None, {"order": "negent", "beam": max(n, 4), **options})
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
        """n texts of `length` tokens after `prompt`. Sampled by default: order random, temperature 1.

        Options are those of `fill`; a beam needs temperature 0.
        """
        if length < 1:
            raise TextError(f"length must be at least 1, got {length}")
        plan = planned("generate", MANY, None, {"order": "uniform", "temperature": 1.0, **options})
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
        """Watch the masks of a text being filled: a `Moment` per step. Options are what makes a decoder."""
        plan = planned("stream", WRITING, None, {"order": "negent", **options})
        batch = self.generator.prepare([self._input(self._canvas(text))], plan)
        for t, taken in enumerate(unroll(self.model, batch.context, batch.state, self.generator.decoder(plan))):
            tokens = taken.state.tokens[0]
            written = tuple(taken.z[0].nonzero()[:, 0].tolist())
            yield Moment(t, self._strings(tokens), written, self._text(tokens.tolist()))

    def trace(self, text: str, **options: Any) -> Trace:
        """How the masks of a text are filled greedily, step by step, with alternatives; options as in `stream`."""
        plan = planned("trace", WRITING, None, {"order": "negent", **options})
        (best,) = self.generator.generate([self._input(self._canvas(text))], plan, keep=True)[0]
        assert best.path is not None
        return best.path.trace(self._strings, text=self._text(best.ids))

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

    @staticmethod
    def _input(canvas: Sequence[int], copy: int = 0) -> Input:
        return Input(canvases=(Canvas(tuple(canvas), copy=copy),))

    def _fillings(self, canvases: list[list[int]], plan: Plan, samples: bool = False) -> list[list[Filling]]:
        """The fillings of each canvas; with `samples`, canvases that are alike are filled each in its own way."""
        inputs = [self._input(canvas, n if samples else 0) for n, canvas in enumerate(canvases)]
        found = self.generator.generate(inputs, plan)
        return [[self._filling(canvas, h) for h in some] for canvas, some in zip(canvases, found, strict=True)]

    def _filling(self, canvas: Sequence[int], h: Hypothesis) -> Filling:
        where = [i for i, token in enumerate(canvas) if token == self.model.mask_id]
        new = tuple(h.ids[i] for i in where)
        return Filling(self._text(h.ids), self._names(new), new, sum(h.logp[i] for i in where), h.path_score)

    def _pll(self, rows: Sequence[list[int]]) -> list[Tensor]:
        """log p of each token of each text given all its others."""
        wholes = []
        for ids in rows:
            start, end = self._wrap(ids)
            wholes.append(Whole((), start + end, len(start) - len(ids), len(start)))
        return self.generator.log_probs(wholes)

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
