"""look: one forward pass turned into a View, with the vocabulary projection only where a decision will read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from anyorder.core.model import Model
from anyorder.core.state import State, View
from anyorder.core.symbols import NEVER, Symbols

Conditionals = Literal["visible", "masked"]
CHUNK_LOGITS = 1 << 22  # vocabulary entries held at once
CHUNK_TOKENS = 1 << 15  # canvas tokens of folded rows in one forward pass


class ModelError(RuntimeError):
    """A model gave something that no decision can be based on."""


@dataclass
class Cost:
    """What a generation cost; part of every result."""

    forwards: int = 0  # looks at the model: sequential passes, folded rows of one look counted once
    canvases: int = 0  # canvas rows passed through the model
    head_rows: int = 0  # rows projected onto the vocabulary


@dataclass
class Reader:
    """A model, the symbols that may be proposed, and the meter."""

    model: Model
    symbols: Symbols
    cost: Cost
    width: int = 0  # |V|, learnt at the first look

    def look(
        self,
        context: Any,
        state: State,
        at: Tensor,
        *,
        reads: frozenset[str] = frozenset(),
        hide: Tensor | None = None,
        conditionals: Conditionals = "visible",
        top: int = 0,
    ) -> View:
        """p(y_i | Y, X) at positions `at` (N, L), after masking positions `hide` (N, L).

        conditionals="visible": one pass over Y as it is; a written symbol is seen by its own position.
        conditionals="masked": each position is conditioned on itself masked, p(y_i | y_<i, <mask>, y_>i, X), the
        paper's definition; written positions are folded into rows of their own.
        """
        tokens = state.tokens if hide is None else state.tokens.masked_fill(hide, state.mask_id)
        n, i = at.nonzero(as_tuple=True)  # (M,) each
        if not len(n):
            return self._nothing(state, reads)
        self.cost.forwards += 1
        if conditionals == "visible":
            everything = self._hidden(context, tokens)  # (N, L, D)
            hidden = everything[n, i]  # (M, D)
        else:
            everything = None
            hidden = self._folded(context, tokens, n, i, state.mask_id)
        parts = list(self._statistics(hidden, state, tokens, n, i, reads, top))

        def spread(name: str, fill: float = 0.0) -> Tensor | None:
            if name not in parts[0]:
                return None
            values = torch.cat([p[name] for p in parts])
            out = values.new_full((*tokens.shape, *values.shape[1:]), fill)
            out[n, i] = values
            return out

        token, logp = spread("token", state.mask_id), spread("logp")
        assert token is not None and logp is not None
        if "hidden" in reads and everything is None:
            everything = hidden.new_zeros(*tokens.shape, hidden.shape[-1])
            everything[n, i] = hidden
        return View(
            token=token,
            logp=logp,
            current=spread("current"),
            entropy=spread("entropy"),
            margin=spread("margin"),
            hidden=everything if "hidden" in reads else None,
            top_token=spread("top_token"),
            top_logp=spread("top_logp", -torch.inf),
            full=spread("full", torch.nan),  # so that nothing unseen compares as equal
        )

    def _nothing(self, state: State, reads: frozenset[str]) -> View:
        """Nothing was asked for: no pass, and every field that is read exists."""
        zero = torch.zeros_like(state.logp)
        fields = {name: zero for name in ("current", "entropy", "margin") if name in reads}
        return View(torch.full_like(state.tokens, state.mask_id), zero, **fields)

    def _hidden(self, context: Any, tokens: Tensor) -> Tensor:
        self.cost.canvases += len(tokens)
        return self.model.hidden(context, tokens)

    def _folded(self, context: Any, tokens: Tensor, n: Tensor, i: Tensor, mask_id: int) -> Tensor:
        """Hidden states (M, D) of entries (n, i), each with its own position masked."""
        plain = tokens[n, i] == mask_id
        hidden: Tensor | None = None
        if bool(plain.any()):
            rows, back = torch.unique(n[plain], return_inverse=True)
            states = self._hidden(context.take(rows), tokens[rows])
            hidden = states.new_empty(len(n), states.shape[-1])
            hidden[plain] = states[back, i[plain]]
        rest = (~plain).nonzero()[:, 0]
        for part in _parts(rest, CHUNK_TOKENS // tokens.shape[1]):
            rows = tokens[n[part]].scatter(1, i[part, None], mask_id)
            states = self._hidden(context.take(n[part]), rows)
            hidden = states.new_empty(len(n), states.shape[-1]) if hidden is None else hidden
            hidden[part] = states[torch.arange(len(part), device=i.device), i[part]]
        assert hidden is not None  # there was at least one entry
        return hidden

    def _statistics(
        self, hidden: Tensor, state: State, tokens: Tensor, n: Tensor, i: Tensor, reads: frozenset[str], top: int
    ) -> Iterator[dict[str, Tensor]]:
        """log-sum-exp, entropy, margin, top-K″ … of entries (n, i) from one pass over their logits, in chunks."""
        if "hidden" in reads and not getattr(self.model, "has_hidden", True):
            raise ModelError(f"this order reads hidden states, and {type(self.model).__name__} has none to give")
        self.cost.head_rows += len(n)
        if self.width == 0:
            self.width = self.model.logits(hidden[:1]).shape[-1]
        if top > self.width:
            raise ValueError(f"asked for the {top} best symbols of a vocabulary of {self.width}")
        for part in _parts(torch.arange(len(n), device=n.device), CHUNK_LOGITS // self.width):
            yield self._chunk(self.model.logits(hidden[part]), state, tokens, n[part], i[part], reads, top)

    def _chunk(
        self, logits: Tensor, state: State, tokens: Tensor, n: Tensor, i: Tensor, reads: frozenset[str], top: int
    ) -> dict[str, Tensor]:
        x = logits.to(state.logp.dtype).clamp(min=NEVER)  # (m, V); −inf would make 0·log 0 a NaN
        out: dict[str, Tensor] = {}
        whole = x.logsumexp(-1, keepdim=True) if "current" in reads or not self.symbols.renormalise else None
        if whole is not None and "current" in reads:  # before bans: φ_logp of an unfilled position is −log p(<mask>)
            out["current"] = (x.gather(-1, tokens[n, i, None]) - whole)[:, 0]
        x = self.symbols.restrict(x, state, n, i)
        lse = x.logsumexp(-1, keepdim=True)
        self._check(lse[:, 0], state, n, i)
        logp = x.sub_(lse if whole is None or self.symbols.renormalise else whole)
        out["token"] = self.symbols.draw(logp, state, n, i)
        out["logp"] = logp.gather(-1, out["token"][:, None])[:, 0]
        if "entropy" in reads:
            out["entropy"] = -(logp.exp() * logp).sum(-1)
        if "margin" in reads:
            best = logp.topk(min(2, logp.shape[-1]), -1).values.exp()
            out["margin"] = best[:, 0] - best[:, 1:].sum(-1)
        if top:
            out["top_logp"], out["top_token"] = self.symbols.best(logp, top, state, n, i)
        if "full" in reads:
            out["full"] = logp
        return out

    def _check(self, lse: Tensor, state: State, n: Tensor, i: Tensor) -> None:
        """log Σ exp (m,) of each entry's logits must be that of a distribution."""
        bad = (~lse.isfinite() | (lse < NEVER / 2)).nonzero()
        if len(bad):
            m = int(bad[0])
            where = f"row {int(state.row[n[m]])}, position {int(i[m])}, step {state.step}"
            if bool(lse[m].isfinite()):
                raise ValueError(f"{where}: bans, allowed sets and the model leave no possible symbol")
            raise ModelError(f"{where}: the model's logits are not finite numbers (NaN or infinite weights?)")


def _parts(index: Tensor, size: int) -> tuple[Tensor, ...]:
    """`index` (M,) in pieces of at most `size`."""
    parts: tuple[Tensor, ...] = torch.split(index, max(1, size))
    return parts
