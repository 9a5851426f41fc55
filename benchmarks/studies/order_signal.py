"""What a policy gradient has to learn from.

    python -m benchmarks.studies.order_signal configs/policy-de-en.toml --data DATA

With an order that knows nothing yet (the configuration's policy, untrained) it measures

- what there is to win: the spread of the quality between inputs and, within an input, between orders;
- the signal in one rollout's gradient, for several baselines and discounts: the cosine between it and the mean gradient
  of the others, which is taken without discount and with states judged ahead (by what they become if written at once);
- the rate: episodes a second, and the share of the machine's matrix-product rate that they reach.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from anyorder.models.policy import Policy
from anyorder.training import rl
from anyorder.training.buffer import stack
from anyorder.training.learn_order import PolicyConfig, new_policy, policy_config, task_of, width_of
from anyorder.training.ppo import Settings, objective
from anyorder.training.rewards import Reward, find_quality
from anyorder.training.rollout import Credit, Played, credited, play

DISCOUNTS = (1.0, 0.9, 0.5, 0.1)


def gradient(policy: Policy, played: Played, reward: Reward, credit: Credit, s: Settings) -> Tensor:
    """Of the objective at the policy that acted, as one vector."""
    batch = stack(credited(played, reward, credit).moments)
    loss, _ = objective(policy, batch, replace(s, value_weight=0.0), "reinforce", 0.0)
    scored = [p for name, p in policy.named_parameters() if not name.startswith("critic")]
    parts = torch.autograd.grad(loss, scored)
    return torch.cat([g.flatten() for g in parts])


def signal(each: list[Tensor], true: list[Tensor]) -> float:
    """Mean cosine between one rollout's gradient and the mean of the others' true ones."""
    total = torch.stack(true).sum(0)
    cosines = [torch.cosine_similarity(g, total - t, 0) for g, t in zip(each, true, strict=True)]
    return float(torch.stack(cosines).mean())


def product_rate(seconds: float = 1.0, size: int = 512) -> float:
    """Multiplications and additions a second of a matrix product that fits a cache."""
    a, b = torch.rand(size, size), torch.rand(size, size)
    done, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        a @ b
        done += 1
    return 2.0 * size**3 * done / (time.process_time() - start)


def measure(config: PolicyConfig, rollouts: int) -> None:
    s, task = config.policy, task_of(config)
    policy = new_policy(config, width_of(task))
    quality, g = find_quality(s.reward), torch.Generator().manual_seed(0)
    plain, ahead = Reward(quality), Reward(quality, ahead=True)
    group, pairs, seconds, flops = s.group, list[tuple[Played, Played]](), list[float](), 0.0
    for k in range(rollouts):
        episodes = task.draw(s.batch // group, g).repeat(group)
        start = time.process_time()
        first = play(task, policy, episodes, plain, critic=True, explore=s.explore)
        seconds.append(time.process_time() - start)
        if not k:  # once more, and counted
            with FlopCounterMode(display=False) as counter:
                play(task, policy, episodes, plain, critic=True, explore=s.explore)
            flops = counter.get_total_flops()
        pairs.append((first, play(task, policy, episodes, ahead, critic=True, explore=s.explore)))
    ends = torch.cat([p.worth[:, 0] + torch.where(p.alive, p.worth.diff(dim=1), 0.0).sum(-1) for p, _ in pairs])
    each = ends.view(-1, group)
    print(f"quality {float(ends.mean()):.2f}; standard deviation {float(ends.std()):.2f}, within an input", end=" ")
    print(f"{float(each.var(1).mean().sqrt()):.2f}: the order explains {float(rl.order_share(ends, group)):.1%}")
    print(f"best of {group} orders {float(each.amax(1).mean()):.2f}, worst {float(each.amin(1).mean()):.2f}")
    rate, share = rollouts * s.batch / sum(seconds), flops / seconds[0] / product_rate()
    print(f"{rate:.0f} episodes a second of one thread; {share:.0%} of its matrix-product rate\n")
    whole = Credit(1.0, group=group, critic=False)
    true = [gradient(policy, b, ahead, whole, s) for _, b in pairs]
    print("| baseline | state judged | " + " | ".join(f"γ = {d:g}" for d in DISCOUNTS) + " |\n|---|---|" + "---:|" * 4)
    baselines = {"none": replace(whole, group=1), "group": whole}
    for name, credit in baselines.items():
        for judged, reward in (("as written", plain), ("ahead", ahead)):
            row = []
            for d in DISCOUNTS:
                mine = [b if reward.ahead else a for a, b in pairs]
                row.append(signal([gradient(policy, p, reward, replace(credit, gamma=d), s) for p in mine], true))
            print(f"| {name} | {judged} | " + " | ".join(f"{x:.2f}" for x in row) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", type=Path, help="folder with the corpora")
    parser.add_argument("--model", help="other than the configuration's")
    parser.add_argument("--rollouts", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = policy_config(options.config, options.data)
    if config is None:
        parser.error(f"{options.config} is no policy's configuration")
    measure(replace(config, model=options.model or config.model), options.rollouts)


if __name__ == "__main__":
    main()
