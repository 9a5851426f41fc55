"""The objective of latent alignments: a text's probability summed over its alignments, with and without slots shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.core.slots import States, best_alignment, emissions, needed, posteriors, states
from anyorder.data.ragged import Ragged
from anyorder.models.translation import Source
from anyorder.training.masking import Corruption
from anyorder.training.objectives import Corpus, Directed, Tensors

WHOLE = 0.5  # of the canvases of own picks, the share that shows a pick in every slot
SURE = 0.6  # … and the share whose surest picks are shown, not random ones
SLIPS = 0.15  # of the shown slots of a true alignment, the share that shows the own pick instead


class AlignmentObjective(Directed):
    """−log p(Y | X) summed over alignments (Saharia et al. 2020), twice for each source that is encoded.

    First with nothing shown. Then with a part of the canvas shown, a uniform share of the slots: those of the best
    alignment under the first pass, summed over the alignments that go through the same states there; or, in a share
    `own` of the rows, the model's own picks, as when it decodes, all of it to be predicted anew.
    """

    def __init__(
        self, model: Any, corpus: Corpus, smoothing: float, corruption: Corruption, shortlist: Sequence[int] = ()
    ) -> None:
        super().__init__(model, corpus, smoothing, corruption)
        s, size = model.special, model.vocabulary
        self.text: Tensor
        self.always: Tensor
        text = torch.ones(size, dtype=torch.bool)
        text[[s.bos, s.eos, s.pad, s.unk, s.mask]] = False
        text[s.blank] = True
        frequent, self.sampled = shortlist or (size, 0)
        counts = sum(torch.bincount(side.flat, minlength=size)[:size] for side in (corpus.first, corpus.second) if side)
        always = torch.zeros_like(text)
        always[torch.as_tensor(counts).argsort(descending=True, stable=True)[:frequent]] = True
        always[s.blank] = True
        self.register_buffer("text", text, persistent=False)  # symbols that a slot may show
        self.register_buffer("always", always & text, persistent=False)  # those of every update's output layer

    def measure(self, corpus: Corpus) -> tuple[Tensor, Tensor]:
        """A source counts once, its slots twice."""
        assert corpus.second is not None
        _, keys = super().measure(corpus)
        a, b = corpus.first.lengths, corpus.second.lengths
        source = torch.cat([a, b]) if corpus.target is None else torch.where(corpus.target == 1, a, b)
        return source + 2 + 2 * (self.model.slots(source) + 2), keys

    def batch(self, corpus: Corpus, rows: Tensor, generator: torch.Generator) -> Tensors:
        """These examples as tensors."""

        def uniform(columns: int) -> Tensor:
            return torch.rand(len(rows), columns, generator=generator)

        source, target, lengths, direction = self.sides(corpus, rows)
        slots = self.model.slots(source.ne(self.model.pad_id).sum(1))
        width = int(slots.max())
        real = torch.arange(width) < slots[:, None]  # (B, S)
        own = uniform(1) < self.corruption.own
        sure = own & (uniform(1) < SURE)
        share = torch.where(own & (uniform(1) < WHOLE), 1.0, uniform(1))
        shown = (share * slots[:, None]).floor().minimum(slots[:, None] - 1.0 + own.float())  # how many slots
        keys, slips = uniform(width), uniform(width) < SLIPS
        held = _first(keys, real, shown) & ~own & ~slips
        batch = {"source": source, "target": target, "lengths": lengths, "direction": direction, "slots": slots}
        batch |= {"own": own, "sure": sure, "shown": shown, "keys": keys, "slips": slips}
        return batch | {"count": real.sum() + (real & ~held).sum()}

    def forward(self, **b: Tensor) -> Tensor:
        """Σ of the losses of a batch."""
        model, slots = self.model, b["slots"]
        context = model.encode(Source(b["source"], b["direction"], 1 - b["direction"]))
        real = torch.arange(int(slots.max()), device=slots.device) < slots[:, None]
        s = states(b["target"], b["lengths"], model.special.blank)
        weight, bias, symbols, short = self._output(s)
        blank = torch.where(real, model.mask_id, model.pad_id)
        n, i = real.nonzero(as_tuple=True)
        hidden = model.hidden(context, blank)[n, i]  # (M, D)
        loss, best, sure, path = alignment_loss(hidden, weight, bias, n, i, short, slots, None)
        picks = torch.full_like(blank, model.pad_id).index_put((n, i), symbols[best])
        keys = torch.where(b["sure"], b["keys"].new_zeros(blank.shape).index_put((n, i), sure), b["keys"])
        shown = _first(keys, real, b["shown"])
        held = shown & ~b["own"] & ~b["slips"]
        truth = s.symbols.gather(1, path)
        canvas = torch.where(held, truth, torch.where(shown, picks, blank))
        n, i = (real & ~held).nonzero(as_tuple=True)
        hidden = model.hidden_at(context, canvas, n, i)
        more, *_ = alignment_loss(hidden, weight, bias, n, i, short, slots, torch.where(held, path, -1))
        return loss + more

    def _output(self, s: States) -> tuple[Tensor, Tensor, Tensor, States]:
        """The rows of the output layer that are looked at, their symbols (V′,), and the states in terms of these.

        In training those of the most frequent symbols, of the batch's, and of random ones, each of which stands for
        all of its kind (sampled softmax; Jean et al. 2015).
        """
        decoder, chosen = self.model.decoder, self.always if self.training else self.text
        chosen = chosen.index_fill(0, s.columns.flatten(), True)
        symbols, more = chosen.nonzero()[:, 0], chosen.new_zeros(0, dtype=torch.float32)
        rest = (self.text & ~chosen).nonzero()[:, 0]
        if self.training and self.sampled and len(rest) > self.sampled:
            some = rest[torch.randperm(len(rest))[: self.sampled].to(rest.device)]
            more = torch.full((self.sampled,), math.log(len(rest) / self.sampled), device=rest.device)
            symbols = torch.cat([symbols, some])
        place = torch.full((len(self.text),), -1, device=rest.device)
        place[symbols] = torch.arange(len(symbols), device=rest.device)
        bias = decoder.proj_bias[symbols] + F.pad(more, (len(symbols) - len(more), 0))
        return decoder.embeddings.weight[symbols], bias, symbols, s._replace(columns=place[s.columns])


def _first(keys: Tensor, real: Tensor, count: Tensor) -> Tensor:
    """The `count` (B, 1) slots of each row with the highest keys (B, S), bool."""
    rank = keys.masked_fill(~real, -torch.inf).argsort(dim=1, descending=True, stable=True).argsort(1)
    return (rank < count) & real


class _AlignmentLoss(torch.autograd.Function):
    """−Σ log p(Y), summed over alignments, of states at slots (n, i); with what the pass says of each slot.

    The gradient with respect to a slot's logits is softmax − p(symbol | Y), so forward makes all others of it at once.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, n: Tensor, i: Tensor, s: States, slots: Tensor,
        held: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        logits = F.linear(hidden, weight, bias).float()  # (M, V′)
        top, best = logits.max(1)
        columns = s.columns[n]  # (M, K)
        logp = logits.gather(1, columns)
        p = logits.sub_(top[:, None]).exp_()
        total = p.sum(1, keepdim=True)
        log_total = top + total[:, 0].log()
        (rows, width), K = (len(slots), int(slots.max())), s.columns.shape[1]
        spread = logp.new_zeros(rows, width, K).index_put((n, i), logp - log_total[:, None])
        e = emissions(spread, s, held)
        z, gamma = posteriors(e, s, slots)
        path = best_alignment(e, s, slots) if held is None else n
        expected = torch.zeros_like(spread).index_add_(2, s.column, gamma)[n, i]  # p(column | Y) (M, K)
        d = p.div_(total).scatter_add_(1, columns, -expected)
        ctx.save_for_backward((d @ weight).float(), (d.mT @ hidden).float(), d.sum(0))
        sure = top - log_total
        ctx.mark_non_differentiable(best, sure, path)
        return -z.sum(), best, sure, path

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*(d * grads[0] for d in ctx.saved_tensors), None, None, None, None, None)


