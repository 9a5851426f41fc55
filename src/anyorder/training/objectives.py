"""The training objectives: examples of a corpus → a batch of tensors → the sum of losses at the predicted symbols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.data.ragged import Ragged
from anyorder.models.transformer import Transformer
from anyorder.models.translation import Source, columns_of
from anyorder.training.cross_entropy import output_loss
from anyorder.training.masking import Corruption, canvas

Tensors = dict[str, Tensor]  # "count" is the number of predicted symbols, a 0-dimensional tensor


@dataclass(frozen=True)
class Corpus:
    """Tokenised sentences: pairs, or single ones with a language each. An example is a row; rows may repeat."""

    first: Ragged
    second: Ragged | None = None
    language: Tensor | None = None  # (N,) of single sentences
    target: Tensor | None = None  # (N,) 0 or 1, where only this side of a pair may be predicted (distilled targets)

    def __len__(self) -> int:
        return len(self.first)


class Objective(Protocol):
    """What a model is trained for. It is also the module that runs in each process, so that gradients are shared."""

    corpus: Corpus
    sizes: Tensor  # (N,) tokens that an example costs
    keys: Tensor  # (N,) examples with like keys are batched together

    def batch(self, corpus: Corpus, rows: Tensor, generator: torch.Generator) -> Tensors:
        """These rows of a corpus as tensors."""
        ...

    def __call__(self, **batch: Tensor) -> Tensor:
        """Σ of the losses of a batch."""
        ...


class _Objective(nn.Module, ABC):
    def __init__(self, model: Any, corpus: Corpus, smoothing: float, corruption: Corruption) -> None:
        super().__init__()
        self.model, self.corpus, self.smoothing, self.corruption = model, corpus, smoothing, corruption
        self.sizes, self.keys = self.measure(corpus)

    @abstractmethod
    def measure(self, corpus: Corpus) -> tuple[Tensor, Tensor]:
        """The size and the bucket key (N,) of each example."""

    def loss(self, output: Transformer, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Σ of label-smoothed cross-entropies at (M, D) and (M,), and the most probable symbols (M,)."""
        smoothing = self.smoothing if self.training else 0.0
        return output_loss(states, output.embeddings.weight, output.proj_bias, targets, smoothing)


class MaskedLMObjective(_Objective):
    """Masked symbols of single sentences in either language."""

    def measure(self, corpus: Corpus) -> tuple[Tensor, Tensor]:
        """The size and the bucket key (N,) of each example."""
        sizes = corpus.first.lengths + 2
        return sizes, sizes

    def batch(self, corpus: Corpus, rows: Tensor, generator: torch.Generator) -> Tensors:
        """These examples as tensors."""
        assert corpus.language is not None
        c = canvas([(corpus.first, rows, 0)], self.model.special)
        tokens, chosen = self.corruption(
            c.tokens, c.sides == 0, self.model.special, self.model.architecture.vocabulary, generator
        )
        languages = corpus.language[rows][:, None].expand_as(tokens)
        return _masked_batch(c.tokens, tokens, chosen, c.positions, languages, c.visible)

    def forward(self, **b: Tensor) -> Tensor:
        """Σ of the losses of a batch."""
        n, i = b["chosen"].nonzero(as_tuple=True)
        columns, slot = columns_of(n, i, len(b["tokens"]))  # the last layer computes no others
        states = self.model.transformer(b["tokens"], b["positions"], b["languages"], b.get("visible"), columns=columns)
        return self.loss(self.model.transformer, states[n, slot], b["targets"])[0]


class MaskedTranslationObjective(MaskedLMObjective):
    """Two sentences beside each other; one side, picked at random, is masked at a uniform ratio."""

    def measure(self, corpus: Corpus) -> tuple[Tensor, Tensor]:
        """The size and the bucket key (N,) of each example."""
        assert corpus.second is not None
        sizes = corpus.first.lengths + corpus.second.lengths + 4
        return sizes, sizes

    def batch(self, corpus: Corpus, rows: Tensor, generator: torch.Generator) -> Tensors:
        """These examples as tensors."""
        assert corpus.second is not None
        c = canvas([(corpus.first, rows, 0), (corpus.second, rows, 1)], self.model.special)
        side = torch.randint(0, 2, (len(rows), 1), generator=generator)
        if corpus.target is not None:
            side = corpus.target[rows][:, None]
        tokens, chosen = self.corruption(
            c.tokens, c.sides == side, self.model.special, self.model.architecture.vocabulary, generator
        )
        return _masked_batch(c.tokens, tokens, chosen, c.positions, c.languages, c.visible)


def _masked_batch(
    original: Tensor, tokens: Tensor, chosen: Tensor, positions: Tensor, languages: Tensor, visible: Tensor | None
) -> Tensors:
    batch = {"tokens": tokens, "chosen": chosen, "targets": original[chosen]}
    batch |= {"positions": positions, "languages": languages, "count": chosen.sum()}
    return batch if visible is None else batch | {"visible": visible}


