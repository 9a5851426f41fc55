"""Learning curves of policies, as a picture: `python -m benchmarks.studies.learning_curves RUN … --out curves.svg`.

A run is a folder that `anyorder train` made. Drawn over the episodes played: the reward of a rollout (a mean of the
last tenth, so that it can be read), and the validation wherever there was one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from anyorder.training.checkpoint import read_log


def curve(run: Path) -> tuple[list[float], list[float], list[tuple[float, float]]]:
    """Episodes and smoothed rewards of each iteration; episodes and quality of each validation."""
    log = read_log(run / "log.jsonl")
    each = json.loads((run / "settings.json").read_text(encoding="utf-8"))["generations"]
    episodes, rewards = [each * r["step"] for r in log], [r["reward"] for r in log]
    wide = max(1, len(log) // 10)
    smooth = [float(np.mean(rewards[max(0, k - wide + 1) : k + 1])) for k in range(len(log))]
    return episodes, smooth, [(each * r["step"], r["validation"]) for r in log if "validation" in r]


def draw(runs: list[Path], out: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "anyorder"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4))
    for run in runs:
        episodes, rewards, judged = curve(run)
        left.plot(episodes, rewards, label=run.name)
        right.plot(*zip(*judged, strict=True), marker="o", label=run.name)
    panels: list[tuple[Any, str]] = [(left, "reward of a rollout"), (right, "validation")]
    for panel, name in panels:
        panel.set_xlabel("episodes")
        panel.set_ylabel(name)
    left.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    draw(options.runs, options.out)


if __name__ == "__main__":
    main()
