"""(b) Symbol replacement: which symbol is proposed at a position, from p(y | Y, X)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.core.devices import precise
from anyorder.core.noise import SYMBOL, uniform
from anyorder.core.settings import real_number, whole_number
from anyorder.core.state import State

NEVER = -1e4  # the logit of a symbol that may not be written; finite, so that 0·log 0 = 0 needs no special case
_CLOSED, _FORCED = "position:closed", "position:forced"  # what rows carry along: may not stand there; 1 + the symbol
COLDEST = 1e-30  # the lowest temperature that float32 can divide by; the most probable symbol is certain long before


@dataclass(frozen=True, eq=False)
class Symbols:
    """How a symbol is drawn. Temperature 0 is greedy: the most probable allowed symbol, always.

    Bans and allowed sets change the distribution (it is renormalised over what remains); temperature, top-k and
    top-p change only how a symbol is drawn from it, not the log-probability it is scored with, unless `drawn`. <mask>
    itself is never written, so that a generation ends and leaves none.
    """

    temperature: float = 0.0
    top_k: int | None = None  # draw among the k most probable
    top_p: float | None = None  # draw among the fewest symbols whose probability reaches p
    ban: tuple[int, ...] = ()  # symbols that are never written
    allowed: Tensor | None = None  # (L, V) or (rows, L, V) bool: what may stand where …
    forced: Tensor | None = None  # (L,) or (rows, L) int64: the symbol to write there, −1 where free; with a dimension
    # of rows these are of the rows of a first state, which take them along (`start`)
    may_mask: bool = False  # let <mask> be written like any symbol and be left at the end, as other systems do
    meanwhile: bool = False  # let <mask> be proposed, so that nothing is written, in all steps of a row but its last
    drawn: bool = False  # log p, entropy and margin are those of what is drawn from: tempered and cut by top-k, top-p
    renormalise: bool = True  # False: banned symbols are left out; log p, entropy and margin stay the model's own
    final: float | None = None  # the temperature falls linearly over a row's steps, to this one after the last

    def __post_init__(self) -> None:
        real_number("temperature (0 is greedy)", self.temperature, 0)
        if self.final is not None:
            real_number("the final temperature", self.final, 0)
            if not self.drawn:
                raise ValueError("a temperature that falls is that of what is judged, too: say drawn=True")
        if self.top_k is not None:
            whole_number("top_k", self.top_k)
        if self.top_p is not None:
            real_number("top_p", self.top_p, 0, 1)
        if self.top_p == 0:
            raise ValueError("top_p 0 leaves no symbol to draw: temperature 0 takes the most probable one")

    @property
    def plain(self) -> bool:
        """Does `restrict` nothing but ban? Then a model may find its best symbols without giving logits."""
        changed = self.drawn or self.meanwhile or self.allowed is not None
        return not changed and type(self).restrict is Symbols.restrict

    @property
    def by_row(self) -> bool:
        """Has each row of a first state its own allowed sets or forced symbols?"""
        return (self.allowed is not None and self.allowed.dim() == 3) or (
            self.forced is not None and self.forced.dim() == 2
        )

    def start(self, state: State) -> State:
        """A first state whose rows carry what is theirs along, into whatever batch; one that has it keeps its own."""
        if not self.by_row or not {_CLOSED, _FORCED}.isdisjoint(state.memory):
            return state
        own: dict[str, Tensor] = {}
        if self.allowed is not None and self.allowed.dim() == 3:
            own[_CLOSED] = ~self.allowed[state.row]
        if self.forced is not None and self.forced.dim() == 2:
            own[_FORCED] = self.forced[state.row] + 1
        return state.but(memory=state.memory | own)

    @property
    def greedy(self) -> bool:
        """Is the most probable allowed symbol always the one?"""
        return self.temperature == 0 and self.forced is None

    def banned(self, state: State, width: int) -> list[int]:
        """The symbols never written, of a vocabulary of `width`."""
        if self.meanwhile:  # `restrict` bans <mask> where it must not be proposed
            return sorted({*self.ban} - {state.mask_id})
        mask = not self.may_mask and 0 <= state.mask_id < width
        return sorted({*self.ban, state.mask_id} if mask else set(self.ban))

    def restrict(self, logits: Tensor, banned: Tensor, state: State, n: Tensor, i: Tensor) -> Tensor:
        """Logits (M, V) of entries (n, i), with what may not be written there at NEVER; changes `logits`."""
        logits.index_fill_(-1, banned, NEVER)
        if self.allowed is not None:
            closed = ~self.allowed[i] if self.allowed.dim() == 2 else state.memory[_CLOSED][n, i]
            logits.masked_fill_(closed, NEVER)
        if self.meanwhile:
            over = torch.ones_like(state.step) if state.budget is None else state.budget - state.step
            logits[:, state.mask_id].masked_fill_(over[n] <= 1, NEVER)
        return logits

    def draw(self, logp: Tensor, state: State, n: Tensor, i: Tensor) -> Tensor:
        """A symbol (M,) for each entry (n, i), from log p (M, V)."""
        token = logp.argmax(-1) if self.temperature == 0 else self._sample(logp, state, n, i)
        forced = self._forced(state, n, i)
        return token if forced is None else torch.where(forced >= 0, forced, token)

    def best(self, logp: Tensor, k: int, state: State, n: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        """The k best symbols of each entry (n, i), best first: log p (M, k), −inf where there is none, and ids."""
        value, token = logp.topk(k, -1)
        value = possible(value)
        forced = self._forced(state, n, i)
        if forced is not None:  # the only choice, with the log p it has
            here = forced >= 0
            own = logp.gather(-1, forced.clamp_min(0)[:, None])[:, 0]
            value[here], token[here, 0] = -torch.inf, forced[here]
            value[here, 0] = own[here]
        return value, token

    def _forced(self, state: State, n: Tensor, i: Tensor) -> Tensor | None:
        """(M,) the symbol to write at each entry, −1 where free."""
        if self.forced is None:
            return None
        return self.forced[i] if self.forced.dim() == 1 else state.memory[_FORCED][n, i] - 1

    def cut(self, logits: Tensor, state: State, n: Tensor) -> Tensor:
        """Logits (M, V) of what symbols of rows n are drawn from: at their temperature, NEVER beyond top-k, top-p."""
        heat = self._heat(state, n)
        return torch.where(self._kept(logits, heat) > 0, logits / heat, NEVER) if self._cuts else logits / heat

    @property
    def _cuts(self) -> bool:
        return self.top_k is not None or self.top_p is not None

    def _heat(self, state: State, n: Tensor) -> Tensor | float:
        """The temperature of rows n, (M, 1) where it falls: t = t_min + (t_max − t_min)·k/T, k of T steps left."""
        if self.final is None:
            return max(self.temperature or 1.0, COLDEST)
        if state.budget is None:
            raise ValueError("a temperature that falls needs a number of steps to fall over: give `steps`")
        share = (state.budget - state.step) / state.budget
        return (self.final + (self.temperature - self.final) * share).clamp_min(COLDEST)[n, None]

    def cut_few(self, logits: Tensor, state: State, n: Tensor) -> tuple[Tensor, Tensor | None]:
        """The same for the top-k alone, (M, k), and which symbols they are, ascending; without a top-k for all."""
        if self.top_k is None or self.top_k >= logits.shape[-1]:
            return self.cut(logits, state, n), None
        value, which = logits.topk(self.top_k, -1, sorted=False)
        which, order = which.sort(-1)
        return self.cut(value.gather(-1, order), state, n), which

    def _kept(self, logits: Tensor, heat: Tensor | float) -> Tensor:
        """p (M, V) at the temperature, 0 beyond top-k and top-p."""
        p = (logits / heat).softmax(-1).masked_fill(logits < NEVER / 2, 0)
        if self.top_k is not None and self.top_k < p.shape[-1]:
            value, which = p.topk(self.top_k, -1)
            p = torch.zeros_like(p).scatter(-1, which, value)
        if self.top_p is not None:
            best, where = p.sort(-1, descending=True)
            before = best.cumsum(-1) - best  # probability of everything more probable
            beyond = before >= self.top_p * best.sum(-1, keepdim=True)
            best[:, 1:] = best[:, 1:].masked_fill(beyond[:, 1:], 0)  # the most probable always stays
            p = torch.zeros_like(p).scatter(-1, where, best)
        return p

    def _sample(self, logp: Tensor, state: State, n: Tensor, i: Tensor) -> Tensor:
        """Inverse CDF: the first symbol whose cumulative probability exceeds u."""
        p = logp.softmax(-1) if self.drawn else self._kept(logp, self._heat(state, n))
        cdf = p.to(precise(p.device)).cumsum(-1)
        u = uniform(state.seed[n], state.step[n], i, SYMBOL)
        target = torch.minimum(u * cdf[:, -1], torch.nextafter(cdf[:, -1], torch.zeros_like(u)))
        return torch.searchsorted(cdf, target[:, None], right=True)[:, 0]


def possible(logp: Tensor) -> Tensor:
    """log p of symbols, −inf of those that may not be written."""
    return logp.masked_fill(logp < NEVER / 2, -torch.inf)


GREEDY = Symbols()
SAMPLED = Symbols(temperature=1.0)