class Directed(_Objective):
    """Examples are (pair, direction): example e < N is pair e forwards, e ≥ N pair e − N backwards.

    Where pairs have one target side only, there are N examples, each in its own direction.
    """

    def measure(self, corpus: Corpus) -> tuple[Tensor, Tensor]:
        """The size and the bucket key (N,) of each example."""
        assert corpus.second is not None
        a, b = corpus.first.lengths, corpus.second.lengths
        sizes = a + b + 4
        wide = int(max(a.max(), b.max())) + 1
        forwards, backwards = b * wide + a, a * wide + b  # by target length, then source length
        if corpus.target is not None:
            return sizes, torch.where(corpus.target == 1, forwards, backwards)
        return torch.cat([sizes, sizes]), torch.cat([forwards, backwards])

    def sides(self, corpus: Corpus, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Source tokens, target tokens, target lengths, and direction (B,) of examples."""
        assert corpus.second is not None
        n, pad = len(corpus), self.model.pad_id
        backwards = rows >= n if corpus.target is None else corpus.target[rows] == 0
        rows = rows % n
        (a, a_len), (b, b_len) = corpus.first.padded(rows, pad), corpus.second.padded(rows, pad)
        width = max(a.shape[1], b.shape[1])
        a, b = (F.pad(x, (0, width - x.shape[1]), value=pad) for x in (a, b))
        source, target = torch.where(backwards[:, None], b, a), torch.where(backwards[:, None], a, b)
        lengths = torch.where(backwards, a_len, b_len)
        source = source[:, : int(torch.where(backwards, b_len, a_len).max())]
        return source, target[:, : int(lengths.max())], lengths, backwards.long()


class AutoregressiveObjective(Directed):
    """Each symbol from those before it, and </s> at the end."""

    def batch(self, corpus: Corpus, rows: Tensor, generator: torch.Generator) -> Tensors:
        """These examples as tensors."""
        source, target, lengths, direction = self.sides(corpus, rows)
        target = F.pad(target, (0, 1), value=self.model.pad_id)
        target.scatter_(1, lengths[:, None], self.model.special.eos)
        return {"source": source, "target": target, "direction": direction, "count": (lengths + 1).sum()}

    def forward(self, **b: Tensor) -> Tensor:
        """Σ of the losses of a batch."""
        context = self.model.encode(Source(b["source"], b["direction"], 1 - b["direction"]))
        real = b["target"].ne(self.model.pad_id)
        return self.loss(self.model.decoder, self.model.states(context, b["target"])[real], b["target"][real])[0]


class ConditionalMaskedObjective(Directed):
    """Masked symbols of the target given the encoded source, and the target's length.

    The source is encoded once for several masked copies of its target. From the second copy on, a share of them shows
    what the model itself wrote at the masks of the copy before (learning from own predictions: Ghazvininejad et al.
    2020), for that is what it will see when it decodes. A share of the sentences is learned from left to right too,
    up to </s>: all beginnings of a target as one copy more (`ConditionalMasked.forwards`).
    """

    length_weight = 0.1  # of the length loss, a sentence's share against a symbol's

    def measure(self, corpus: Corpus) -> tuple[Tensor, Tensor]:
        """A source counts once, a target as often as it is copied."""
        assert corpus.second is not None
        sizes, keys = super().measure(corpus)
        a, b = corpus.first.lengths, corpus.second.lengths
        more = self.corruption.copies - 1 + self.corruption.forwards
        if corpus.target is not None:
            return sizes + (more * torch.where(corpus.target == 1, b, a)).long(), keys
        return sizes + (more * torch.cat([b, a])).long(), keys

    def batch(self, corpus: Corpus, rows: Tensor, generator: torch.Generator) -> Tensors:
        """These examples as tensors."""
        source, target, lengths, direction = self.sides(corpus, rows)
        model, corruption, real = self.model, self.corruption, target.ne(self.model.pad_id)
        copies = []
        for _ in range(corruption.copies):
            copies.append(corruption(target, real, model.special, model.architecture.vocabulary, generator))
        tokens, chosen = (torch.stack(part) for part in zip(*copies, strict=True))  # (K, B, L)
        own = torch.rand(len(copies), len(target), 1, generator=generator) < corruption.own
        forwards = torch.rand(len(target), generator=generator) < corruption.forwards
        count = chosen.sum() + (lengths + 1)[forwards].sum()
        batch = {"source": source, "target": target, "tokens": tokens, "chosen": chosen, "own": own}
        return batch | {"forwards": forwards, "direction": direction, "lengths": lengths, "count": count}

    def forward(self, **b: Tensor) -> Tensor:
        """Σ of the losses of a batch."""
        context = self.model.encode(Source(b["source"], b["direction"], 1 - b["direction"]))
        target, mask = b["target"], self.model.mask_id
        written = target  # the target with the model's own symbols at the masks of the copy before
        loss = target.new_zeros((), dtype=torch.float32)
        for k, (tokens, chosen, own) in enumerate(zip(b["tokens"], b["chosen"], b["own"], strict=True)):
            if k and self.training:
                tokens = torch.where(own & tokens.eq(target), written, tokens)
            n, i = chosen.nonzero(as_tuple=True)
            states = self.model.hidden_at(context, tokens, n, i)  # (M, D)
            more, best = self.loss(self.model.decoder, states, target[n, i])
            loss = loss + more
            written = torch.where(tokens.eq(mask), target.index_put((n, i), best), target)
        if bool(b["forwards"].any()):
            loss = loss + self._forwards(context, target, b["lengths"], b["forwards"].nonzero()[:, 0])
        if self.training:
            length = F.nll_loss(self.model.log_length(context), b["lengths"], reduction="sum")
            loss = loss + self.length_weight * length
        return loss

    def _forwards(self, context: Any, target: Tensor, lengths: Tensor, rows: Tensor) -> Tensor:
        """Σ of −log p(y_i | y_<i, X) over the symbols and </s> of some rows."""
        wanted = F.pad(target[rows], (0, 1), value=self.model.pad_id)
        wanted.scatter_(1, lengths[rows, None], self.model.special.eos)
        states = self.model.forwards.states(context.take(rows), wanted)  # (R, L + 1, D)
        real = wanted.ne(self.model.pad_id)
        return self.loss(self.model.decoder, states[real], wanted[real])[0]
