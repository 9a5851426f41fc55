"""What a step aside from left2right earns.

    python -m benchmarks.studies.order_detours configs/policy-de-en.toml --data DATA

Training sentences are written from left to right but for one step, which writes another mask than the leftmost one: the
second, the third, the one in the middle of those left, or the last. Each cell is the mean change of the reward against
left2right on the same sentence, ± its standard error: what a policy could win, in the mean, by leaving left2right once
there. The last row has the share of detours that change the text at all, and that win or lose by it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from anyorder.core.coordinates import Coordinates
from anyorder.core.decode import decode
from anyorder.core.decoder import Decoder
from anyorder.core.order import Order
from anyorder.core.state import State, View
from anyorder.training.learn_order import PolicyConfig, policy_config, task_of
from anyorder.training.order_tasks import TranslationTask
from anyorder.training.rewards import find_quality
from anyorder.training.rollout import Episodes

KINDS = ("the second", "the third", "the middle one", "the last")
PARTS = 3  # of the steps that have four masks left, at least


class Detour(Order):
    """left2right, but for step `when` (N,) of each row, which writes mask number `which` (N,) of those left."""

    def __init__(self, when: Tensor, which: Tensor) -> None:
        self.when, self.which = when, which

    def __call__(self, state: State, view: View) -> Tensor:
        number = state.masked.cumsum(-1) - 1  # (N, L) of each mask, counted from the left
        aside = (state.step == self.when[state.row])[:, None] & (number == self.which[state.row][:, None])
        return torch.where(aside & state.masked, 1.0, -number.float())


def earned(task: TranslationTask, episodes: Episodes, order: Order, reward: str) -> Tensor:
    """What the texts that an order writes are worth: (N,)"""
    done = decode(task.model, episodes.context, episodes.state, Decoder(Coordinates(order), task.symbols))
    texts = [[y for y in row if y != task.model.pad_id] for row in episodes.references.tolist()]
    return find_quality(reward)(episodes.state.but(tokens=done.tokens), texts).float()


def measure(config: PolicyConfig, draws: int, sentences: int) -> None:
    task, g = task_of(config), torch.Generator().manual_seed(0)
    assert isinstance(task, TranslationTask), "translations only"
    parts, kinds, gains = [], [], []
    for _ in range(draws):
        episodes = task.draw(sentences, g).repeat(len(KINDS))
        length = episodes.state.length
        kind = torch.arange(len(length)) % len(KINDS)
        usable = (length - 3).clamp_min(1)
        when = (torch.rand(len(length), generator=g) * usable).long()
        left = length - when
        which = torch.stack([left.clamp_max(1), left.clamp_max(2), left // 2, left - 1])[kind, torch.arange(len(kind))]
        straight = earned(task, episodes, Detour(torch.full_like(length, -1), which), config.policy.reward)
        gains.append(earned(task, episodes, Detour(when, which), config.policy.reward) - straight)
        parts.append(PARTS * when // usable)
        kinds.append(kind)
    part, kind, gain = torch.cat(parts), torch.cat(kinds), torch.cat(gains)
    print("| steps | " + " | ".join(KINDS) + " |\n|---|" + "---:|" * len(KINDS))
    for k in range(PARTS):
        cells = [gain[(part == k) & (kind == j)] for j in range(len(KINDS))]
        said = [f"{float(c.mean()):+.2f} ± {float(c.std() / len(c) ** 0.5):.2f}" for c in cells]
        print(f"| {k + 1}/{PARTS} | " + " | ".join(said) + " |")
    cells = [gain[kind == j] for j in range(len(KINDS))]
    shares = [f"{float((c != 0).float().mean()):.0%}: {float((c > 0).float().mean()):.0%} up" for c in cells]
    print("| other reward | " + " | ".join(shares) + " |")
    print(f"\n{len(gain)} episodes, reward {config.policy.reward}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", type=Path, help="folder with the corpora")
    parser.add_argument("--sentences", type=int, default=48, help="in a draw; each is written eight times")
    parser.add_argument("--draws", type=int, default=40, help="batches of like length that they are drawn in")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = policy_config(options.config, options.data)
    if config is None:
        parser.error(f"{options.config} is no policy's configuration")
    measure(replace(config, likeliest=True, longest=30), options.draws, options.sentences)


if __name__ == "__main__":
    main()
