"""`anyorder train policy.toml`: learn the order of a translation or masked language model, kept in one small file."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol

import torch

from anyorder.data.read import read_texts
from anyorder.files import plain_name
from anyorder.models.policy import Policy, check_width
from anyorder.progress import Bar
from anyorder.training.checkpoint import Log, load_checkpoint, same_run, save_checkpoint, write_atomically
from anyorder.training.config import ConfigError, Data, ParallelText, build
from anyorder.training.order_tasks import FillTask, TranslationTask
from anyorder.training.ppo import PolicyTrainer, Settings
from anyorder.training.prepare import read_pairs
from anyorder.training.rewards import find_quality
from anyorder.training.rollout import Task

CHECKPOINT, LOG = "checkpoint.pt", "log.jsonl"


class Judged(Task, Protocol):
    """A task that says what its validation measures."""

    measure: str


@dataclass(frozen=True)
class PolicyConfig:
    """The contents of a policy's TOML file."""

    name: str
    model: str  # a shipped model's name, or a folder
    data: Data  # pairs; for a language model corpora of one file each
    direction: str = ""  # "de-en"; none for a language model
    kind: str = "policy"
    start: str = ""  # a policy file to go on from, such as one trained by imitation
    likeliest: bool = False  # translations have the likeliest length in training too, not the reference's
    longest: int = 40  # symbols; texts or pairs with a longer side are left out of training
    train_sentences: int = 0  # the first that many are used; 0: all
    valid_sentences: int = 200  # translated at each validation; 0: all
    policy: Settings = field(default_factory=Settings)


def policy_config(path: Path, root: Path | None = None) -> PolicyConfig | None:
    """The configuration in a TOML file; None where the file is of another kind (or no TOML at all)."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None
    if raw.get("kind") != "policy":
        return None
    settings = raw.pop("policy", {})
    try:
        config: PolicyConfig = build(PolicyConfig, raw, "")
        config = replace(config, policy=Settings.of(settings))
        find_quality(config.policy.reward, path.parent)  # one's own, beside this file: found now, known from here on
        if config.likeliest and config.policy.method == "imitation":
            raise ConfigError("imitation compares positions with the reference's, so it cannot have likeliest = true")
        if not plain_name(config.name):
            raise ConfigError(f"name {config.name!r} must be a plain name, as a folder is called by it")
    except (ConfigError, ValueError, TypeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return replace(config, data=replace(config.data, root=str(root))) if root else config


def task_of(config: PolicyConfig) -> TranslationTask | FillTask:
    """The model and the data that a configuration names."""
    from anyorder.text.load import load, translates

    model, data = load(config.model), config.data
    used, kept = (slice(0, n or None) for n in (config.train_sentences, config.valid_sentences))
    if not translates(model):
        texts = [
            [line for c in corpora for file in c.files for line in read_texts(Path(data.root) / file).lines]
            for corpora in (data.train, data.valid)
        ]
        return FillTask(model, texts[0][used], texts[1][kept], config.longest)
    if model.causal:
        raise ConfigError(f"{config.model} writes from left to right only: there is no order to learn")
    source, _, target = config.direction.partition("-")
    direction = model.direction(target, source)

    def pairs(corpora: Sequence[ParallelText]) -> tuple[list[str], list[str]]:
        read = [read_pairs(corpus, data) for corpus in corpora]
        first, second = [x for r in read for x in r.first], [x for r in read for x in r.second]
        return (first, second) if list(direction) == data.languages else (second, first)

    train, valid = pairs(data.train), pairs(data.valid)
    used_pairs, kept_pairs = (train[0][used], train[1][used]), (valid[0][kept], valid[1][kept])
    return TranslationTask(model, direction, used_pairs, kept_pairs, config.longest, config.likeliest)


def width_of(task: Task) -> int:
    """D of the model's hidden states."""
    context, state, _ = task.draw(1, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        return task.model.hidden(context, state.tokens).shape[-1]


def new_policy(config: PolicyConfig, width: int) -> Policy:
    """A policy as configured: from a file, or untrained."""
    settings = config.policy
    about = {"model": config.model, "direction": config.direction, "method": settings.method, "reward": settings.reward}
    if config.start:
        policy = Policy.load(config.start).train()
        check_width(policy, width)
        policy.about = about | {"start": policy.about.get("method", "")}
        return policy
    return settings.policy(width, about)


def learn(task: Judged, policy: Policy, settings: Settings, out: Path, name: str) -> Policy:
    """Train `policy` on a task, with its checkpoint and log under `out`. Run again to go on where it stopped."""
    trainer = PolicyTrainer(task, policy, settings)
    out.mkdir(parents=True, exist_ok=True)
    state = load_checkpoint(out / CHECKPOINT)
    if state is not None:
        trainer.restore(state, out / CHECKPOINT)
    wanted = {key: value for key, value in asdict(settings).items() if key != "minutes"}
    same_run(out / "settings.json", wanted, free=() if trainer.iteration >= settings.iterations else wanted)
    log = Log(out / LOG, trainer.iteration)
    with RewardBar(name, settings.iterations, trainer.iteration, task.measure) as bar:

        def report(numbers: dict[str, float]) -> None:
            log.write(step=trainer.iteration, **{k: round(v, 4) for k, v in numbers.items() if k != "iteration"})
            bar.show(trainer.iteration, numbers)

        trainer.run(report, lambda: save_checkpoint(out / CHECKPOINT, trainer.state()))
    policy.about[f"validation {task.measure}"] = round(trainer.best, 2)
    return policy


def train_policy(config: PolicyConfig, out: Path) -> Path:
    """Train a policy by its configuration under `out`; returns its file. Run again to go on where it stopped."""
    task = task_of(config)
    policy = new_policy(config, width_of(task))
    out.mkdir(parents=True, exist_ok=True)
    about = {name: value for name, value in asdict(config).items() if name not in ("name", "policy", "data")}
    corpora = {name: value for name, value in asdict(config.data).items() if name != "root"}
    same_run(out / "run.json", {**about, "data": corpora})
    write_atomically(out / "config.json", json.dumps(asdict(config), indent=1).encode())
    learn(task, policy, config.policy, out, config.name)
    file = out / ("-".join(filter(None, ["policy", config.direction])) + ".safetensors")
    policy.save(file)
    return file


class RewardBar(Bar):
    """Mean reward, entropy of the order, clip fraction, explained variance and validation, live on stderr."""

    def __init__(self, name: str, total: int, done: int, measure: str) -> None:
        super().__init__(name, total, done, every=math.inf)
        self.measure = measure
        self.smooth: dict[str, float] = {}

    def show(self, done: int, numbers: dict[str, float]) -> None:
        """Move the bar, with running means of the logged numbers."""
        names = ("reward", "entropy", "passes", "order share", "clip fraction", "explained variance", "agreement")
        for name in (n for n in names if n in numbers):
            self.smooth[name] = 0.9 * self.smooth.get(name, numbers[name]) + 0.1 * numbers[name]
        info = "  ".join(f"{name} {value:.2f}" for name, value in self.smooth.items())
        info += f"  {self.measure} {numbers['best']:.2f}"
        self.advance(done - self.done, info)
        if "validation" in numbers:
            self.info += f"  (now {numbers['validation']:.2f})"
            self.say()
