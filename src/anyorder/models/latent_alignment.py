"""A translator on latent alignments: its canvas has slots, more than the text has symbols, and blanks between them."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.models.cmlm import ConditionalMasked, EncodedContext
from anyorder.models.transformer import Transformer
from anyorder.models.translation import Source

SPREAD = 0.5  # standard deviations of the position embeddings by which the slots of one place begin apart
BLANKS = 0.4  # of the mass is the blank's when training begins


class LatentAlignment(ConditionalMasked):
    """p(slot_i | canvas, X) on S = a·|X| + b slots (Libovický & Helcl 2018; Saharia et al. 2020).

    The text is what is left when equal neighbours are merged and blanks dropped, so no length is guessed: p(S | X) is
    certain. Each slot is read off the column before it; its own column says what stands there now.
    """

    kind = "alignment"

    @property
    def order(self) -> str:  # type: ignore[override]
        """How it writes unless it is told otherwise: every slot, then every slot anew."""
        return "refinement(2)"

    def _make_lengths(self) -> None:
        """Nothing: the source says how many slots there are."""
        if not self.architecture.slots:
            raise ValueError("a model of kind 'alignment' needs slots, as in slots = [2, 2]")
        self.first = 0

    def summary(self, states: Tensor, real: Tensor, target_lang: Tensor) -> Tensor:
        """The length of each source (N,), without delimiters."""
        return real.sum(1) - 2

    def slots(self, lengths: Tensor) -> Tensor:
        """S of sources of these lengths."""
        each, more = self.architecture.slots
        return each * lengths + more

    def log_length(self, context: EncodedContext) -> Tensor:
        """log p(S | X), 0 or −∞: (N, positions)."""
        columns = torch.arange(self.architecture.positions, device=context.summary.device)
        return torch.where(columns == self.slots(context.summary)[:, None], 0.0, -torch.inf)

    @torch.no_grad()
    def start_from(self, encoder: Transformer, decoder: Transformer) -> None:
        """Each half from one of another model, slot i at the place i/a of its target, and a blank that is fairly
        probable: on canvases of random sources, where the other symbols are as that model has them."""
        super().start_from(encoder, decoder)
        table, each = decoder.position_embeddings.weight, self.architecture.slots[0]
        place = torch.arange(self.architecture.positions) / each
        low, part = place.long().clamp_max(len(table) - 1), (place % 1)[:, None]
        between = torch.lerp(table[low], table[(low + 1).clamp_max(len(table) - 1)], part)
        apart = torch.randn(each, table.shape[1]) * table[:40].std() * SPREAD
        apart -= apart.mean(0)
        self.decoder.position_embeddings.weight.copy_(between + apart[torch.arange(len(place)) % each])
        words, blank = self.decoder.embeddings.weight, self.special.blank
        some = words[self.special.mask + 1 :]
        words[blank] = some.mean(0) + 0.8 * some.std() * torch.randn(words.shape[1])
        self._set_blank()

    def _set_blank(self) -> None:
        """Give the blank its share of the mass."""
        s, room = self.special, min(12, self.architecture.room)
        sources = torch.randint(s.mask + 1, self.vocabulary, (32, room))
        context = self.encode(Source(sources, 0, 1))
        hidden = self.hidden(context, torch.full((32, int(self.slots(context.summary)[0])), s.mask)).flatten(0, 1)
        logits = self.logits(hidden)
        own = logits[:, s.blank].clone()
        logits[:, [s.blank, s.bos, s.eos, s.pad, s.unk, s.mask]] = -torch.inf
        share = torch.tensor(BLANKS / (1 - BLANKS)).log()
        self.decoder.proj_bias[s.blank] += (logits.logsumexp(1) - own).mean() + share
