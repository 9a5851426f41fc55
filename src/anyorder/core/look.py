"""look: one forward pass turned into a View, with the vocabulary projection only where a decision will read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from anyorder.core.cost import Cost
from anyorder.core.devices import doubt
from anyorder.core.joint import drawn_together
from anyorder.core.logits import entry, maximum, together
from anyorder.core.model import Model
from anyorder.core.state import State, View
from anyorder.core.symbols import NEVER, Symbols, possible
from anyorder.errors import ModelError

Conditionals = Literal["visible", "masked"]
CHUNK_LOGITS = 1 << 21  # vocabulary entries held at once: what caches hold …
CHUNK_ROWS = 128  # … but that many rows at least, or the matrix product waits for its weights
MOST = 0.75  # where more than this share of positions is read, all states are computed at once
KNOWN = frozenset({"hidden", "logp", "entropy", "current"})  # what may be known without logits
CHUNK_TOKENS = 1 << 15  # canvas tokens of folded rows in one forward pass


@dataclass
class Reader:
    """A model, the symbols that may be proposed, and the meter."""

    model: Model
    symbols: Symbols
    cost: Cost
    banned: Tensor | None = None  # what may never be written, learnt at the first look
    scored: bool = True  # is log p of the proposed symbols wanted, even if no decision reads it?
    at_most: bool = False  # asked for more best symbols than there are: give all there are
    width: int = field(init=False)  # |V|, as the model says, or learnt at the first look

    def __post_init__(self) -> None:
        self.width = int(getattr(self.model, "vocabulary", 0))

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
        states: bool = False,
    ) -> View:
        """p(y_i | Y, X) at positions `at` (N, L), after masking positions `hide` (N, L).

        conditionals="visible": one pass over Y as it is; a written symbol is seen by its own position.
        conditionals="masked": each position is conditioned on itself masked, p(y_i | y_<i, <mask>, y_>i, X), the
        paper's definition; written positions are folded into rows of their own.
        """
        context = told(context, state)
        tokens = state.tokens if hide is None else state.tokens.masked_fill(hide, state.mask_id)
        n, i = at.nonzero(as_tuple=True)  # (M,) each
        if not n.numel():
            return self._nothing(state, reads)
        self.cost.forwards += 1
        everything: Tensor | None = None
        if conditionals == "masked":
            hidden = self._folded(context, tokens, n, i, state.mask_id)  # (M, D)
        elif "hidden" in reads or states:
            everything = self._hidden(context, tokens)  # (N, L, D)
            hidden = everything[n, i]
        else:
            hidden = self._entries(context, tokens, n, i)
        parts = self._ruled(hidden, state, tokens, n, i, reads, top)

        def spread(name: str, fill: float = 0.0) -> Tensor | None:
            return _spread(parts, name, fill, at)

        token, logp = spread("token", state.mask_id), spread("logp")
        assert token is not None and logp is not None
        if not (self.scored or reads or top):
            logp = torch.full_like(logp, torch.nan)  # whether or not it was found on the way
        if ("hidden" in reads or states) and everything is None:
            everything = hidden.new_zeros(*tokens.shape, hidden.shape[-1])
            everything[n, i] = hidden
        return View(
            token=token,
            logp=logp,
            current=spread("current"),
            entropy=spread("entropy"),
            margin=spread("margin"),
            hidden=everything if "hidden" in reads or states else None,
            top_token=spread("top_token"),
            top_logp=spread("top_logp", -torch.inf),
            full=spread("full", torch.nan),  # so that nothing unseen compares as equal
            mass=spread("mass"),
            best=spread("best", state.mask_id),
            best_logp=spread("best_logp"),
            echo=spread("echo", torch.nan),
        )

    def states(self, context: Any, state: State) -> View:
        """A pass of which nothing but the hidden states is looked at: `say` proposes symbols, where they are wanted."""
        self._has_hidden()
        self.cost.forwards += 1
        hidden = self._hidden(told(context, state), state.tokens)
        return View(torch.full_like(state.tokens, state.mask_id), torch.zeros_like(state.logp), hidden=hidden)

    def say(self, state: State, seen: View, at: Tensor) -> View:
        """What `states` saw, with symbols at positions `at` (N, L)."""
        assert seen.hidden is not None
        n, i = at.nonzero(as_tuple=True)
        if not n.numel():
            return seen
        parts = self._ruled(seen.hidden[n, i], state, state.tokens, n, i, frozenset(), 0)
        token, logp = (_spread(parts, name, fill, at) for name, fill in (("token", state.mask_id), ("logp", 0.0)))
        assert token is not None and logp is not None
        return seen._replace(token=token, logp=logp, mass=_spread(parts, "mass", 0.0, at))

    def settle(self, state: State, z: Tensor, view: View) -> View:
        """`view` with the symbols of each ruled row's coordinates z (N, L) drawn together, where there are several:
        each may be allowed and both impossible. log p is that of the joint, and Σ mass over z its log Z."""
        assert state.rules is not None
        several = (state.rules.of >= 0) & (z.sum(-1) > 1)
        rows = several.nonzero()[:, 0]
        if not len(rows):
            return view
        assert view.hidden is not None
        n, i = (z & several[:, None]).nonzero(as_tuple=True)
        self.cost.head_rows += len(n)
        x = self.model.logits(view.hidden[n, i]).to(state.logp.dtype)
        x = self.symbols.restrict(x, self._banned(state, x), state, n, i)
        tokens = state.tokens.masked_fill(z, state.mask_id)
        token, logp, mass = drawn_together(state, self.symbols, tokens, n, i, x.log_softmax(-1))
        old = view.mass if view.mass is not None else torch.zeros_like(view.logp)
        return view._replace(
            token=view.token.index_put((n, i), token),
            logp=view.logp.index_put((n, i), logp),
            mass=old.index_put((n, i), mass),
        )

    def _has_hidden(self) -> None:
        if not getattr(self.model, "has_hidden", True):
            raise ModelError(f"this order reads hidden states, and {type(self.model).__name__} has none to give")

    def _nothing(self, state: State, reads: frozenset[str]) -> View:
        """Nothing was asked for: no pass, and every field that is read exists."""
        zero = torch.zeros_like(state.logp)
        fields = {name: zero for name in ("current", "entropy", "margin") if name in reads}
        return View(torch.full_like(state.tokens, state.mask_id), zero, **fields)

    def _hidden(self, context: Any, tokens: Tensor) -> Tensor:
        self.cost.canvases += tokens.shape[0]
        return self.model.hidden(context, tokens)

    def _entries(self, context: Any, tokens: Tensor, n: Tensor, i: Tensor) -> Tensor:
        """Hidden states (M, D) of entries (n, i); a model that can compute just those has `hidden_at`."""
        if not hasattr(self.model, "hidden_at") or n.numel() > MOST * tokens.numel():
            whole = self._hidden(context, tokens)
            return whole.flatten(0, 1) if n.numel() == tokens.numel() else whole[n, i]
        self.cost.canvases += tokens.shape[0]
        states: Tensor = self.model.hidden_at(context, tokens, n, i)
        return states

    def _folded(self, context: Any, tokens: Tensor, n: Tensor, i: Tensor, mask_id: int) -> Tensor:
        """Hidden states (M, D) of entries (n, i), each with its own position masked."""
        plain = tokens[n, i] == mask_id
        hidden: Tensor | None = None
        if bool(plain.any()):
            rows, back = torch.unique(n[plain], return_inverse=True)
            states = self._entries(context.take(rows), tokens[rows], back, i[plain])
            hidden = states.new_empty(n.numel(), states.shape[-1])
            hidden[plain] = states
        rest = (~plain).nonzero()[:, 0]
        size = max(1, CHUNK_TOKENS // tokens.shape[1])
        for start in range(0, len(rest), size):
            part = rest[start : start + size]
            rows = tokens[n[part]].scatter(1, i[part, None], mask_id)
            each = torch.arange(len(part), device=i.device)
            states = self._entries(context.take(n[part]), rows, each, i[part])
            hidden = states.new_empty(n.numel(), states.shape[-1]) if hidden is None else hidden
            hidden[part] = states
        assert hidden is not None  # there was at least one entry
        return hidden

    def _ruled(
        self, hidden: Tensor, state: State, tokens: Tensor, n: Tensor, i: Tensor, reads: frozenset[str], top: int
    ) -> list[dict[str, Tensor]]:
        """What is measured of entries (n, i): those of rows with a rule by themselves, so that it changes no others."""
        if state.rules is None:
            return list(self._measured(hidden, state, tokens, n, i, reads, top))
        ruled = state.rules.of[n] >= 0
        out: dict[str, Tensor] = {}
        for some, rules in ((~ruled, None), (ruled, state.rules)):
            at = some.nonzero()[:, 0]
            if not len(at):
                continue
            parts = self._measured(hidden[at], state.but(rules=rules), tokens, n[at], i[at], reads, top)
            for name, values in _whole(list(parts)).items():
                out.setdefault(name, values.new_zeros(len(n), *values.shape[1:]))[at] = values
        return [out]

    def _measured(
        self, hidden: Tensor, state: State, tokens: Tensor, n: Tensor, i: Tensor, reads: frozenset[str], top: int
    ) -> Iterator[dict[str, Tensor]]:
        """log-sum-exp, entropy, margin, top-K″ … of entries (n, i) from one pass over their logits, in chunks."""
        if "hidden" in reads:
            self._has_hidden()
        self.cost.head_rows += n.numel()
        if not (self.scored or reads or top) and (found := self._likeliest(hidden, state, n, i)) is not None:
            yield found
            return
        if (found := self._best(hidden, state, tokens, n, i, reads, top)) is not None:
            yield found
            return
        start = 0
        while start < n.numel():
            size = max(CHUNK_ROWS, CHUNK_LOGITS // self.width) if self.width else CHUNK_ROWS
            part = slice(start, start + size)
            some, at = (hidden, (n, i)) if start == 0 and n.numel() <= size else (hidden[part], (n[part], i[part]))
            logits = self.model.logits(some)
            self.width, start = logits.shape[-1], part.stop
            if top > self.width and not self.at_most:
                raise ValueError(f"asked for the {top} best symbols of a vocabulary of {self.width}")
            yield self.statistics(logits, state, tokens, *at, reads, min(top, self.width))

    def statistics(
        self, logits: Tensor, state: State, tokens: Tensor, n: Tensor, i: Tensor, reads: frozenset[str], top: int
    ) -> dict[str, Tensor]:
        """Statistics of logits (m, V), which are overwritten. With x* = max x, d = x − x* and p = softmax(d),

            log Σ exp d = −log p(best),    log Σ exp x = x* + log Σ exp d,    H = log Σ exp d − Σ p·d,

        so that one exponential of each entry, within one softmax, serves them all.
        """
        x = logits if logits.dtype == state.logp.dtype else logits.to(state.logp.dtype)
        symbols = self.symbols
        out: dict[str, Tensor] = {}
        before = "current" in reads or not symbols.renormalise
        in_place = entry(x, tokens[n, i]) if before else x
        banned = self._banned(state, x)
        lost = x.index_select(-1, banned) if before else x  # (m, banned)
        ruled = state.rules is not None
        whole = x.logsumexp(-1) if before and (ruled or not symbols.plain) else None
        if not symbols.renormalise:
            out |= _shape(x.sub(x.amax(-1, keepdim=True)).clamp_(min=NEVER), reads)
        x = symbols.restrict(x, banned, state, n, i)
        if state.rules is not None:
            free = x.log_softmax(-1)
            x = state.rules.restrict(x, tokens, n, i, NEVER)
            if symbols.drawn:
                out["mass"] = torch.where(x > NEVER / 2, free, -torch.inf).logsumexp(-1)
        which: Tensor | None = None  # (m, K) the symbols that x is of, where those are not all
        if symbols.drawn:
            few = symbols.forced is None and not (top or reads & {"full", "best"} or hasattr(self.model, "echo"))
            x, which = symbols.cut_few(x, state, n) if few else (symbols.cut(x, state, n), None)
        best, token = maximum(x)
        if symbols.greedy and not (top or reads & {"entropy", "full"}):
            d, p = x, x.softmax(-1)  # d is not asked for
        else:
            d = x.sub_(best[:, None]).clamp_(min=NEVER)  # −inf would make 0·log 0 a NaN
            p = d.softmax(-1)
        log_best = p.gather(-1, token[:, None])[:, 0].log()
        allowed = best - log_best
        self._check(allowed, state, n, i)
        if ruled and not symbols.drawn:  # log p without the rule, less log p with it, of any symbol that it leaves
            out["mass"] = free.gather(-1, token[:, None])[:, 0] - log_best
        if before:  # the whole distribution is what is allowed and what is banned, together
            whole = together(allowed, lost) if whole is None else whole
            out["current"] = in_place - whole  # φ_logp of an unfilled position is −log p(<mask>)
        if hasattr(self.model, "echo"):
            out["echo"] = self.model.echo(p)  # before p is spent on the entropy
        if symbols.renormalise:
            out |= _shape(d, reads, p, log_best)
        if "best" in reads:
            out["best"], out["best_logp"] = token, log_best
        if not (symbols.renormalise or whole is None):
            log_best = best - whole
        if symbols.greedy:
            out["token"], out["logp"] = token if which is None else which.gather(-1, token[:, None])[:, 0], log_best
            if not top and "full" not in reads:
                return out
        logp = d.add_(log_best[:, None])
        if not symbols.greedy:
            out["token"] = symbols.draw(logp, state, n, i)
            out["logp"] = logp.gather(-1, out["token"][:, None])[:, 0]
            if which is not None:
                out["token"] = which.gather(-1, out["token"][:, None])[:, 0]
        if top:
            out["top_logp"], out["top_token"] = symbols.best(logp, top, state, n, i)
        if "full" in reads:
            out["full"] = logp
        return out

    def _likeliest(self, hidden: Tensor, state: State, n: Tensor, i: Tensor) -> dict[str, Tensor] | None:
        """The most probable symbols and nothing of the others, where the model knows them without giving logits."""
        plain = self.symbols.greedy and self.symbols.plain and state.rules is None
        if not (plain and self.width and hasattr(self.model, "likeliest")):
            return None
        found = self.model.likeliest(hidden, self._banned(state, hidden))
        if found is None:
            return None
        token, top = found
        self._check(top, state, n, i)
        return {"token": token, "logp": top}  # which nobody reads

    def _best(
        self, hidden: Tensor, state: State, tokens: Tensor, n: Tensor, i: Tensor, reads: frozenset[str], top: int
    ) -> dict[str, Tensor] | None:
        """What a decision reads, where the model knows it without giving logits."""
        symbols = self.symbols
        plain = symbols.greedy and symbols.renormalise and symbols.plain and state.rules is None and reads <= KNOWN
        if not (plain and self.width and hasattr(self.model, "best")) or (top > self.width and not self.at_most):
            return None
        now = tokens[n, i] if "current" in reads else None
        found = self.model.best(hidden, self._banned(state, hidden), NEVER, now, min(top, self.width))
        if found is None:
            return None
        self._check(found.log_sum, state, n, i)
        out = {name: getattr(found, name) for name in ("token", "logp", *(reads & {"entropy", "current"}))}
        return out | ({"top_token": found.tokens, "top_logp": possible(found.logps)} if top else {})

    def _banned(self, state: State, like: Tensor) -> Tensor:
        """The symbols that may never be written, ascending."""
        if self.banned is None:
            self.banned = torch.tensor(self.symbols.banned(state, self.width), dtype=torch.int64, device=like.device)
        return self.banned

    def _check(self, lse: Tensor, state: State, n: Tensor, i: Tensor) -> None:
        """log Σ exp (m,) of each entry's logits, or the largest of them, must be that of a distribution."""

        def complain() -> None:
            m = int((~lse.isfinite() | (lse < NEVER / 2)).nonzero()[0])
            where = f"row {int(state.row[n[m]])}, position {int(i[m])}, step {int(state.step[n[m]])}"
            if bool(lse[m].isfinite()):
                raise ValueError(f"{where}: bans, allowed sets, rules and the model leave no possible symbol")
            raise ModelError(f"{where}: the model's logits are not finite numbers (NaN or infinite weights?)")

        if lse.device.type != "cpu":
            doubt(~((lse >= NEVER / 2) & (lse < torch.inf)).all(), complain)
            return
        low, high = [lse.item()] * 2 if len(lse) == 1 else (x.item() for x in lse.aminmax())  # NaN if any is
        if not (low >= NEVER / 2 and high < torch.inf):
            complain()


