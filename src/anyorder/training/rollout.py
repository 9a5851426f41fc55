"""Episodes of a policy through the core's `unroll` (`play`), and what its decisions earned (`credited`).

The frozen model runs once per rollout step; what the policy saw (its Inputs) is kept, so that an update costs the
policy's MLP only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from anyorder.core.coordinates import Coordinates
from anyorder.core.count import ONE, Count
from anyorder.core.decode import unroll
from anyorder.core.decoder import Decoder
from anyorder.core.model import Model
from anyorder.core.noise import AMOUNT, EXPLORE, grid, uniform
from anyorder.core.order import Order
from anyorder.core.state import State, View
from anyorder.core.step import Step
from anyorder.core.symbols import Symbols
from anyorder.models.policy import Inputs, Policy
from anyorder.training import rl
from anyorder.training.buffer import Moments
from anyorder.training.rewards import Reward

Oracle = Callable[[Step, Tensor], Tensor]  # a step of n rows, their references (n, L) → positions to choose (n, L)


class Episodes(NamedTuple):
    """N canvases to fill, and their references; a task hands them to a rollout."""

    context: Any
    state: State
    references: Tensor  # (N, R) symbols, padded with the state's pad_id

    def repeat(self, group: int) -> Episodes:
        """Each episode `group` times in a row, with draws of its own; a group shares its encoded input."""
        if group == 1:
            return self
        n = len(self.state.tokens)
        rows = torch.arange(n).repeat_interleave(group)
        state = self.state.take(rows)
        member = torch.arange(group).repeat(n)
        state = state.but(seed=state.seed + (member << 24), row=torch.arange(len(rows)))
        return Episodes(self.context.take(rows), state, self.references[rows])


class Task(Protocol):
    """The source of episodes, and the judge of a policy in validation."""

    model: Model
    symbols: Symbols

    def draw(self, count: int, generator: torch.Generator) -> Episodes:
        """`count` training episodes."""
        ...

    def validate(self, order: Order) -> float:
        """Quality of an order on held-out inputs, positions taken greedily; higher is better."""
        ...


class Actor(Order):
    """A policy that acts: it keeps its inputs and scores of this step, so that nothing is computed twice.

    `explore` is σ of a sweep that is added to the scores (`sweep`).
    """

    def __init__(self, policy: Policy, more: frozenset[str], explore: float = 0.0) -> None:
        self.policy, self.explore = policy, explore
        self.reads = policy.reads | more  # further fields that others read at every candidate
        self.inputs: Inputs
        self.scores: Tensor

    def __call__(self, state: State, view: View) -> Tensor:
        """The scores it acts by (N, L); the policy's own are noted with what they were computed from."""
        self.inputs = self.policy.inputs(state, view)
        self.scores = self.policy.scores(self.inputs)
        return self.scores + self.explore * sweep(state) if self.explore else self.scores

    def remember(self, state: State, view: View, z: Tensor) -> dict[str, Tensor]:
        """The policy's memory."""
        return self.policy.remember(state, view, z)

    @property
    def count(self) -> Count:
        """One position, or each with the probability that the policy gives it; none: the one that was drawn first."""

        def draw(state: State, view: View, ranked: object) -> Tensor:
            u = uniform(*grid(state.seed, state.step, state.tokens.shape[1], AMOUNT))
            return self.policy.decide(self.scores, state.masked, u.logit().to(self.scores.dtype))

        return Count("sampled", draw, fixes="which") if self.policy.several else ONE


@dataclass(frozen=True)
class Credit:
    """How rewards become advantages."""

    gamma: float = 0.9  # discount
    lam: float = 0.95  # λ of generalised advantages
    group: int = 1  # G: rows that share an input; each is judged against the others of its group
    critic: bool = True  # less V(s_t)
    whole: bool = False  # the rows of a group may end at different steps: whole episodes are compared


@dataclass(frozen=True)
class Played:
    """Finished episodes before anyone has judged them."""

    parts: list[tuple[Tensor, Moments]]  # of each step t its rows, and their time steps without credit
    worth: Tensor  # (N, T + 1) Q before each step, and at the end
    values: Tensor  # (N, T) V(s_t); zeros where no value is learned
    alive: Tensor  # (N, T) bool: the steps that happened
    entropy: float  # mean of H(π(·|s_t)) where there is a choice, of its largest value: 1 = uniform


@dataclass(frozen=True)
class Rollout:
    """Finished episodes as time steps, and their rewards."""

    moments: list[Moments]  # one for each step t
    reward: float  # mean over episodes of Σ_t r_t
    entropy: float
    passes: float  # steps an episode
    order_share: float  # of the returns' variance, by the group's rows; NaN without groups


def rollout(
    task: Task,
    policy: Policy,
    episodes: Episodes,
    reward: Reward,
    credit: Credit,
    temperature: float = 1.0,
    teacher: Oracle | None = None,
    explore: float = 0.0,
) -> Rollout:
    """One episode per row until nothing is masked: positions sampled from π_θ, symbols as the task says (greedy)."""
    return credited(play(task, policy, episodes, reward, credit.critic, temperature, teacher, explore), reward, credit)


