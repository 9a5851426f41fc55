"""Episodes of a policy through the core's `unroll`, kept as time steps in a FIFO buffer.

The frozen model runs once per rollout step; what the policy saw (its Inputs) is kept, so that an update costs the
policy's MLP only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyorder.core.coordinates import Coordinates
from anyorder.core.decode import unroll
from anyorder.core.decoder import Decoder
from anyorder.core.model import Model
from anyorder.core.order import Order
from anyorder.core.order import margin as margin_feature
from anyorder.core.state import State
from anyorder.core.step import Step
from anyorder.core.symbols import Symbols
from anyorder.models.policy import Inputs, Policy
from anyorder.training import rl
from anyorder.training.rewards import Reward

Teacher = Callable[[Step, Tensor], Tensor]  # a step of n rows, their references (n, L) → the position to choose, or −1


class Episodes(NamedTuple):
    """What a task hands to a rollout: N canvases to fill, and what they should become."""

    context: Any
    state: State
    references: Tensor  # (N, R) symbols, padded with the state's pad_id


class Task(Protocol):
    """Where episodes come from, and what a policy is finally judged by."""

    model: Model
    symbols: Symbols

    def draw(self, count: int, generator: torch.Generator) -> Episodes:
        """`count` training episodes."""
        ...

    def validate(self, order: Order) -> float:
        """Quality of an order on held-out inputs, positions taken greedily; higher is better."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """One time step (s_t, a_t) of one episode."""

    hidden: Tensor  # (m, D) at the candidates
    features: Tensor  # (m, 2F)
    mean: Tensor  # (D,)
    past: Tensor  # (D,)
    filled: int
    action: int  # index among the candidates
    logp: float  # log π(a_t|s_t) as it was
    value: float  # V(s_t) as it was
    advantage: float
    returns: float
    teacher: int  # index among the candidates that a teacher would choose, −1: none


class Batch(NamedTuple):
    """B time steps, candidates padded to M."""

    inputs: Inputs
    action: Tensor  # (B,) int64
    logp: Tensor  # (B,)
    value: Tensor  # (B,)
    advantage: Tensor  # (B,)
    returns: Tensor  # (B,)
    teacher: Tensor  # (B,) int64


def collate(moments: list[Moment]) -> Batch:
    sizes = torch.tensor([len(m.hidden) for m in moments])
    inputs = Inputs(
        hidden=pad_sequence([m.hidden for m in moments], batch_first=True),
        features=pad_sequence([m.features for m in moments], batch_first=True),
        candidates=torch.arange(int(sizes.max())) < sizes[:, None],
        mean=torch.stack([m.mean for m in moments]),
        past=torch.stack([m.past for m in moments]),
        filled=torch.tensor([m.filled for m in moments]),
    )
    numbers = torch.tensor([(m.logp, m.value, m.advantage, m.returns) for m in moments])
    logp, value, advantage, returns = numbers.unbind(1)
    action, teacher = torch.tensor([(m.action, m.teacher) for m in moments]).unbind(1)
    return Batch(inputs, action, logp, value, advantage, returns, teacher)


class Buffer:
    """FIFO of time steps: the oldest leave when it is full."""

    def __init__(self, size: int) -> None:
        self.moments: deque[Moment] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self.moments)

    def add(self, moments: list[Moment]) -> None:
        self.moments.extend(moments)

    def sample(self, count: int, generator: torch.Generator) -> Batch:
        """`count` time steps, uniformly, without repeats (all of them, where there are fewer)."""
        chosen = torch.randperm(len(self.moments), generator=generator)[:count].tolist()
        return collate([self.moments[i] for i in chosen])


@dataclass(frozen=True)
class Rollout:
    """Finished episodes as time steps, and what they earned."""

    moments: list[Moment]
    reward: float  # mean over episodes of Σ_t r_t
    entropy: float  # mean of H(π(·|s_t)) / log(number of candidates) where there is a choice: 1 = uniform


def rollout(
    task: Task,
    policy: Policy,
    episodes: Episodes,
    reward: Reward,
    gamma: float,
    lam: float,
    temperature: float = 1.0,
    teacher: Teacher | None = None,
) -> Rollout:
    """One episode per row: T = L, positions sampled from π_θ, symbols as the task says (greedy)."""
    context, state, references = episodes
    texts = [[y for y in row if y != state.pad_id] for row in references.tolist()]
    n, longest = len(state.tokens), int(state.masked.sum(-1).max())
    rewards, values = torch.zeros(n, longest), torch.zeros(n, longest)
    alive = torch.zeros(n, longest, dtype=torch.bool)
    quality = reward.quality(state, texts).float()
    pending: list[tuple[int, int, dict[str, Any]]] = []  # (row, t, fields of a Moment that are known already)
    spread = []
    order: Order = policy if teacher is None else policy + 0.0 * margin_feature  # teachers read the margin: look at it
    decoder = Decoder(Coordinates(order, temperature=temperature), task.symbols)
    for t, taken in enumerate(unroll(task.model, context, state, decoder)):
        assert taken.judged is not None
        with torch.no_grad():
            x = Inputs(*(f.clone() for f in policy.inputs(taken.before, taken.judged)))
            value, log_pi = policy.values(x), rl.log_policy(policy.scores(x), x.candidates)
        after = reward.quality(taken.state, [texts[i] for i in taken.rows.tolist()]).float()
        last = ~taken.state.masked.any(-1)
        gained = after - quality[taken.rows] if reward.dense else torch.where(last, after - quality[taken.rows], 0.0)
        rewards[taken.rows, t], values[taken.rows, t], alive[taken.rows, t] = gained, value, True
        if reward.dense:
            quality[taken.rows] = after
        choices = x.candidates.sum(-1)
        spread.append((rl.entropy(log_pi) / choices.log())[choices > 1])
        place = x.candidates.long().cumsum(-1) - 1  # index of a position among the candidates
        action = taken.z.int().argmax(-1)
        wanted = torch.full_like(action, -1) if teacher is None else teacher(taken, references[taken.rows])
        at = place.gather(1, action[:, None])[:, 0].tolist()
        to = torch.where(wanted < 0, -1, place.gather(1, wanted.clamp_min(0)[:, None])[:, 0]).tolist()
        for i, row in enumerate(taken.rows.tolist()):
            here = x.candidates[i]
            known = {
                "hidden": x.hidden[i, here], "features": x.features[i, here], "mean": x.mean[i], "past": x.past[i],
                "filled": int(x.filled[i]), "action": at[i], "teacher": to[i], "logp": float(taken.logz[i]),
                "value": float(value[i]),
            }  # fmt: skip
            pending.append((row, t, known))
    returns = rl.discounted_returns(rewards, alive, gamma).tolist()
    advantage = rl.advantages(rewards, values, alive, gamma, lam).tolist()
    moments = [Moment(**known, advantage=advantage[r][t], returns=returns[r][t]) for r, t, known in pending]
    return Rollout(moments, float(rewards.sum(-1).mean()), float(torch.cat(spread).mean().nan_to_num()))