def _shape(
    d: Tensor, reads: frozenset[str], p: Tensor | None = None, log_best: Tensor | None = None
) -> dict[str, Tensor]:
    """Margin and entropy, where they are read, of the distribution with logits d (m, V), the largest of each row 0."""
    if not reads & {"margin", "entropy"}:
        return {}
    p, out = d.softmax(-1) if p is None else p, dict[str, Tensor]()
    if "margin" in reads:
        two = p.topk(min(2, p.shape[-1]), -1).values
        out["margin"] = two[:, 0] - two[:, 1:].sum(-1)
    if "entropy" in reads:
        log_best = p.amax(-1).log() if log_best is None else log_best
        out["entropy"] = -log_best - p.mul_(d).sum(-1)
    return out


def told(context: Any, state: State) -> Any:
    """The context of this pass: one that depends on more than Y^t, on Y^{≤t} or the rows' seeds, is told of them."""
    return context.at(state) if hasattr(context, "at") else context


def _spread(parts: list[dict[str, Tensor]], name: str, fill: float, at: Tensor) -> Tensor | None:
    """A statistic of the positions `at` (N, L), measured in parts, at its places of the canvas: (N, L, …)."""
    if name not in parts[0]:
        return None
    values = _whole([{name: p[name]} for p in parts])[name]
    shape = (*at.shape, *values.shape[1:])
    if values.shape[0] == at.numel():  # everything, in its order
        return values.view(shape)
    return values.new_full(shape, fill).masked_scatter_(at if values.dim() == 1 else at[..., None], values)


def _whole(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Statistics that were measured in parts."""
    return parts[0] if len(parts) == 1 else {name: torch.cat([p[name] for p in parts]) for name in parts[0]}
