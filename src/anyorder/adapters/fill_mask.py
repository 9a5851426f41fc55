"""Fill-mask as transformers has it, and jointly: `pipeline("fill-mask", model=…)`.

One mask: the same answer as `transformers.pipeline("fill-mask")`. Several masks: joint fillings, best first, where
transformers lists the words of each mask on its own. A masked language model has no one joint distribution: the score
is the chain rule in a named order, exp Σ_k log p(y_σk | y_σ<k, the rest masked), or its mean log p over all orders.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from anyorder.errors import PlanError, TextError
from anyorder.models.masked_lm import MaskedLM
from anyorder.text.batching import TOKEN_BUDGET, batches, padded
from anyorder.text.load import load

Answer = dict[str, Any]
Compare = Literal["text", "token"]
ORDERS = ("left2right", "right2left", "mean")
MOST = 4  # masks of which "mean" takes all orders
AT_ONCE = 16  # partial fillings that are looked at together
LIMIT = 20_000  # partial fillings that may be looked at for one text


class FillMask:
    """Masks of a text and what belongs there."""

    def __init__(self, model: MaskedLM, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(
        self,
        inputs: str | Sequence[str],
        top_k: int = 5,
        targets: str | Sequence[str] | None = None,
        *,
        order: str = "left2right",
        compare: Compare = "text",
    ) -> Any:
        """The `top_k` best fillings of each text, best first; of one text a flat list, as transformers has it.

        `targets` are words of any number of tokens; `compare` says whether words of different lengths are compared by
        their whole probability ("text") or by its geometric mean per token ("token"). `order` is that of the chain rule
        over several masks or tokens: left2right, right2left, or mean (over all orders).
        """
        if order not in ORDERS:
            raise PlanError(f"order is one of {', '.join(ORDERS)}; got {order!r}")
        if compare not in ("text", "token"):
            raise PlanError(f"compare is 'text' or 'token'; got {compare!r}")
        if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
            raise PlanError(f"top_k is a whole number of at least 1; got {top_k!r}")
        words = [targets] if isinstance(targets, str) else targets
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        found = [self._answer(text, top_k, words, order, compare) for text in texts]
        return (
            found[0] if isinstance(inputs, str) or len(texts) == 1 else found
        )  # one text: flat, as transformers has it

    def _answer(self, text: str, k: int, words: Sequence[str] | None, order: str, compare: Compare) -> list[Answer]:
        ids = list(self.tokenizer(text)["input_ids"])
        masks = [i for i, token in enumerate(ids) if token == self.model.mask_id]
        if not masks:
            raise TextError(f"there is no {self.tokenizer.mask_token} in {text!r}")
        if words is not None:
            return self._targets(ids, masks, words, k, order, compare)
        if compare != "text":
            raise PlanError("compare is for targets: without them all fillings have as many tokens as masks")
        if len(masks) == 1:
            p = self._log_p([ids], [masks])[0][0].exp()
            best = p.topk(min(k, len(p)))
            return [self._one(ids, masks[0], int(t), float(v)) for v, t in zip(best.values, best.indices, strict=True)]
        orders = self._orders(masks, order)
        some = best_by_mean([self._descending(ids, each) for each in orders], k, self._scorer(ids, orders))
        return [self._several(ids, masks, filling, math.exp(score)) for score, filling in some]

    # ------------------------------------------------------------------ answers

    def _one(self, ids: Sequence[int], mask: int, token: int, score: float) -> Answer:
        filled = [*ids[:mask], token, *ids[mask + 1 :]]
        said = self.tokenizer.decode([i for i in filled if i != self.model.pad_id], skip_special_tokens=True)
        return {"score": score, "token": token, "token_str": self.tokenizer.decode([token]), "sequence": said}

    def _several(self, ids: Sequence[int], masks: Sequence[int], tokens: Sequence[int], score: float) -> Answer:
        filled = list(ids)
        for i, token in zip(masks, tokens, strict=True):
            filled[i] = token
        names = [self.tokenizer.decode([t]) for t in tokens]
        said = self.tokenizer.decode(filled, skip_special_tokens=True)
        return {"score": score, "token": list(tokens), "token_str": names, "sequence": said}

    # ------------------------------------------------------------------ targets

    def _targets(
        self, ids: list[int], masks: list[int], words: Sequence[str], k: int, order: str, compare: Compare
    ) -> list[Answer]:
        if len(masks) > 1:
            raise PlanError(f"targets are for one mask; the text has {len(masks)}")
        if not words:
            raise PlanError("targets is empty: leave it out, or name words")
        pieces = list(dict.fromkeys(self._pieces(word) for word in words))
        if all(len(p) == 1 for p in pieces):
            logp = self._log_p([ids], [masks])[0][0]
            scored = [(float(logp[p[0]]), p) for p in pieces]
        else:
            scored = [(self._word(ids, masks[0], p, order), p) for p in pieces]
        if compare == "token":
            scored = [(score / len(p), p) for score, p in scored]
        out = []
        for score, p in sorted(scored, key=lambda x: -x[0])[:k]:
            wide = [*ids[: masks[0]], *p, *ids[masks[0] + 1 :]]
            said = self.tokenizer.decode(wide, skip_special_tokens=True)
            token: Any = p[0] if len(p) == 1 else list(p)
            name: Any = self.tokenizer.decode(list(p))
            out.append({"score": math.exp(score), "token": token, "token_str": name, "sequence": said})
        return out

    def _pieces(self, word: str) -> tuple[int, ...]:
        """A word's tokens: the vocabulary's entry of that name, or as the tokenizer cuts it."""
        known = self.tokenizer.get_vocab().get(word)
        if known is not None:
            return (known,)
        pieces = tuple(self.tokenizer.encode(word, add_special_tokens=False))
        if not pieces or self.tokenizer.unk_token_id in pieces:
            raise TextError(f"the model's vocabulary does not write the target {word!r}")
        return pieces

    def _word(self, ids: list[int], mask: int, pieces: tuple[int, ...], order: str) -> float:
        wide = [*ids[:mask], *[self.model.mask_id] * len(pieces), *ids[mask + 1 :]]
        places = list(range(mask, mask + len(pieces)))
        return self._scorer(wide, self._orders(places, order))(pieces)

    def _scorer(self, ids: list[int], orders: list[tuple[int, ...]]) -> Callable[[tuple[int, ...]], float]:
        """The mean over orders of Σ_k log p(y_σk | y_σ<k, the rest masked) of a filling, left to right."""
        places = sorted(orders[0])

        def score(filling: tuple[int, ...]) -> float:
            symbol = dict(zip(places, filling, strict=True))
            rows = [(order, k) for order in orders for k in range(len(order))]
            contexts = [self._with(ids, {i: symbol[i] for i in order[:k]}) for order, k in rows]
            logp = self._log_p(contexts, [[order[k]] for order, k in rows])
            each = [float(x[0, symbol[order[k]]]) for x, (order, k) in zip(logp, rows, strict=True)]
            return math.fsum(each) / len(orders)

        return score

    # ------------------------------------------------------------------ search

    @staticmethod
    def _orders(places: Sequence[int], order: str) -> list[tuple[int, ...]]:
        if order == "mean":
            if len(places) > MOST:
                raise PlanError(
                    f"the mean over all orders is for at most {MOST} masks or tokens; here are {len(places)}"
                )
            return list(itertools.permutations(places))
        return [tuple(places) if order == "left2right" else tuple(places)[::-1]]

    def _descending(self, ids: list[int], order: tuple[int, ...]) -> Iterator[tuple[float, tuple[int, ...]]]:
        """All fillings of the places, the most probable first: (log p, symbols from left to right). Exact: a beginning
        is never less probable than what it becomes, so the best beginning is continued first."""
        heap: list[tuple[float, int, dict[int, int]]] = [(0.0, 0, {})]
        count, looked = itertools.count(1), 0
        while heap:
            if len(heap[0][2]) == len(order):
                cost, _, symbols = heapq.heappop(heap)
                yield -cost, tuple(symbols[i] for i in sorted(order))
                continue
            some: list[tuple[float, int, dict[int, int]]] = []
            while heap and len(some) < AT_ONCE and len(heap[0][2]) < len(order):
                some.append(heapq.heappop(heap))
            looked += len(some)
            if looked > LIMIT:
                raise PlanError(f"the best joint fillings were not found within {LIMIT:,} looks: take fewer masks")
            logp = self._log_p([self._with(ids, s) for _, _, s in some], [[order[len(s)]] for _, _, s in some])
            for (cost, _, symbols), row in zip(some, logp, strict=True):
                place = order[len(symbols)]
                for token, p in enumerate((cost - row[0]).tolist()):
                    if p < math.inf:
                        heapq.heappush(heap, (p, next(count), {**symbols, place: token}))

    @staticmethod
    def _with(ids: list[int], symbols: dict[int, int]) -> list[int]:
        out = list(ids)
        for i, token in symbols.items():
            out[i] = token
        return out

    def _log_p(self, rows: Sequence[list[int]], at: Sequence[Sequence[int]]) -> list[Tensor]:
        """log softmax over all symbols (places, V) at some places of each canvas; nothing is banned."""
        out: list[Tensor | None] = [None] * len(rows)
        device = next(self.model.parameters()).device
        for part in batches([len(r) for r in rows], TOKEN_BUDGET):
            with torch.inference_mode():
                tokens = padded([rows[r] for r in part], self.model.pad_id).to(device)
                hidden = self.model.hidden(self.model.encode(None), tokens)
                for n, r in enumerate(part):
                    out[r] = self.model.logits(hidden[n, list(at[r])]).float().log_softmax(-1).cpu()
        return [x for x in out if x is not None]


def best_by_mean(
    lists: Sequence[Iterator[tuple[float, tuple[int, ...]]]], k: int, score: Callable[[tuple[int, ...]], float]
) -> list[tuple[float, tuple[int, ...]]]:
    """The k items of the best mean over several descending lists, exactly (Fagin's threshold algorithm).

    An item not seen in any list is worth at most the mean of where the lists have come to.
    """
    if len(lists) == 1:
        return list(itertools.islice(lists[0], k))
    best: list[tuple[float, tuple[int, ...]]] = []
    seen: set[tuple[int, ...]] = set()
    for heads in itertools.zip_longest(*lists):
        items: Iterable[tuple[float, tuple[int, ...]]] = [h for h in heads if h is not None]
        for _, item in items:
            if item not in seen:
                seen.add(item)
                best.append((score(item), item))
        best = sorted(best, key=lambda x: (-x[0], x[1]))[:k]
        threshold = math.fsum(h[0] for h in items) / len(lists)
        if len(best) == k and best[-1][0] >= threshold:
            break
    return best


def pipeline(
    task: str = "fill-mask", model: Any = None, tokenizer: Any = None, device: Any = None, **options: Any
) -> FillMask:
    """As `transformers.pipeline`; `model` is a folder, a hub name, or a transformers model beside its tokenizer."""
    if task != "fill-mask":
        raise PlanError(f"the task is 'fill-mask'; got {task!r}")
    if options:
        raise PlanError(f"{', '.join(options)}: this pipeline takes model, tokenizer and device")
    if model is None:
        raise PlanError("name a model: pipeline('fill-mask', model='bert-base-uncased')")
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        found = load(model, kind="masked")
        made, words = found.model, found.tokenizer if tokenizer is None else tokenizer
    else:
        if tokenizer is None:
            raise PlanError("a model that is loaded already needs its tokenizer: pipeline(…, model=…, tokenizer=…)")
        made, words = MaskedLM(model, tokenizer.mask_token_id, tokenizer.pad_token_id, (), tokenizer), tokenizer
    return FillMask(made if device is None else made.to(device), words)


def register() -> None:
    """Make transformers' own `pipeline("fill-mask-jointly", …)` ours."""
    from transformers import AutoModelForMaskedLM, Pipeline
    from transformers.pipelines import PIPELINE_REGISTRY

    class FillMaskJointly(Pipeline):
        """Several masks of a text filled together."""

        _load_processor = False  # type: ignore[assignment]
        _load_image_processor = False  # type: ignore[assignment]
        _load_feature_extractor = False  # type: ignore[assignment]
        _load_tokenizer = True  # type: ignore[assignment]

        def _sanitize_parameters(self, **how: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
            return {}, how, {}

        def preprocess(self, input_: str, **how: Any) -> dict[str, Any]:
            return {"text": input_}

        def _forward(self, input_tensors: dict[str, Any], **how: Any) -> Any:
            fill = pipeline("fill-mask", self.model, self.tokenizer)
            return {"answers": fill(str(input_tensors["text"]), **how)}

        def postprocess(self, model_outputs: dict[str, Any], **how: Any) -> Any:
            return model_outputs["answers"]

    if "fill-mask-jointly" not in PIPELINE_REGISTRY.get_supported_tasks():
        PIPELINE_REGISTRY.register_pipeline(
            "fill-mask-jointly", pipeline_class=FillMaskJointly, pt_model=AutoModelForMaskedLM
        )
