"""Checkpoints that are either whole or not there, the run's log beside them, and its live line."""

from __future__ import annotations

import errno
import io
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from anyorder.errors import AnyorderError, extra
from anyorder.files import FileError, agree, fingerprint, write_whole
from anyorder.progress import Bar


class TrainingError(AnyorderError):
    """Training cannot go on: why, what is safe, and what to do."""


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, whole or not at all; a failure says what is safe."""
    try:
        write_whole(path, content)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        state = f"the last good one, {path}, is intact" if path.exists() else "there is no earlier one"
        advice = "free some space and run the same command again: it goes on from there" if full else "see the cause"
        reason = "the disk is full" if full else str(error)
        raise TrainingError(f"{path.name} could not be written: {reason}; {state}; {advice}") from error


def same_run(path: Path, now: Mapping[str, Any], free: Iterable[str] = (), write: bool = True) -> None:
    """Note in `path` the settings of its folder's run; refuse a folder of another run.

    Settings named in `free` may change: the file then tells the new ones.
    """
    before = None
    if path.exists():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            agree(path.parent, before, now, "Choose another folder, or remove this one to begin anew", free)
        except (ValueError, RecursionError, AttributeError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{path} is damaged: remove it, if you know that the folder is of this run") from None
    if write and before != json.loads(json.dumps(now)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(now, indent=1).encode() + b"\n")


def of_texts(texts: Iterable[Iterable[str]]) -> str:
    """A fingerprint of lists of texts."""
    return fingerprint(*(part for some in texts for part in ("\0", *(text + "\n" for text in some))))


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a state in one piece: the old file stays until the new one is whole."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(path, buffer.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """The state, or None if there is none yet. Nothing but tensors and plain values is ever unpickled."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise TrainingError(
            f"{path} cannot be read ({type(error).__name__}): delete it to start this stage anew"
        ) from None
    return state


class Log:
    """JSON lines, each a record with a `step`. Records after a resumed step are dropped: they will come again."""

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        kept = [r for r in read_log(path) if r["step"] <= step] if path.exists() else []
        write_atomically(path, "".join(json.dumps(r) + "\n" for r in kept).encode())

    def write(self, **record: Any) -> None:
        """Append a record."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records; a last line that a crash cut short is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def plot_log(path: Path, out: Path) -> None:
    """Losses and BLEU over updates, as a picture."""
    with extra("train"):
        import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    records = read_log(path)
    valid = [r for r in records if "valid" in r]
    figure, axes = plt.subplots(1, 2 if any("bleu" in r for r in valid) else 1, figsize=(9, 3.5), squeeze=False)
    train = [(r["step"], r["loss"]) for r in records if "loss" in r]
    if train:
        axes[0][0].plot(*zip(*train, strict=True), label="training (smoothed labels)", alpha=0.6)
    if valid:
        axes[0][0].plot([r["step"] for r in valid], [r["valid"] for r in valid], label="validation")
    axes[0][0].set(xlabel="update", ylabel="loss per symbol, nats")
    axes[0][0].legend()
    if axes.shape[1] == 2:
        for direction in sorted({d for r in valid for d in r.get("bleu", {})}):
            points = [(r["step"], r["bleu"][direction]) for r in valid if direction in r.get("bleu", {})]
            axes[0][1].plot(*zip(*points, strict=True), label=direction)
        axes[0][1].set(xlabel="update", ylabel="validation BLEU")
        axes[0][1].legend()
    figure.tight_layout()
    figure.savefig(out, dpi=120)
    plt.close(figure)


class ProgressBar(Bar):
    """A bar, or a line every half minute where standard error is no terminal."""

    def __init__(self, name: str, total: int, done: int, enabled: bool) -> None:
        super().__init__(name, total, done, every=30, shown=enabled)
        self.loss = float("nan")
        self.best = ""
        self._speed, self._tick = 0.0, time.monotonic()

    def step(self, loss: float, tokens: int) -> None:
        """One update is done."""
        self.loss = loss if self.loss != self.loss else 0.95 * self.loss + 0.05 * loss
        now = time.monotonic()
        speed = tokens / max(now - self._tick, 1e-9)
        self._speed = speed if not self._speed else 0.9 * self._speed + 0.1 * speed
        self._tick = now
        self.advance(1, f"loss {self.loss:.3f}  {self._speed:,.0f} tokens/s  {self.best}")

    def validated(self, record: dict[str, Any]) -> None:
        """Show the scores of a validation."""
        scores = "  ".join(f"{k} {v:.1f}" for k, v in record.get("bleu", {}).items())
        self.best = f"valid {record['valid']:.3f}  {scores}".strip()
        self._tick = time.monotonic()
        self.advance(0, self.best)
        self.say()
