"""`anyorder train policy.toml`: learn a translation model's order; one direction, one small file."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from anyorder.core.order import Order
from anyorder.core.state import begin, canvas
from anyorder.core.symbols import Symbols
from anyorder.models.translation import Source
from anyorder.policy import Policy, check_width
from anyorder.search import padded
from anyorder.training.checkpoint import Log, load_checkpoint, save_checkpoint, write_atomically
from anyorder.training.config import ConfigError, Data, _build
from anyorder.training.ppo import PolicyTrainer, Settings
from anyorder.training.prepare import read_pairs
from anyorder.training.rollout import Episodes
from anyorder.training.translate import bleu
from anyorder.translator import Translator

CHECKPOINT, LOG = "checkpoint.pt", "log.jsonl"


@dataclass(frozen=True)
class PolicyConfig:
    """What a policy's TOML file says."""

    name: str
    model: str  # a shipped model's name, or a folder
    direction: str  # "de-en"
    data: Data
    kind: str = "policy"
    start: str = ""  # a policy file to go on from, such as one trained by imitation
    longest: int = 40  # symbols; pairs with a longer side are left out of training
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
        config: PolicyConfig = _build(PolicyConfig, raw, "")
        config = replace(config, policy=Settings.of(settings))
    except (ConfigError, ValueError, TypeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return replace(config, data=replace(config.data, root=str(root))) if root else config


class TranslationTask:
    """Episodes are training pairs on a canvas of the reference's length; validation is BLEU, T = L, greedy."""

    def __init__(
        self,
        translator: Translator,
        direction: tuple[str, str],
        train: tuple[Sequence[str], Sequence[str]],
        valid: tuple[Sequence[str], Sequence[str]],
        longest: int,
    ) -> None:
        self.translator, self.direction, self.valid = translator, direction, valid
        self.model: Any = translator.model.eval()
        special = self.model.symbols
        self.symbols = Symbols(ban=(special.bos, special.eos, special.pad, special.unk, special.mask))
        encode = translator.tokenizer.encode
        pairs = zip(encode(list(train[0]), direction[0]), encode(list(train[1]), direction[1]), strict=True)
        self.pairs = [(x, y) for x, y in pairs if 0 < len(x) <= longest and 0 < len(y) <= longest]
        if not self.pairs:
            raise ConfigError(f"no training pair has 1 to {longest} symbols on both sides: raise `longest`")
        self.source, self.target = (translator.languages.index(language) for language in direction)

    def draw(self, count: int, generator: torch.Generator) -> Episodes:
        rows = torch.randint(len(self.pairs), (count,), generator=generator).tolist()
        seed = int(torch.randint(1 << 30, (1,), generator=generator))
        sources = padded([self.pairs[i][0] for i in rows], self.model.pad_id)
        references = padded([self.pairs[i][1] for i in rows], self.model.pad_id)
        with torch.inference_mode():
            context = self.model.encode(Source(sources, self.source, self.target))
        blank = canvas((references != self.model.pad_id).sum(-1), self.model.mask_id, self.model.pad_id)
        return Episodes(context, begin(blank, self.model.mask_id, self.model.pad_id, seed=seed), references)

    def validate(self, order: Order | str, **options: Any) -> float:
        """BLEU of an order on the validation pairs, at the most likely length; options are those of a plan."""
        source, target = self.direction
        found = self.translator.translate(
            list(self.valid[0]), target, source=source, order=order, **({"lengths": 1} | options)
        )
        return bleu([t.text for t in found], list(self.valid[1]))


def task_of(config: PolicyConfig) -> TranslationTask:
    """The model and the data that a configuration names."""
    from anyorder.text import load

    translator = load(config.model)
    if not isinstance(translator, Translator) or translator.causal:
        raise ConfigError(f"{config.model} is no undirected translation model: a policy orders one of those")
    source, _, target = config.direction.partition("-")
    direction = translator.direction(target, source)
    flip = list(direction) != config.data.languages

    def pairs(corpora: Sequence[Any]) -> tuple[list[str], list[str]]:
        first, second = [], []
        for corpus in corpora:
            read = read_pairs(corpus, config.data)
            first += read.first * corpus.repeat
            second += read.second * corpus.repeat
        return (second, first) if flip else (first, second)

    valid = pairs(config.data.valid)
    kept = slice(0, config.valid_sentences or None)
    return TranslationTask(
        translator, direction, pairs(config.data.train), (valid[0][kept], valid[1][kept]), config.longest
    )


def new_policy(config: PolicyConfig, width: int) -> Policy:
    settings = config.policy
    about = {"model": config.model, "direction": config.direction, "method": settings.method, "reward": settings.reward}
    if config.start:
        policy = Policy.load(config.start).train()
        check_width(policy, width)
        policy.about = about | {"start": policy.about.get("method", "")}
        return policy
    torch.manual_seed(settings.seed)
    return Policy(width, settings.history, settings.hidden, settings.features, about)


def train_policy(config: PolicyConfig, out: Path) -> Path:
    """Train what a configuration says under `out`; the policy's file. Run again to go on where it stopped."""
    settings = config.policy
    task = task_of(config)
    policy = new_policy(config, task.model.architecture.dim)
    trainer = PolicyTrainer(task, policy, settings)
    out.mkdir(parents=True, exist_ok=True)
    state = load_checkpoint(out / CHECKPOINT)
    if state is not None:
        trainer.restore(state, out / CHECKPOINT)
    write_atomically(out / "config.json", json.dumps(asdict(config), indent=1).encode())
    log = Log(out / LOG, trainer.iteration)
    with Bar(config.name, settings.iterations, trainer.iteration) as bar:

        def report(numbers: dict[str, float]) -> None:
            log.write(step=trainer.iteration, **{k: round(v, 4) for k, v in numbers.items() if k != "iteration"})
            bar.show(trainer.iteration, numbers)

        trainer.run(report, lambda: save_checkpoint(out / CHECKPOINT, trainer.state()))
    file = out / f"policy-{config.direction}.safetensors"
    policy.about["validation BLEU"] = round(trainer.best, 2)
    policy.save(file)
    return file


class Bar:
    """Mean reward, entropy of the order, clip fraction, explained variance and validation BLEU, live on stderr."""

    def __init__(self, name: str, total: int, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.live = sys.stderr.isatty()
        console, info = Console(stderr=True), TextColumn("{task.fields[info]}")
        self.bar = Progress(*columns, info, console=console, disable=not self.live)
        self.task = self.bar.add_task(name, total=total, completed=done, info="")
        self.smooth: dict[str, float] = {}

    def __enter__(self) -> Bar:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def show(self, done: int, numbers: dict[str, float]) -> None:
        names = ("reward", "entropy", "clip fraction", "explained variance", "agreement")
        for name in (n for n in names if n in numbers):
            self.smooth[name] = 0.9 * self.smooth.get(name, numbers[name]) + 0.1 * numbers[name]
        info = "  ".join(f"{name} {value:.2f}" for name, value in self.smooth.items()) + f"  BLEU {numbers['best']:.2f}"
        self.bar.update(self.task, completed=done, info=info)
        if not self.live and "validation" in numbers:
            print(f"{done}  {info}  (now {numbers['validation']:.2f})", file=sys.stderr, flush=True)
