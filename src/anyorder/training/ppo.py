"""Training a coordinate policy: PPO (the paper's), REINFORCE, or imitation of an oracle; one loop.

The baseline is the learned value V_θ (the paper's), or the other episodes of the same input (`group`), or both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from anyorder.models.policy import Inputs, Policy
from anyorder.training import rl
from anyorder.training.buffer import Buffer, Moments, stack
from anyorder.training.checkpoint import TrainingError
from anyorder.training.rewards import Reward, find_quality
from anyorder.training.rl import oracle, ranking_loss, right, writing_loss
from anyorder.training.rollout import Credit, Task, log_prob, rollout

Method = Literal["ppo", "reinforce", "imitation"]
Report = Callable[[dict[str, float]], None]
ARCHITECTURE = ("history", "hidden", "features", "attention", "distances", "several", "crowding")  # the policy's own


@dataclass(frozen=True)
class Settings:
    """The paper's values, and its grids, where it gives them."""

    method: Method = "ppo"
    iterations: int = 400  # rollout, then updates
    minutes: float = 0.0  # stop after this time, 0: no limit
    generations: int = 16  # episodes per rollout (paper: 4 or 16)
    together: int = 0  # of them are played at once, sentences of like length; 0: all
    group: int = 1  # G of them have the same input; from 2 on each is judged against the others of its group
    buffer: int = 10_000  # time steps kept, first in first out (paper: 1,000 or 10,000); 0: the last rollout's
    update_batch: int = 128  # time steps per update (paper: 32 or 128)
    updates: int = 8  # updates after each rollout
    gamma: float = 0.9  # discount (paper: 0.1, 0.9 or 0.99; 0.9 was best); 1: none
    clip: float = 0.2  # ε of the clipped surrogate
    entropy: float = 0.01  # weight of the entropy bonus …
    entropy_end: float | None = None  # … which goes to this, evenly over the iterations; none: it stays
    explore: float = 0.0  # σ of an episode's own sweep (`explore.py`), which goes to 0 evenly over the iterations
    value_weight: float = 0.5  # weight of the value loss; 0: no value, so returns are compared with the group's only
    learning_rate: float = 3e-4
    cooldown: bool = False  # the learning rate goes to 0, evenly over the iterations
    max_norm: float = 1.0  # gradients are clipped to this norm
    history: int = 0  # k (paper: 0, 20 or 50; De→En 0, En→De 50)
    hidden: int = 1024  # units of f_θ (paper: 1024)
    features: tuple[str, ...] = ()  # handcrafted features that f_θ sees beside h_i (paper: none)
    attention: int = 0  # width of an attention layer over the candidates (paper: none)
    distances: int = 0  # β_{j−i} of pairs of candidates, told apart so far to the left and to the right (paper: none)
    several: bool = False  # decide of each position whether to write it now, not of one position (paper: one)
    crowding: int = 0  # γ_{i−j} of a position and one that is written in the same step, told apart so far; 0: none
    price: float = 0.0  # λ: the cost of a pass, in units of the reward
    reward: str = "edit-distance"  # a name from `rewards`, or "module:function"
    dense: bool = True  # pay at each step what it changed, or everything at the end
    ahead: bool = False  # judge a state by the text that it would become if all of it were written at once
    validate_every: int = 50  # iterations
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in ("ppo", "reinforce", "imitation"):
            raise ValueError(f"no method {self.method!r}; there are ppo, reinforce, imitation")
        if self.group < 1 or self.generations % self.group:
            raise ValueError(f"{self.generations} generations cannot be divided into groups of {self.group}")
        if self.explore < 0 or (self.explore and self.several):
            raise ValueError(f"explore = {self.explore:g}: sweeps are 0 or more, for policies that write one position")
        if self.crowding and not self.several:
            raise ValueError(f"crowding = {self.crowding} is for policies that write several positions a step")
        if self.batch < 1 or self.generations % self.batch or self.batch % self.group:
            raise ValueError(
                f"{self.generations} generations cannot be played by {self.batch} in groups of {self.group}"
            )

    @classmethod
    def of(cls, given: dict[str, Any]) -> Settings:
        """From a configuration's table; an unknown key is an error that names the known ones."""
        known = {f.name for f in fields(cls)}
        for key in given:
            if key not in known:
                raise ValueError(f"no policy setting {key!r}; there are {', '.join(sorted(known))}")
        return cls(**given | ({"features": tuple(given["features"])} if "features" in given else {}))

    def policy(self, width: int, about: dict[str, Any]) -> Policy:
        """A new policy for a model of this width."""
        torch.manual_seed(self.seed)
        return Policy(width, about=about, **{name: getattr(self, name) for name in ARCHITECTURE})

    @property
    def batch(self) -> int:
        """Episodes that are played at once."""
        return self.together or self.generations

    @property
    def credit(self) -> Credit:
        """How rewards become advantages."""
        return Credit(self.gamma, group=self.group, critic=self.value_weight > 0, whole=self.several)

    def entropy_at(self, iteration: int) -> float:
        """The weight of the entropy bonus in an iteration, counted from 0."""
        end = self.entropy if self.entropy_end is None else self.entropy_end
        return self.entropy + (end - self.entropy) * min(1.0, iteration / max(1, self.iterations - 1))

    def explore_at(self, iteration: int) -> float:
        """σ of the sweeps in an iteration, counted from 0; 0 in the last."""
        return self.explore * max(0.0, 1 - iteration / max(1, self.iterations - 1))

    def learning_rate_at(self, iteration: int) -> float:
        """The learning rate in an iteration, counted from 0."""
        return self.learning_rate * (1 - iteration / self.iterations if self.cooldown else 1)


