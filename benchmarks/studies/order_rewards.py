"""What each reward thinks of the handcrafted orders.

    python -m benchmarks.studies.order_rewards configs/policy-de-en.toml --data DATA

A policy can learn no more than its reward can tell. Training sentences are written by each order, one position per
step, on canvases of the reference's length and of the likeliest one. Each cell is the mean over sentences, and how far
that is from uniform in standard deviations of uniform within a sentence: what a group of episodes has to see.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from anyorder.core.decode import decode
from anyorder.text.plan import Plan
from anyorder.training.learn_order import PolicyConfig, policy_config, task_of
from anyorder.training.order_tasks import TranslationTask
from anyorder.training.rewards import REWARDS
from anyorder.training.rollout import Episodes

ORDERS = ("uniform", "left2right", "right2left", "easy-first", "confidence")
JUDGES = ("edit-distance", "right-symbols", "sentence-bleu", "gleu")
GROUP = 8  # uniform orders of each sentence


def judged(task: TranslationTask, episodes: Episodes, order: str) -> dict[str, torch.Tensor]:
    """What each reward gives the texts that an order writes: (N,) by its name."""
    state, pad = episodes.state, task.model.pad_id
    decoder = replace(Plan.of(order).decoder(), symbols=task.symbols)
    done = state.but(tokens=decode(task.model, episodes.context, state, decoder).tokens)
    texts = [[y for y in row if y != pad] for row in episodes.references.tolist()]
    return {name: REWARDS[name](done, texts).float() for name in JUDGES}


def measure(config: PolicyConfig, sentences: int, draws: int) -> None:
    for likeliest in (False, True):
        task, g = task_of(replace(config, likeliest=likeliest)), torch.Generator().manual_seed(0)
        assert isinstance(task, TranslationTask), "translations only"
        found: dict[str, list[dict[str, torch.Tensor]]] = {order: [] for order in ORDERS}
        for _ in range(draws):
            episodes = task.draw(sentences // draws, g)
            for order in ORDERS:
                found[order].append(judged(task, episodes.repeat(GROUP if order == "uniform" else 1), order))
        whole = {o: {j: torch.cat([part[j] for part in parts]) for j in JUDGES} for o, parts in found.items()}
        print(f"\n{'likeliest' if likeliest else 'reference'} length\n")
        print("| order | " + " | ".join(JUDGES) + " |\n|---|" + "---:|" * len(JUDGES))
        spread = {j: float(whole["uniform"][j].view(-1, GROUP).var(1).mean().sqrt()) for j in JUDGES}
        for order, values in whole.items():
            cells = [f"{float(x.mean()):.2f}" for x in values.values()]
            if order != "uniform":
                away = [float(values[j].mean() - whole["uniform"][j].mean()) / spread[j] for j in JUDGES]
                cells = [f"{cell} ({x:+.2f})" for cell, x in zip(cells, away, strict=True)]
            print(f"| {order} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", type=Path, help="folder with the corpora")
    parser.add_argument("--sentences", type=int, default=192)
    parser.add_argument("--draws", type=int, default=4, help="batches of like length that they are drawn in")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = policy_config(options.config, options.data)
    if config is None:
        parser.error(f"{options.config} is no policy's configuration")
    measure(config, options.sentences, options.draws)


if __name__ == "__main__":
    main()
