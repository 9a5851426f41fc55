"""Tasks that policies are trained on: training pairs to translate, or texts with masks for a masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyorder.core.coordinates import Coordinates
from anyorder.core.decode import decode
from anyorder.core.decoder import Decoder
from anyorder.core.order import Order
from anyorder.core.state import begin, canvas
from anyorder.core.symbols import Symbols
from anyorder.models.translation import Source
from anyorder.text.batching import batches, padded
from anyorder.text.language_model import LanguageModel
from anyorder.text.translator import Translator
from anyorder.training.config import ConfigError
from anyorder.training.rollout import Episodes
from anyorder.training.validation import bleu

ALIKE = 8  # times as many neighbours in length as are drawn: what a draw is taken from


def some_rows(total: int, count: int, generator: torch.Generator) -> tuple[list[int], int]:
    """`count` of `total` rows that were sorted by length, neighbours of each other, and a seed for what follows.

    Rows of like length are hardly padded, and end together: random ones would cost about twice as much.
    """
    near = min(total, max(ALIKE * count, 1))
    first = int(torch.randint(total - near + 1, (1,), generator=generator))
    picked = torch.randperm(near, generator=generator)[:count] if near >= count else torch.arange(count) % near
    rows: list[int] = (first + picked).tolist()
    return rows, int(torch.randint(1 << 30, (1,), generator=generator))


class TranslationTask:
    """Episodes are training pairs; validation is BLEU, T = L, greedy.

    Canvases have the reference's length, or the `likeliest` one, as they have in use and in validation: an order that
    knows the right length beforehand is another task.
    """

    measure = "BLEU"

    def __init__(
        self,
        translator: Translator,
        direction: tuple[str, str],
        train: tuple[Sequence[str], Sequence[str]],
        valid: tuple[Sequence[str], Sequence[str]],
        longest: int,
        likeliest: bool = False,
    ) -> None:
        self.translator, self.direction, self.valid = translator, direction, valid
        self.length = translator.lengths["-".join(direction)] if likeliest else None
        self.model: Any = translator.model.eval()
        special = self.model.special
        self.symbols = Symbols(ban=(special.bos, special.eos, special.pad, special.unk, special.mask))
        encode = translator.tokenizer.encode
        pairs = zip(encode(list(train[0]), direction[0]), encode(list(train[1]), direction[1]), strict=True)
        usable = [(x, y) for x, y in pairs if 0 < len(x) <= longest and 0 < len(y) <= longest]
        self.pairs = sorted(usable, key=lambda pair: (len(pair[1]), len(pair[0])))
        if not self.pairs:
            raise ConfigError(f"no training pair has 1 to {longest} symbols on both sides: raise `longest`")
        self.source, self.target = (translator.languages.index(language) for language in direction)

    def draw(self, count: int, generator: torch.Generator) -> Episodes:
        """That many inputs with their references, ready to be written."""
        rows, seed = some_rows(len(self.pairs), count, generator)
        sources, references = (padded([self.pairs[i][k] for i in rows], self.model.pad_id) for k in (0, 1))
        lengths = (references != self.model.pad_id).sum(-1)
        if self.length is not None:
            lengths = self.length.propose((sources != self.model.pad_id).sum(-1), 1)[0][:, 0]
        with torch.inference_mode():
            context = self.model.encode(Source(sources, self.source, self.target))
        blank = canvas(lengths, self.model.mask_id, self.model.pad_id)
        return Episodes(context, begin(blank, self.model.mask_id, self.model.pad_id, seed=seed), references)

    def validate(self, order: Order | str, **options: Any) -> float:
        """BLEU of an order on the validation pairs, at the most likely length; options are those of a plan."""
        source, target = self.direction
        found = self.translator.translate(
            list(self.valid[0]), target, source=source, order=order, **({"lengths": 1} | options)
        )
        return bleu([t.text for t in found], list(self.valid[1]))


class FillTask:
    """Episodes are texts with 0–100 % of their symbols masked; validation is the share of them that come back, %."""

    measure = "right, %"

    def __init__(self, writer: LanguageModel, train: Sequence[str], valid: Sequence[str], longest: int) -> None:
        self.model: Any = writer.model.eval()
        self.symbols = Symbols(ban=self.model.special_ids)
        encode = writer.tokenizer.encode
        self.special = set(self.model.special_ids)
        self.texts, held_out = (self._usable([encode(text) for text in texts], longest) for texts in (train, valid))
        if not self.texts or not held_out:
            raise ConfigError(f"no text has at most {longest} symbols: raise `longest`")
        generator = torch.Generator().manual_seed(0)
        self.valid = [self._episodes(part, held_out, 0, generator) for part in batches([len(t) for t in held_out])]

    def _usable(self, texts: Sequence[list[int]], longest: int) -> list[list[int]]:
        return sorted((ids for ids in texts if len(ids) <= longest and not self.special.issuperset(ids)), key=len)

    def draw(self, count: int, generator: torch.Generator) -> Episodes:
        """That many inputs with their references, ready to be written."""
        rows, seed = some_rows(len(self.texts), count, generator)
        return self._episodes(rows, self.texts, seed, generator)

    def _episodes(
        self, rows: Sequence[int], texts: Sequence[list[int]], seed: int, generator: torch.Generator
    ) -> Episodes:
        references = padded([texts[i] for i in rows], self.model.pad_id)
        free = ~torch.isin(references, torch.tensor(self.model.special_ids))
        noise = torch.rand(references.shape, generator=generator).masked_fill(~free, 2.0)
        first = noise == noise.amin(-1, keepdim=True)  # at least one symbol of each text
        masked = free & ((noise < torch.rand(len(rows), 1, generator=generator)) | first)
        tokens = references.masked_fill(masked, self.model.mask_id)
        state = begin(tokens, self.model.mask_id, self.model.pad_id, seed=seed)
        return Episodes(self.model.encode(None), state, references)

    def validate(self, order: Order) -> float:
        """The share of open positions that an order gets right, in per cent; higher is better."""
        right = total = 0
        for context, state, references in self.valid:
            done = decode(self.model, context, state, Decoder(Coordinates(order), self.symbols))
            right += int((done.tokens == references)[state.open].sum())
            total += int(state.open.sum())
        return 100 * right / total
