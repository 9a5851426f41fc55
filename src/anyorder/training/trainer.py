"""The training loop: one stage of a configuration, on one process or many, resumable at any moment."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anyorder.errors import extra
from anyorder.machine import keep_freed_memory
from anyorder.models.folder import save_model
from anyorder.models.weights import own_weights, set_weights
from anyorder.training.checkpoint import Log, ProgressBar, TrainingError, load_checkpoint, plot_log, save_checkpoint
from anyorder.training.config import Stage
from anyorder.training.masking import epochs
from anyorder.training.objectives import Corpus, Tensors
from anyorder.training.optimizer import Average, learning_rate, optimizers

CHECKPOINT, LOG, BEST = "checkpoint.pt", "log.jsonl", "best"
Validate = Callable[[Any], dict[str, float]]  # model → BLEU by direction


@dataclass
class Position:
    """Where a run is: all its randomness follows from this and the seed."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch that are used up, over all processes
    best: float = math.inf  # lowest validation criterion so far
    seconds: float = 0.0  # spent in updates


class Trainer:
    """Trains `objective.model` in `folder`; call `run`."""

    def __init__(
        self,
        stage: Stage,
        objective: Any,
        valid: Corpus,
        folder: Path,
        bleu: Validate | None = None,
        finish: Callable[[Path], None] = lambda folder: None,  # what else belongs into a model folder
    ) -> None:
        with extra("train"):
            from accelerate import Accelerator

        self.stage, self.valid, self.folder, self.bleu, self.finish = stage, valid, folder, bleu, finish
        self.accelerator = Accelerator(
            cpu=not torch.accelerator.is_available(), mixed_precision=_precision(stage.precision)
        )
        self.world, self.rank = self.accelerator.num_processes, self.accelerator.process_index
        self.main = self.accelerator.is_main_process
        folder.mkdir(parents=True, exist_ok=True)
        keep_freed_memory()

        self.model: nn.Module = objective.model
        self.sizes, self.keys, self.corpus = objective.sizes, objective.keys, objective.corpus
        self.make_batch = objective.batch
        self.position = Position()
        self.average = Average(self.model, stage.average)
        state = load_checkpoint(folder / CHECKPOINT)
        if state is not None:
            set_weights(self.model, state["model"], folder / CHECKPOINT)
        self.objective = self.accelerator.prepare(objective)
        betas = (stage.betas[0], stage.betas[1])
        low = self.accelerator.mixed_precision == "bf16"
        self.optimizers = optimizers(self.model, stage.optimizer, betas, stage.weight_decay, low)
        if state is not None:
            self._restore(state)
        for name, weight in self.average.weights.items():
            self.average.weights[name] = weight.to(self.accelerator.device)

    def _restore(self, state: dict[str, Any]) -> None:
        if len(state["optimizers"]) != len(self.optimizers):
            raise TrainingError(
                f"{self.folder / CHECKPOINT} is of another optimizer: delete the folder, or keep the setting"
            )
        for optimizer, values in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(values)
        self.average.weights, self.average.count = state["average"], state["average_count"]
        self.position = Position(**state["position"])

    def save(self) -> None:
        """Write everything that resuming needs, in one piece."""
        if self.main:
            state = {
                "model": own_weights(self.model),
                "optimizers": [o.state_dict() for o in self.optimizers],
                "average": self.average.weights,
                "average_count": self.average.count,
                "position": vars(self.position),
            }
            save_checkpoint(self.folder / CHECKPOINT, state)

    def run(self) -> None:
        """Train to the last step; the model folder `best` is then complete."""
        stage, at = self.stage, self.position
        log = Log(self.folder / LOG, at.step) if self.main else None
        saved = time.monotonic()
        with ProgressBar(stage.name, stage.steps, at.step, enabled=self.main) as progress:
            for batches in self._updates():
                tick = time.perf_counter()
                loss = self._update(batches)
                at.seconds += time.perf_counter() - tick
                tokens = self.world * sum(int(_visible_tokens(b)) for b in batches)
                progress.step(loss, tokens)
                if log and (at.step % 50 == 0 or at.step == stage.steps):
                    log.write(step=at.step, epoch=at.epoch, loss=round(progress.loss, 5), seconds=round(at.seconds, 1))
                if at.step % stage.validate == 0 or at.step == stage.steps:
                    self._validate(log, progress)
                if at.step == stage.steps or time.monotonic() - saved > 60 * stage.save_minutes:
                    self.save()
                    saved = time.monotonic()
        if self.main:
            plot_log(self.folder / LOG, self.folder / "curves.png")
        self.accelerator.wait_for_everyone()

    def _updates(self) -> Iterator[list[Tensors]]:
        """The batches of each update that this process runs. Updates never cross an epoch's end."""
        stage, at = self.stage, self.position
        group: list[tuple[int, Tensor]] = []
        per_update = stage.accumulate * self.world
        endless = epochs(self.sizes, self.keys, stage.tokens, stage.seed, (at.epoch, at.batch), stage.sentences or None)
        for epoch, i, rows in endless:
            if at.step >= stage.steps:
                return
            if epoch != at.epoch:  # too few were left for a whole update
                if i == 0 and len(group) and group[0][0] == 0:
                    raise TrainingError(
                        f"an epoch has {len(group)} batches, one update of stage {stage.name!r} needs {per_update}: "
                        "lower `accumulate` or `tokens`, or use fewer processes"
                    )
                group = []
            at.epoch = epoch
            group.append((i, rows))
            if len(group) == per_update:
                # Tensors k of an update has the same masks and dropout whichever process runs it.
                mine = []
                for k in range(self.rank, per_update, self.world):
                    generator = torch.Generator().manual_seed(_seed(stage.seed, at.step, k))
                    batch = self.make_batch(self.corpus, group[k][1], generator)
                    mine.append({name: x.to(self.accelerator.device) for name, x in batch.items()})
                at.batch = i + 1  # as a checkpoint after this update must have it
                yield mine
                group = []

    def _update(self, batches: list[Tensors]) -> float:
        """One step of the optimizers on the mean loss over all symbols of all processes; the loss."""
        stage, at = self.stage, self.position
        self.objective.train()
        rate = self._rate()
        count = self.accelerator.reduce(torch.stack([b["count"] for b in batches]).sum().float(), "sum")
        total = torch.zeros((), device=self.accelerator.device)
        for j, batch in enumerate(batches):
            torch.manual_seed(_seed(stage.seed, at.step, j * self.world + self.rank) + 1)
            last = j == len(batches) - 1
            with _when(not last, self.accelerator.no_sync(self.objective)):
                loss = self.objective(**{k: v for k, v in batch.items() if k != "count"}) / count
                self.accelerator.backward(loss * self.world)  # processes average their gradients
            total += loss.detach()
        value = float(self.accelerator.reduce(total, "sum"))
        if not math.isfinite(value):
            raise TrainingError(
                f"the loss is {value} at update {at.step + 1} of stage {stage.name!r}, learning rate {rate:.2g}. "
                f"The last checkpoint in {self.folder} is from before that: run again with a lower learning_rate or "
                'a longer warmup, or with precision = "float32"'
            )
        self.accelerator.clip_grad_norm_(self.model.parameters(), stage.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        at.step += 1
        self.average.update(self.model)
        return value

    def _rate(self) -> float:
        s = self.stage
        return learning_rate(self.position.step, s.learning_rate, s.warmup, s.steps, s.cooldown, s.schedule)

    def _validate(self, log: Log | None, progress: ProgressBar) -> None:
        """Loss and BLEU of the averaged weights; the best are kept as a model folder. Main process only."""
        if self.main:
            own = {name: w.clone() for name, w in own_weights(self.model).items()}
            set_weights(self.model, self.average.weights)
            loss = self.valid_loss()
            record: dict[str, Any] = {"step": self.position.step, "valid": round(loss, 5)}
            criterion = loss
            if self.bleu is not None:
                scores = self.bleu(self.model)
                record["bleu"] = {k: round(v, 2) for k, v in scores.items()}
                if self.stage.objective != "alignment":  # whose BLEU hangs on the blank's offset, chosen at the end
                    criterion = -sum(scores.values()) / len(scores)
            if criterion < self.position.best:
                self.position.best = criterion
                save_model(self.model, self.folder / BEST)
                self.finish(self.folder / BEST)
            set_weights(self.model, own)
            progress.validated(record)
            if log:
                log.write(**record)
        self.accelerator.wait_for_everyone()

    @torch.no_grad()
    def valid_loss(self) -> float:
        """Mean loss of a symbol, without smoothing, on the validation pairs with always the same masks."""
        self.model.eval()
        module = self.accelerator.unwrap_model(self.objective)
        module.eval()
        sizes, _ = module.measure(self.valid)
        total, count = 0.0, 0
        generator = torch.Generator().manual_seed(0)
        order = sizes.argsort(stable=True)
        for start in range(0, len(order), 64):
            rows = order[start : start + 64]
            batch = {n: x.to(self.accelerator.device) for n, x in self.make_batch(self.valid, rows, generator).items()}
            count += int(batch.pop("count"))
            total += float(module(**batch))
        return total / max(count, 1)


def _visible_tokens(batch: Tensors) -> int:
    return batch["tokens"].numel() if "tokens" in batch else batch["source"].numel() + batch["target"].numel()


def _seed(seed: int, step: int, k: int) -> int:
    return (seed * 1_000_003 + step) * 1009 + 2 * k


def _when(condition: bool, context: Any) -> Any:
    from contextlib import nullcontext

    return context if condition else nullcontext()


def _precision(wanted: str) -> str:
    if wanted == "auto":
        return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"
    return "no" if wanted == "float32" else "bf16"