def play(
    task: Task,
    policy: Policy,
    episodes: Episodes,
    reward: Reward,
    critic: bool,
    temperature: float = 1.0,
    teacher: Oracle | None = None,
    explore: float = 0.0,
) -> Played:
    """The episodes, and what each of their states is worth by the reward's quality."""
    context, state, references = episodes
    texts = [[y for y in row if y != state.pad_id] for row in references.tolist()]
    n, longest = len(state.tokens), int(state.masked.sum(-1).max())
    values, alive = torch.zeros(n, longest), torch.zeros(n, longest, dtype=torch.bool)
    worth = torch.zeros(n, longest + 1)
    worth[:, 0] = reward.quality(state, texts)
    more = {"margin"} if teacher else {"logp"} if reward.ahead else set()
    actor = Actor(policy, frozenset(more), explore)
    decoder = Decoder(Coordinates(actor, actor.count, temperature=temperature), task.symbols)
    parts: list[tuple[Tensor, Moments]] = []
    spread = []
    for t, taken in enumerate(unroll(task.model, context, state, decoder)):
        rows, x = taken.rows, compact(actor.inputs)
        where = candidates_first(actor.inputs.candidates)
        with torch.no_grad():
            scores = actor.scores.gather(1, where)
            value = policy.values(x) if critic else torch.zeros(len(rows))
            chosen = taken.z.gather(1, where)
            logp = log_prob(policy, scores, x, chosen)
        theirs = [texts[i] for i in rows.tolist()]
        if reward.ahead:
            worth[rows, t] = reward.quality(at_once(taken), theirs).float()
        if reward.dense:
            worth[rows, t + 1] = reward.quality(taken.state, theirs).float()
        elif len(ended := (~taken.state.masked.any(-1)).nonzero()[:, 0]):
            final = reward.quality(taken.state.take(ended), [theirs[i] for i in ended.tolist()])
            worth[rows[ended], t + 1] = final.float()
        values[rows, t], alive[rows, t] = value, True
        wanted = torch.zeros_like(taken.z) if teacher is None else teacher(taken, references[rows])
        spread.append(uncertainty(policy, scores, x.candidates))
        nothing = torch.zeros(len(rows))
        parts.append((rows, Moments(x, chosen, wanted.gather(1, where), logp, value, nothing, nothing)))
    return Played(parts, worth, values, alive, float(torch.cat(spread).mean().nan_to_num()))


def credited(played: Played, reward: Reward, credit: Credit) -> Rollout:
    """The advantage and return of each decision."""
    alive = played.alive
    rewards = paid(played.worth, alive, reward)
    totals = rewards.sum(-1)
    share = float(rl.order_share(totals, credit.group)) if credit.group > 1 else float("nan")
    if credit.group > 1 and credit.whole:
        rewards = rl.whole_relative(rewards, alive, credit.group)
    elif credit.group > 1:
        rewards = rl.group_relative(rewards, credit.group)
    returns = rl.discounted_returns(rewards, alive, credit.gamma)
    advantage = returns
    if credit.critic:
        advantage = rl.advantages(rewards, played.values, alive, credit.gamma, credit.lam)
    moments = [m._replace(advantage=advantage[r, t], returns=returns[r, t]) for t, (r, m) in enumerate(played.parts)]
    return Rollout(moments, float(totals.mean()), played.entropy, float(alive.sum(-1).float().mean()), share)


def at_once(taken: Step) -> State:
    """The state before a step with every mask written: the result if no further position is decided."""
    assert taken.judged is not None
    before = taken.before
    return before.but(tokens=torch.where(before.masked, taken.judged.token, before.tokens))


def paid(worth: Tensor, alive: Tensor, reward: Reward) -> Tensor:
    """Rewards (N, T) of the steps that happened, from Q before each and at the end (N, T + 1)."""
    gained = torch.where(alive, worth.diff(dim=1), 0.0)
    if not reward.dense:
        last = alive & ~pad(alive[:, 1:], (0, 1))
        gained = torch.where(last, gained.sum(-1, keepdim=True), 0.0)
    return torch.where(alive, gained - reward.price, 0.0)


def candidates_first(candidates: Tensor) -> Tensor:
    """(B, L) bool → (B, M) indices of a row's candidates from left to right, then others up to the most there are."""
    most = int(candidates.sum(-1).max())
    return candidates.int().argsort(dim=1, descending=True, stable=True)[:, :most]


def compact(x: Inputs) -> Inputs:
    """The same states with candidates only, (B, L, …) → (B, M, …): what f_θ needs of them."""
    where = candidates_first(x.candidates)
    hidden, features = (f.gather(1, where[..., None].expand(-1, -1, f.shape[-1])) for f in (x.hidden, x.features))
    candidates, place = (f.gather(1, where) for f in (x.candidates, x.place))
    return Inputs(hidden, features, candidates, place, x.mean.clone(), x.past.clone(), x.filled.clone())


def log_prob(policy: Policy, scores: Tensor, x: Inputs, chosen: Tensor) -> Tensor:
    """log π(a|s) of what was chosen, (B, M) as the scores: (B,)"""
    if policy.several:
        return rl.log_written(scores, x.candidates, chosen, policy.crowded(x, scores, chosen))
    return torch.where(chosen, rl.log_policy(scores, x.candidates), 0.0).sum(-1)


def uncertainty(policy: Policy, scores: Tensor, candidates: Tensor) -> Tensor:
    """H(π(·|s)) of its largest value, in the rows that have a choice.  (B, M) × 2 → (≤ B,)"""
    choices = candidates.sum(-1)
    if policy.several:
        return (rl.bernoulli_entropy(scores, candidates) / torch.tensor(2.0).log())[choices > 1]
    return (rl.entropy(rl.log_policy(scores, candidates)) / choices.log())[choices > 1]


def sweep(state: State) -> Tensor:
    """ξ (N, L): the same at every step of an episode, whatever else is in the batch."""
    w = uniform(state.seed[:, None], torch.arange(2, device=state.seed.device), EXPLORE)
    line, bend = ((2 * w - 1).erfinv() * math.sqrt(2)).to(state.logp.dtype)[..., None].unbind(1)  # (N, 1) each, normal
    u: Tensor = state.place - (state.length[:, None] - 1) / 2
    return line * u + bend * u.square() / state.length[:, None]
