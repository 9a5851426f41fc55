"""Training a coordinate policy: PPO (the paper's), REINFORCE with a baseline, or imitation of an oracle; one loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from anyorder.models.policy import Policy
from anyorder.training import rl
from anyorder.training.checkpoint import TrainingError
from anyorder.training.imitation import oracle, ranking_loss
from anyorder.training.rewards import find_reward
from anyorder.training.rollout import Batch, Buffer, Moment, Task, collate, rollout

Method = Literal["ppo", "reinforce", "imitation"]
Report = Callable[[dict[str, float]], None]


@dataclass(frozen=True)
class Settings:
    """The paper's values, and its grids, where it gives them."""

    method: Method = "ppo"
    imitate: int = 0  # so many of the first iterations by imitation, before `method` takes over
    iterations: int = 400  # rollout, then updates
    minutes: float = 0.0  # stop after this time, 0: no limit
    generations: int = 16  # episodes a rollout (paper: 4 or 16)
    buffer: int = 10_000  # time steps kept, first in first out (paper: 1,000 or 10,000)
    update_batch: int = 128  # time steps an update (paper: 32 or 128)
    updates: int = 8  # updates after each rollout
    gamma: float = 0.9  # discount (paper: 0.1, 0.9 or 0.99; 0.9 was best)
    lam: float = 0.95  # λ of the advantage estimate; 1: G − V
    clip: float = 0.2  # ε of the clipped surrogate
    entropy: float = 0.01  # weight of the entropy bonus
    value_weight: float = 0.5  # weight of the value loss
    learning_rate: float = 3e-4
    max_norm: float = 1.0  # gradients are clipped to this norm
    history: int = 0  # k (paper: 0, 20 or 50; De→En 0, En→De 50)
    hidden: int = 1024  # units of f_θ (paper: 1024)
    features: tuple[str, ...] = ()  # handcrafted features that f_θ sees beside h_i (paper: none)
    reward: str = "edit-distance"  # a name from `rewards`, or "module:function"
    dense: bool = True  # pay at each step what it changed, or everything at the end
    validate_every: int = 50  # iterations
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in ("ppo", "reinforce", "imitation"):
            raise ValueError(f"no method {self.method!r}; there are ppo, reinforce, imitation")

    @classmethod
    def of(cls, given: dict[str, Any]) -> Settings:
        """From a configuration's table; an unknown key is an error that names the known ones."""
        known = {f.name for f in fields(cls)}
        for key in given:
            if key not in known:
                raise ValueError(f"no policy setting {key!r}; there are {', '.join(sorted(known))}")
        return cls(**given | ({"features": tuple(given["features"])} if "features" in given else {}))


def objective(policy: Policy, batch: Batch, s: Settings, method: Method) -> tuple[torch.Tensor, dict[str, float]]:
    """What one update minimises on a batch of time steps, and what to report of it."""
    log_pi = rl.log_policy(policy.scores(batch.inputs), batch.inputs.candidates)
    values = policy.values(batch.inputs)
    critic = s.value_weight * rl.value_loss(values, batch.returns)
    fit = {"explained variance": float(rl.explained_variance(values.detach(), batch.returns))}
    if method == "imitation":
        agree = (log_pi.argmax(-1) == batch.teacher)[batch.teacher >= 0].float().mean()
        return ranking_loss(log_pi, batch.teacher) + critic, fit | {"agreement": float(agree)}
    chosen = log_pi.gather(1, batch.action[:, None])[:, 0]
    advantage = rl.standardise(batch.advantage)
    if method == "ppo":
        gain = rl.clipped_surrogate(chosen, batch.logp, advantage, s.clip)
    else:
        gain = rl.reinforce_objective(chosen, advantage)
    clipped = float(rl.clip_fraction(chosen.detach(), batch.logp, s.clip))
    return -gain - s.entropy * rl.entropy(log_pi).mean() + critic, fit | {"clip fraction": clipped}


class PolicyTrainer:
    """A policy, its optimiser and its buffer. `step` is one iteration; `run` is all of them."""

    def __init__(self, task: Task, policy: Policy, settings: Settings) -> None:
        self.task, self.policy, self.settings = task, policy, settings
        self.optimiser = torch.optim.Adam(policy.parameters(), lr=settings.learning_rate)
        self.generator = torch.Generator().manual_seed(settings.seed)
        self.buffer = Buffer(settings.buffer)
        self.reward = find_reward(settings.reward, settings.dense)
        self.iteration = 0
        self.best = float("-inf")
        self.best_weights = {k: v.clone() for k, v in policy.state_dict().items()}

    @property
    def method(self) -> Method:
        """The method of the next iteration."""
        return "imitation" if self.iteration < self.settings.imitate else self.settings.method

    def step(self) -> dict[str, float]:
        """Generate, keep the time steps, update."""
        s, method = self.settings, self.method
        if self.iteration == s.imitate:  # what imitation saw was not the policy that acts from now on
            self.buffer = Buffer(s.buffer)
        episodes = self.task.draw(s.generations, self.generator)
        teacher = oracle if method == "imitation" else None
        played = rollout(self.task, self.policy, episodes, self.reward, s.gamma, s.lam, teacher=teacher)
        self.buffer.add(played.moments)
        fresh = method == "reinforce"  # its gradient holds for the policy that acted: one update on what it just did
        updates = 1 if fresh else s.updates
        report: dict[str, float] = {}
        for _ in range(updates):
            batch = collate(played.moments) if fresh else self.buffer.sample(s.update_batch, self.generator)
            loss, part = objective(self.policy, batch, s, method)
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.policy.parameters(), s.max_norm)
            self.optimiser.step()
            for key, value in ({"loss": loss.item()} | part).items():
                report[key] = report.get(key, 0.0) + value / updates
        self.iteration += 1
        return report | {"reward": played.reward, "entropy": played.entropy}

    def validate(self) -> float:
        """Judge the policy as it will be used, and keep it if it is the best so far."""
        quality = self.task.validate(self.policy)
        if quality > self.best:
            self.best = quality
            self.best_weights = {k: v.clone() for k, v in self.policy.state_dict().items()}
        return quality

    def run(self, report: Report | None = None, checkpoint: Callable[[], None] | None = None) -> Policy:
        """Train to the end (or the time limit); the best policy in validation. `checkpoint` is called after each."""
        s, started = self.settings, time.monotonic()
        if self.iteration == 0:
            self.validate()
        while self.iteration < s.iterations:
            numbers = self.step()
            late = bool(s.minutes) and time.monotonic() - started > 60 * s.minutes
            if self.iteration % s.validate_every == 0 or self.iteration == s.iterations or late:
                numbers["validation"] = self.validate()
                if checkpoint is not None:
                    checkpoint()
            if report is not None:
                report(numbers | {"iteration": self.iteration, "best": self.best})
            if late:
                break
        self.policy.load_state_dict(self.best_weights)
        return self.policy.eval()

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on as if nothing had happened."""
        return {
            "settings": asdict(self.settings),
            "policy": self.policy.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "iteration": self.iteration,
            "best": self.best,
            "best_weights": self.best_weights,
            "buffer": [asdict(moment) for moment in self.buffer.moments],
        }

    def restore(self, state: dict[str, Any], path: Path) -> None:
        """Go on from a checkpoint that was read from `path`."""
        now, then = asdict(self.settings), state["settings"]
        changed = [k for k in ("method", "history", "hidden", "features") if now[k] != then.get(k)]
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
        self.buffer.add([Moment(**fields) for fields in state["buffer"]])