def objective(
    policy: Policy, batch: Moments, s: Settings, method: Method, entropy_weight: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """The loss of an update on a batch of time steps, and numbers to report."""
    candidates = batch.inputs.candidates
    scores = policy.scores(batch.inputs)
    critic, fit = torch.zeros(()), {}
    if s.value_weight:
        values = policy.values(batch.inputs)
        critic = s.value_weight * rl.value_loss(values, batch.returns)
        fit = {"explained variance": float(rl.explained_variance(values.detach(), batch.returns))}
    if method == "imitation":
        if policy.several:
            agree = ((scores > 0) == batch.teacher)[candidates].float().mean()
            return writing_loss(scores, candidates, batch.teacher) + critic, fit | {"agreement": float(agree)}
        log_pi = rl.log_policy(scores, candidates)
        first = batch.teacher.gather(1, log_pi.argmax(-1, keepdim=True))[batch.teacher.any(-1)]
        return ranking_loss(log_pi, batch.teacher) + critic, fit | {"agreement": float(first.float().mean())}
    chosen = log_prob(policy, scores, batch.inputs, batch.chosen)
    advantage = rl.standardise(batch.advantage)
    if method == "ppo":
        gain = rl.clipped_surrogate(chosen, batch.logp, advantage, s.clip)
    else:
        gain = rl.reinforce_objective(chosen, advantage)
    if policy.several:
        spread = rl.bernoulli_entropy(scores, candidates).mean()
    else:
        spread = rl.entropy(rl.log_policy(scores, candidates)).mean()
    clipped = float(rl.clip_fraction(chosen.detach(), batch.logp, s.clip))
    return -gain - entropy_weight * spread + critic, fit | {"clip fraction": clipped}


class PolicyTrainer:
    """A policy, its optimiser and its buffer. `step` is one iteration; `run` is all of them."""

    def __init__(self, task: Task, policy: Policy, settings: Settings) -> None:
        self.task, self.policy, self.settings = task, policy, settings
        self.optimiser = torch.optim.Adam(policy.parameters(), lr=settings.learning_rate)
        self.generator = torch.Generator().manual_seed(settings.seed)
        self.buffer = Buffer(settings.buffer)
        self.reward = Reward(find_quality(settings.reward), settings.dense, settings.price, settings.ahead)
        self.iteration = 0
        self.seconds = 0.0  # spent so far, in all runs
        self.best = float("-inf")
        self.best_weights = {k: v.clone() for k, v in policy.state_dict().items()}

    def step(self) -> dict[str, float]:
        """Generate, keep the time steps, update."""
        s, method = self.settings, self.settings.method
        for part in self.optimiser.param_groups:
            part["lr"] = s.learning_rate_at(self.iteration)
        teacher = None if method != "imitation" else right if self.policy.several else oracle
        sigma, played = s.explore_at(self.iteration), []
        for _ in range(s.generations // s.batch):
            episodes = self.task.draw(s.batch // s.group, self.generator).repeat(s.group)
            played.append(rollout(self.task, self.policy, episodes, self.reward, s.credit, 1.0, teacher, sigma))
        moments = [m for p in played for m in p.moments]
        self.buffer.add(moments)
        fresh = method == "reinforce"  # its gradient holds for the policy that acted: one update on what it just did
        updates = 1 if fresh else s.updates
        report: dict[str, float] = {}
        for _ in range(updates):
            batch = stack(moments) if fresh else self.buffer.sample(s.update_batch, self.generator)
            loss, told = objective(self.policy, batch, s, method, s.entropy_at(self.iteration))
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.policy.parameters(), s.max_norm)
            self.optimiser.step()
            for key, value in ({"loss": loss.item()} | told).items():
                report[key] = report.get(key, 0.0) + value / updates
        self.iteration += 1
        names = ["reward", "entropy", *["passes"] * self.policy.several, *["order_share"] * (s.group > 1)]
        return report | {n.replace("_", " "): sum(getattr(p, n) for p in played) / len(played) for n in names}

    def validate(self) -> float:
        """Judge the policy as it will be used, and keep it if it is the best so far.

        Where passes have a price, quality alone says too little: then the latest is kept.
        """
        quality = self.task.validate(self.policy)
        if quality > self.best or self.settings.price:
            self.best = quality
            self.best_weights = {k: v.clone() for k, v in self.policy.state_dict().items()}
        return quality

    def run(self, report: Report | None = None, checkpoint: Callable[[], None] | None = None) -> Policy:
        """Train to the end (or the time limit); the best policy in validation. `checkpoint` is called after each."""
        s, started = self.settings, time.monotonic() - self.seconds
        if self.iteration == 0:
            self.validate()
        while self.iteration < s.iterations and not (s.minutes and self.seconds > 60 * s.minutes):
            numbers = self.step()
            self.seconds = time.monotonic() - started
            late = bool(s.minutes) and self.seconds > 60 * s.minutes
            if self.iteration % s.validate_every == 0 or self.iteration == s.iterations or late:
                numbers["validation"] = self.validate()
                if checkpoint is not None:
                    checkpoint()
            if report is not None:
                report(numbers | {"iteration": self.iteration, "best": self.best})
        self.policy.load_state_dict(self.best_weights)
        return self.policy.eval()

    def state(self) -> dict[str, Any]:
        """The state that a checkpoint needs to go on as if nothing had happened."""
        return {
            "settings": asdict(self.settings),
            "policy": self.policy.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "iteration": self.iteration,
            "best": self.best,
            "best_weights": self.best_weights,
            "seconds": self.seconds,
            "buffer": [[list(m.inputs), *m[1:]] for m in self.buffer.parts],
        }

    def restore(self, state: dict[str, Any], path: Path) -> None:
        """Go on from a checkpoint that was read from `path`."""
        now, then = asdict(self.settings), state["settings"]
        changed = [k for k in ("method", *ARCHITECTURE) if now[k] != then.get(k)]
        if changed:
            key = changed[0]
            raise TrainingError(
                f"{path} was written with {key} = {then.get(key)!r}, the configuration says {now[key]!r}: change it "
                "back, or start in another folder"
            )
        self.policy.load_state_dict(state["policy"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.iteration, self.best, self.best_weights = state["iteration"], state["best"], state["best_weights"]
        self.seconds = state["seconds"]
        self.buffer.add([Moments(Inputs(*inputs), *rest) for inputs, *rest in state["buffer"]])
