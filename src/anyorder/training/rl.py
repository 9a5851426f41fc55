"""Policy-gradient arithmetic as pure functions: returns, advantages, surrogates, diagnostics; a formula beside each.

Episodes are rows and time steps are columns. Episodes of one batch may end at different steps: `alive` (N, T) says
which steps happened, and nothing outside it (whatever is stored there) influences a result.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from anyorder.core.step import Step

NEG = float("-inf")


def discounted_returns(rewards: Tensor, alive: Tensor, gamma: float) -> Tensor:
    """G_t = r_t + γ G_{t+1}, with G = 0 after an episode's end.  (N, T), (N, T) bool → (N, T)"""
    out = torch.zeros_like(rewards)
    future = rewards.new_zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        future = torch.where(alive[:, t], rewards[:, t] + gamma * future, 0.0)
        out[:, t] = future
    return out


def advantages(rewards: Tensor, values: Tensor, alive: Tensor, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimation (arXiv 1506.02438).  (N, T) × 3 → (N, T)

    δ_t = r_t + γ V(s_{t+1}) − V(s_t),   A_t = δ_t + γλ A_{t+1};   V = A = 0 after the end.
    λ = 1 gives G_t − V(s_t); λ = 0 gives the one-step error δ_t.
    """
    out = torch.zeros_like(rewards)
    next_value = next_advantage = rewards.new_zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = torch.where(alive[:, t], delta + gamma * lam * next_advantage, 0.0)
        next_value = torch.where(alive[:, t], values[:, t], 0.0)
        out[:, t] = next_advantage
    return out


def group_relative(rewards: Tensor, group: int) -> Tensor:
    """r_gt − 1/(G−1) Σ_{g'≠g} r_g't: each row against the others of its group.  (N, T) → (N, T)

    Rows n·G … n·G + G − 1 are episodes of the same input, so the part of a return that the input alone decides cancels
    exactly. The returns of these rewards are returns to go against the group's mean at the same step; a row's own
    rewards are not in its baseline (leave one out), so the policy gradient stays unbiased. With REINFORCE this is RLOO
    (arXiv 2402.14740).
    """
    each = rewards.view(-1, group, rewards.shape[1])
    return ((group * each - each.sum(1, keepdim=True)) / (group - 1)).view_as(rewards)


def whole_relative(rewards: Tensor, alive: Tensor, group: int) -> Tensor:
    """R_g − 1/(G−1) Σ_{g'≠g} R_g' at a row's last step, 0 before it; R_g = Σ_t r_gt.  (N, T), (N, T) bool → (N, T)

    For groups whose rows end at different steps. There `group_relative` would compare what a row has still to earn with
    the nothing of those that have ended, whose text is paid already: noise as large as a whole text's worth.
    """
    totals = torch.where(alive, rewards, 0.0).sum(-1, keepdim=True)
    last = alive & (alive.cumsum(1) == alive.sum(1, keepdim=True))
    return torch.where(last, group_relative(totals, group), 0.0)


def order_share(totals: Tensor, group: int) -> Tensor:
    """mean_X Var(R | X) / Var(R): the share of the returns' variance that the order explains.  (N,) → scalar"""
    within = totals.view(-1, group).var(1).mean()
    return torch.where(totals.var() > 0, within / totals.var().clamp_min(1e-12), 0.0)


def standardise(x: Tensor, eps: float = 1e-8) -> Tensor:
    """(x − mean x) / (std x + ε), the spread taken over all of x; a single value becomes 0."""
    return (x - x.mean()) / (x.std(correction=0) + eps)


def log_policy(scores: Tensor, candidates: Tensor) -> Tensor:
    """log π(i|s) = f_i − log Σ_{j ∈ candidates} exp f_j, and −∞ elsewhere.  (B, M), (B, M) bool → (B, M)"""
    return scores.masked_fill(~candidates, NEG).log_softmax(-1)


def log_written(scores: Tensor, candidates: Tensor, chosen: Tensor, crowded: Tensor | None = None) -> Tensor:
    """log π(z|s) of a policy that decides of each candidate whether to write it now.  (B, M) × 4 → (B,)

    z_i ~ Bernoulli(σ(f′_i)), f′_i being f_i and what those decided before i add to it (`crowded`; none: f′ = f); where
    all say no, and nothing was added, one candidate a ~ softmax f is written. So

        π(z) = ∏_i σ(f′_i)^{z_i} σ(−f′_i)^{1−z_i}  +  [z = {a}] · ∏_i σ(−f_i) · softmax_a f
    """
    given = scores if crowded is None else crowded
    said = torch.where(chosen, logsigmoid(given), logsigmoid(-given))
    drawn = torch.where(candidates, said, 0.0).sum(-1)
    none = torch.where(candidates, logsigmoid(-scores), 0.0).sum(-1)
    fallback = none + torch.where(chosen, log_policy(scores, candidates), 0.0).sum(-1)
    return torch.where(chosen.sum(-1) == 1, torch.logaddexp(drawn, fallback), drawn)


def bernoulli_entropy(scores: Tensor, candidates: Tensor) -> Tensor:
    """mean_i H(σ(f_i)) over the candidates, in nats.  (B, M), (B, M) bool → (B,)"""
    each = -(scores.sigmoid() * logsigmoid(scores) + (-scores).sigmoid() * logsigmoid(-scores))
    return each.masked_fill(~candidates, 0.0).sum(-1) / candidates.sum(-1)


def entropy(log_pi: Tensor) -> Tensor:
    """H(π) = −Σ_i π_i log π_i, in nats, with 0 log 0 = 0.  (B, M) → (B,)"""
    finite = log_pi.masked_fill(log_pi == NEG, 0.0)
    return -(log_pi.exp() * finite).sum(-1)


def clipped_surrogate(log_pi: Tensor, log_old: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """PPO's objective, to be maximised (arXiv 1707.06347, Eq. 7).  (B,) × 3 → scalar

    mean_t min(ρ_t A_t, clamp(ρ_t, 1 − ε, 1 + ε) A_t),   ρ_t = π(a_t|s_t) / π_old(a_t|s_t)
    """
    ratio = (log_pi - log_old).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()


def clip_fraction(log_pi: Tensor, log_old: Tensor, clip: float) -> Tensor:
    """The share of time steps with |ρ_t − 1| > ε.  (B,) × 2 → scalar"""
    return ((log_pi - log_old).exp() - 1).abs().gt(clip).float().mean()


def reinforce_objective(log_pi: Tensor, advantage: Tensor) -> Tensor:
    """mean_t log π(a_t|s_t) A_t, to be maximised; A_t = G_t − b(s_t) with b the baseline.  (B,) × 2 → scalar"""
    return (log_pi * advantage).mean()


def value_loss(values: Tensor, returns: Tensor) -> Tensor:
    """½ mean_t (V(s_t) − G_t)².  (B,) × 2 → scalar"""
    return 0.5 * (values - returns).square().mean()


def explained_variance(values: Tensor, returns: Tensor) -> Tensor:
    """1 − Var(G − V) / Var(G): 1 perfect, 0 no better than a constant; 0 when the returns do not vary at all."""
    spread = returns.var(correction=0)
    return torch.where(spread > 0, 1 - (returns - values).var(correction=0) / spread.clamp_min(1e-12), 0.0)


def right(taken: Step, references: Tensor) -> Tensor:
    """(n, L) the masked positions whose greedy symbol is the reference's. References (n, R), R ≥ L."""
    view, masked = taken.judged, taken.before.masked
    assert view is not None
    if references.shape[1] < masked.shape[1]:
        raise ValueError(
            f"a canvas of {masked.shape[1]} positions and references of {references.shape[1]}: the oracle needs "
            "canvases of the reference's length"
        )
    return masked & (view.token == references[:, : masked.shape[1]])


def oracle(taken: Step, references: Tensor) -> Tensor:
    """(n, L) the position to write next; none in rows where no greedy symbol is right."""
    good = right(taken, references)
    assert taken.judged is not None and taken.judged.margin is not None
    best = taken.judged.margin.masked_fill(~good, -torch.inf).argmax(-1, keepdim=True)
    return torch.zeros_like(good).scatter(1, best, True) & good


def ranking_loss(log_pi: Tensor, teacher: Tensor) -> Tensor:
    """−mean log π(teacher's position) over the time steps that have one.  (B, M), (B, M) bool → scalar"""
    known = teacher.any(-1)
    return -torch.where(teacher, log_pi, 0.0).sum() / known.sum().clamp_min(1)


def writing_loss(scores: Tensor, candidates: Tensor, teacher: Tensor) -> Tensor:
    """−mean log p(teacher's yes or no) over candidates, p(yes) = σ(f_i).  (B, M) × 3 → scalar"""
    return binary_cross_entropy_with_logits(scores[candidates], teacher[candidates].float())