def alignment_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor, n: Tensor, i: Tensor, s: States, slots: Tensor, held: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States (M, D) at slots (n, i) → the sum of losses; the best column of each and its log p (M,); and, where none
    are `held` (N, S), the best alignment (N, S)."""
    return _AlignmentLoss.apply(hidden, weight, bias, n, i, s, slots, held)  # type: ignore[no-untyped-call, no-any-return]


def fitting(model: Any, pairs: Corpus) -> tuple[Corpus, int]:
    """Pairs in each direction that is learnt whose text fits on its slots, and how many do not."""
    assert pairs.second is not None
    if pairs.target is None:
        both = torch.tensor([1, 0]).repeat_interleave(len(pairs))
        first, second = (Ragged.joined([side, side]) for side in (pairs.first, pairs.second))
        pairs = Corpus(first, second, target=both)
    one, other, target, kept = pairs.first, pairs.second, pairs.target, []
    assert other is not None and target is not None
    for side, source, text in ((0, other, one), (1, one, other)):
        for some in torch.split(target.eq(side).nonzero()[:, 0], 4096):
            room = model.slots(source.lengths[some])
            fits = (needed(*text.padded(some, -1)) <= room) & (room + 2 <= model.architecture.positions)
            kept.append(some[fits])
    rows = torch.cat(kept).sort().values
    return Corpus(one.some(rows), other.some(rows), target=target[rows]), len(target) - len(rows)
