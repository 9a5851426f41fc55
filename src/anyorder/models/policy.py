"""π_θ: the paper's learned coordinate selection as an Order, with its value head and its file.

    π_θ(a|s) = softmax_i f_θ(h_i, h̄)        f_θ: a 2-layer MLP on the concatenation
    h̄ = 1/k Σ_j (emb_θ(j) + h^j_{a_j})      the last k chosen positions, j = 1 the oldest of them
    V_θ(s) = v · 1/L Σ_i (h_i, h̄) + b       a 1-layer MLP

h_i is the model's output vector at position i. Nothing here depends on the kind of model: only on its width. Beyond
the paper, f_θ may see what one attention layer gathers from the other candidates (a ranking compares), a learned
number may be added for each pair of candidates by how far apart they stand (`distances`), and a policy may decide how
many as well as which (`count`): from the largest f_i down it writes every position with

    f_i + Σ_{j ∈ z} γ_{i−j} > 0             z: what it has decided to write in this step

and one at least. Without γ (`crowding`) each is decided by itself; with it, neighbours stay out of each other's way.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from anyorder.core.count import ONE, Count, Ranked
from anyorder.core.order import FEATURES, Order
from anyorder.core.state import State, View
from anyorder.errors import ModelError
from anyorder.files import write_whole

APART = 16  # width of r_d, what a policy knows of a distance d between candidates
CHOSEN, FILLED = "policy:chosen", "policy:filled"  # keys of State.memory: (N, k, D) vectors, (N, k) which are there


class Inputs(NamedTuple):
    """What π_θ and V_θ see of B states with M positions each. The model is frozen, so this can be kept."""

    hidden: Tensor  # (B, M, D) h_i
    features: Tensor  # (B, M, 2F) handcrafted φ_i beside it and their reciprocal ranks, F = 0 in the paper
    candidates: Tensor  # (B, M) bool: the positions that may be chosen
    place: Tensor  # (B, M) int64: where in the text each of them stands
    mean: Tensor  # (B, D) 1/L Σ_i h_i over open positions
    past: Tensor  # (B, D) Σ_j h^j_{a_j}
    filled: Tensor  # (B,) int64: terms of that sum, at most k


class Policy(nn.Module, Order):
    """f_θ and V_θ. `history` is the paper's k; `features` names handcrafted features that f_θ sees as well.

    `attention` is the width of an attention layer over the candidates, 0: none; `distances` is how far β tells the
    candidates' distances apart, 0: no β. `several`: it decides how many, too; `crowding` is how far γ tells apart where
    others are written in the same step, 0: no γ.
    """

    def __init__(
        self,
        width: int,
        history: int = 0,
        hidden: int = 1024,
        features: tuple[str, ...] = (),
        about: Any = None,
        *,
        attention: int = 0,
        distances: int = 0,
        several: bool = False,
        crowding: int = 0,
    ) -> None:
        super().__init__()
        unknown = [name for name in features if name not in FEATURES]
        if unknown:
            raise PolicyError(f"no feature {unknown[0]!r}; there are {', '.join(FEATURES)}")
        if distances < 0 or crowding < 0:
            raise PolicyError(f"distances = {distances}, crowding = {crowding}: 0 or more")
        if crowding and not several:
            raise PolicyError(f"crowding = {crowding} is for policies that write several positions a step")
        self.width, self.history, self.features = width, history, tuple(features)
        self.about: dict[str, Any] = dict(about or {})  # what it was trained for: model, direction, method, reward …
        seen = width * (2 if history else 1)
        self.attention, self.distances, self.several, self.crowding = attention, distances, several, crowding
        self.query, self.key, self.gather = (nn.Linear(width, attention) if attention else None for _ in range(3))
        self.apart = nn.Embedding(2 * distances + 1, APART) if distances else None  # r
        self.before = nn.Linear(APART, 1, bias=False) if distances else None  # u: β_d = u · r_d
        self.near = nn.Embedding(2 * crowding + 1, APART) if crowding else None  # ρ
        self.crowd = nn.Linear(APART, 1, bias=False) if crowding else None  # v: γ_d = v · ρ_d
        self.inner = nn.Linear(seen + 2 * len(self.features) + attention, hidden)
        self.outer = nn.Linear(hidden, 1)
        self.critic = nn.Linear(seen, 1)
        self.slot = nn.Embedding(history, width) if history else None  # emb_θ
        for layer in (self.outer, self.critic):  # starts near the uniform order, with values near 0
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)
        if self.slot is not None:
            nn.init.normal_(self.slot.weight, std=0.01)
        for pairs in (self.before, self.crowd):
            if pairs is not None:
                nn.init.zeros_(pairs.weight)

    @property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        """Hidden states, and the fields of its features."""
        return frozenset({"hidden"}).union(*(FEATURES[name].reads for name in self.features))

    @property
    def remembers(self) -> bool:
        """Does it carry the last k choices along, or do its features?"""
        return self.history > 0 or any(FEATURES[name].remembers for name in self.features)

    def forward(self, state: State, view: View) -> Tensor:
        """f_θ(h_i, h̄): (N, L)"""
        return self.scores(self.inputs(state, view))

    def inputs(self, state: State, view: View) -> Inputs:
        """What the network is given, from a state and the model's view of it."""
        assert view.hidden is not None
        hidden = view.hidden.to(self.inner.weight.dtype)  # a model in half precision gives halves
        if hidden.shape[-1] != self.width:
            raise PolicyError(
                f"this policy reads hidden states of width {self.width}, the model gives {hidden.shape[-1]}: "
                f"it was trained for {self.about.get('model', 'another model')}; train one for this model"
            )
        weight = (state.open / state.open.sum(-1, keepdim=True)).to(hidden.dtype)
        past, count = hidden.new_zeros(len(hidden), self.width), torch.zeros_like(state.row)
        if CHOSEN in state.memory:
            filled = state.recall(FILLED, False)
            past, count = (state.memory[CHOSEN].to(hidden.dtype) * filled[..., None]).sum(1), filled.sum(-1)
        candidates = state.masked
        phi = [FEATURES[name](state, view).masked_fill(~candidates, 0.0) for name in self.features]
        columns = [c.to(hidden.dtype) for f in phi for c in (f, reciprocal_rank(f, candidates))]
        features = torch.stack(columns, -1) if columns else hidden.new_zeros(*hidden.shape[:2], 0)
        place = torch.arange(hidden.shape[1], device=hidden.device).expand_as(candidates)
        return Inputs(hidden, features, candidates, place, torch.einsum("nl,nld->nd", weight, hidden), past, count)

    def scores(self, x: Inputs) -> Tensor:
        """f_θ(h_i, h̄) + Σ_j β_{j−i}: (B, M)"""
        parts = [x.hidden, x.features]
        if self.slot is not None:
            parts.append(self._recall(x)[:, None].expand_as(x.hidden))
        if self.attention:
            parts.append(self._compared(x))
        scores: Tensor = self.outer(self.inner(torch.cat(parts, -1)).relu())[..., 0]
        return scores if self.before is None else scores + self._apart(x)

    def values(self, x: Inputs) -> Tensor:
        """V_θ(1/L Σ_i (h_i, h̄)): (B,)"""
        values: Tensor = self.critic(x.mean if self.slot is None else torch.cat([x.mean, self._recall(x)], -1))
        return values[:, 0]

    def _compared(self, x: Inputs) -> Tensor:
        """c_i = Σ_j softmax_j(q_i · k_j / √d) v_j over the candidates j, in heads of at most 16: (B, M, A)"""
        assert self.query is not None and self.key is not None and self.gather is not None
        heads = max(1, self.attention // 16)
        q, k, v = (f(x.hidden).unflatten(-1, (heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.gather))
        seen = x.candidates[:, None, None] | ~x.candidates.any(-1)[:, None, None, None]  # no candidate: no NaN either
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, seen)
        return mixed.transpose(1, 2).flatten(-2)

    def _apart(self, x: Inputs) -> Tensor:
        """Σ_j β_{j−i}, β_d = u · r_d, over the candidates j, distances cut off at ±`distances`: (B, M)"""
        assert self.before is not None and self.apart is not None
        most = self.distances
        apart = (x.place[:, None] - x.place[..., None]).clamp(-most, most) + most  # (B, M, M) j − i, from 0 on
        pairs = (self.apart.weight @ self.before.weight[0])[apart]
        return torch.where(x.candidates[:, None], pairs, 0.0).sum(-1)

    def _recall(self, x: Inputs) -> Tensor:
        """h̄ = 1/k (Σ_j h^j_{a_j} + Σ_{j ≤ count} emb_θ(j)): (B, D)"""
        assert self.slot is not None
        slots = nn.functional.pad(self.slot.weight.cumsum(0), (0, 0, 1, 0))  # (k+1, D), 0 for an empty history
        return (x.past + slots[x.filled]) / self.history

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        """The last k chosen vectors; of positions chosen together, the left one counts as the earlier."""
        if not self.history:
            return {}
        assert view.hidden is not None
        n, k = len(z), self.history
        chosen = state.recall(CHOSEN, view.hidden.new_zeros(n, k, self.width))
        filled = state.recall(FILLED, z.new_zeros(n, k))
        there = torch.cat([filled, z], 1)  # (N, k+L)
        last = there.int().argsort(dim=1, stable=True)[:, -k:]  # the newest k that are there, in order
        vectors = torch.cat([chosen, view.hidden], 1)
        return {CHOSEN: vectors.gather(1, last[..., None].expand(-1, -1, self.width)), FILLED: there.gather(1, last)}

    @property
    def count(self) -> Count:
        """How many it wants to write: every position that `decide` says (one at least), or one at a time."""
        if not self.several:
            return ONE

        def take(state: State, view: View, ranked: Ranked) -> Tensor:
            return self.decide(self(state, view), ranked.region)

        return Count("learned", take, self.reads, fixes="which")

    def decide(self, scores: Tensor, candidates: Tensor, bars: Tensor | float = 0.0) -> Tensor:
        """z (N, L): from the largest f_i down, the candidates with f_i + Σ_{j ∈ z} γ_{i−j} above their bar.

        Bars (N, L) that are drawn, logit u_i of uniform u_i, make it a draw: i is written with the σ of that number.
        """
        if self.crowding == 0:
            return (scores > bars) & candidates
        place = torch.arange(scores.shape[1], device=scores.device)
        gamma = self.gamma(place - place[:, None])  # (L, L) what i ∈ z is worth to each other
        left = (scores - bars).masked_fill(~candidates, -torch.inf)  # −∞ too once it is decided
        order = scores.masked_fill(~candidates, -torch.inf).argsort(dim=-1, descending=True, stable=True)
        z = torch.zeros_like(candidates)
        for i in order.unbind(1):  # each row's next, (N,)
            if not bool((left > 0).any()):
                break
            now = left.gather(1, i[:, None]) > 0
            z.scatter_(1, i[:, None], now)
            left = (left + torch.where(now, gamma[i], 0.0)).scatter_(1, i[:, None], -torch.inf)
        return z

    def crowded(self, x: Inputs, scores: Tensor, z: Tensor) -> Tensor:
        """f_i + Σ_{j ∈ z} γ_{i−j} as `decide` saw it when it came to i, if z (B, M) is what it decided: (B, M)"""
        if self.crowding == 0:
            return scores
        order = scores.detach().masked_fill(~x.candidates, -torch.inf).argsort(dim=-1, descending=True, stable=True)
        rank = order.argsort(dim=-1)
        earlier = z[:, None] & (rank[:, None] < rank[..., None])  # (B, M, M) j was written before i was looked at
        gamma = self.gamma(x.place[..., None] - x.place[:, None])
        return scores + torch.where(earlier, gamma, 0.0).sum(-1)

    def gamma(self, apart: Tensor) -> Tensor:
        """γ_d = v · ρ_d at distances d, cut off at ±`crowding`."""
        assert self.near is not None and self.crowd is not None
        most = self.crowding
        return (self.near.weight @ self.crowd.weight[0])[apart.clamp(-most, most) + most]

    def above(self, cutoff: float) -> Self:
        """The same policy with f_i − cutoff for f_i: deciding how many, it writes fewer (cutoff > 0) or more."""
        other = copy.deepcopy(self)
        with torch.no_grad():
            other.outer.bias.sub_(cutoff)
        return other

    def __str__(self) -> str:
        return "learned"

    def save(self, path: str | Path) -> None:
        """Write weights and settings as safetensors."""
        settings = {
            "width": self.width, "history": self.history, "hidden": self.inner.out_features, "features": self.features,
            "attention": self.attention, "distances": self.distances, "several": self.several,
            "crowding": self.crowding, "about": self.about,
        }  # fmt: skip
        write_policy(path, settings, self.state_dict())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a policy that `save` wrote."""
        settings, weights = read_policy(path)
        policy = cls(**settings | {"features": tuple(settings["features"])})
        policy.load_state_dict(weights)
        return policy.eval()


def reciprocal_rank(phi: Tensor, candidates: Tensor) -> Tensor:
    """1 for the candidate with the largest φ, 1/2 for the next, …; 0 elsewhere. Free of φ's scale.  (N, L) → (N, L)"""
    order = phi.masked_fill(~candidates, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    rank = order.argsort(dim=-1)
    return torch.where(candidates, 1.0 / (1 + rank), 0.0)


def check_width(policy: Policy, width: int) -> None:
    """Refuse a policy trained for a model of another width before anything is computed."""
    if policy.width != width:
        raise PolicyError(
            f"this policy was trained for a model of width {policy.width} "
            f"({policy.about.get('model', 'unnamed')}), this model's is {width}: train one for it"
        )


KIND, FORMAT = "anyorder-policy", "1"


class PolicyError(ModelError):
    """A policy file that cannot be used, or not with this model."""


def write_policy(path: str | Path, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write weights and settings as safetensors."""
    from safetensors.torch import save

    laid = {name: weight.detach().contiguous() for name, weight in weights.items()}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save(laid, {"kind": KIND, "format": FORMAT, "settings": json.dumps(settings)}))


def read_policy(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The settings and weights that `write_policy` wrote."""
    from safetensors import safe_open

    try:
        with safe_open(str(path), "pt") as file:
            meta = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise PolicyError(f"no policy file {path}: train one with `anyorder train policy.toml`") from None
    except Exception as error:
        raise PolicyError(f"{path} is not a safetensors file: {error}") from None
    if meta.get("kind") != KIND:
        raise PolicyError(f"{path} holds no policy (its kind is {meta.get('kind', 'not given')!r})")
    if meta.get("format") != FORMAT:
        raise PolicyError(f"{path} has policy format {meta.get('format')!r}, this version reads format {FORMAT}")
    return json.loads(meta["settings"]), weights
